"""gmqtt: asyncio, a codec of its own."""

import asyncio
from typing import Any
from uuid import uuid4

import gmqtt
from gmqtt.mqtt.constants import MQTTv50, MQTTv311

from tests.clients.aiomqtt_client import context
from tests.clients.exchange import KEPT, TIMEOUT, Outcome, Plan, Received


class Client:
    """One client whose callbacks fill queues."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._inbox: asyncio.Queue[Received] = asyncio.Queue()
        self._granted: asyncio.Queue[tuple[int, ...]] = asyncio.Queue()
        self._client: Any = gmqtt.Client(f"gmqtt-{uuid4().hex}")
        self._client.on_message = self._on_message
        self._client.on_subscribe = self._on_subscribe

    async def connect(self) -> None:
        """Connect; gmqtt raises if the broker refuses."""
        version = MQTTv50 if self._plan.version == 5 else MQTTv311
        tls = context(self._plan)
        await self._client.connect(*self._plan.address, ssl=tls or False, version=version)

    async def subscribe(self, topic_filter: str, qos: int) -> None:
        """Subscribe and wait for the SUBACK, which has to grant the QoS."""
        self._client.subscribe(topic_filter, qos=qos)
        granted = await asyncio.wait_for(self._granted.get(), TIMEOUT)
        assert granted == (qos,), granted

    def publish(self, topic: str, payload: bytes, qos: int, *, retain: bool = False) -> None:
        """Publish; gmqtt does the rest in the background."""
        self._client.publish(topic, payload, qos=qos, retain=retain)

    async def receive(self, count: int) -> list[Received]:
        """Return the next messages."""
        return [await asyncio.wait_for(self._inbox.get(), TIMEOUT) for _ in range(count)]

    async def disconnect(self) -> None:
        """Take leave when nothing is on its way any more: asyncio's TLS cannot bear data behind its own goodbye."""
        for _ in range(2):  # round trips, as many as QoS 2 takes
            await self.subscribe(f"settled/{uuid4().hex}", 0)
        await self._client.disconnect()

    def _on_message(self, client: Any, topic: str, payload: Any, qos: int, properties: Any) -> int:
        self._inbox.put_nowait(Received(topic, bytes(payload), qos, bool(properties["retain"])))
        return 0

    def _on_subscribe(self, client: Any, mid: int, qos: tuple[int, ...], properties: Any) -> None:
        self._granted.put_nowait(tuple(qos))


def run(plan: Plan) -> Outcome:
    """Carry out the exchange."""
    return asyncio.run(_exchange(plan))


async def _exchange(plan: Plan) -> Outcome:
    subscriber, publisher, late = clients = [Client(plan) for _ in range(3)]
    for client in clients:
        await client.connect()
    await subscriber.subscribe(plan.topic_filter, plan.qos)
    for topic, payload in plan.messages():
        publisher.publish(topic, payload, plan.qos)
    publisher.publish(plan.kept_topic, KEPT, plan.qos, retain=True)
    live = await subscriber.receive(len(plan.messages()) + 1)
    await late.subscribe(plan.topic_filter, plan.qos)
    retained = await late.receive(1)
    publisher.publish(plan.kept_topic, b"", plan.qos, retain=True)
    await late.receive(1)
    for client in clients:
        await client.disconnect()
    return Outcome(live, retained)
