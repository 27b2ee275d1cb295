"""gmqtt: asyncio, a codec of its own."""

import asyncio
from typing import Any

import gmqtt
from gmqtt.mqtt.constants import MQTTv50, MQTTv311

from tests.clients.agents.base import CALM, Agent, Link, numbered, serve


class Gmqtt(Agent):
    """An agent for gmqtt."""

    async def connect(self, link: Link) -> None:
        """Connect; gmqtt raises if the broker refuses."""
        self._granted: asyncio.Queue[tuple[int, ...]] = asyncio.Queue()
        will = None
        if link.will_topic:
            will = gmqtt.Message(link.will_topic, link.will, qos=link.will_qos, retain=link.will_retain)
        expiry = {"session_expiry_interval": link.expiry} if link.version == 5 else {}
        self._client: Any = gmqtt.Client(link.client_id, clean_session=link.clean, will_message=will, **expiry)
        self._client.on_message = self._on_message
        self._client.on_subscribe = self._on_subscribe
        self._client.on_disconnect = self._on_disconnect
        version = MQTTv50 if link.version == 5 else MQTTv311
        await self._client.connect(link.host, link.port, ssl=link.tls() or False, version=version)

    async def subscribe(self, filter: str, qos: int) -> None:  # noqa: A002  # the field of the order
        """Subscribe and wait for the SUBACK, which has to grant the QoS."""
        self._client.subscribe(filter, qos=qos)
        granted = await asyncio.wait_for(self._granted.get(), CALM)
        assert granted == (qos,), granted

    async def publish(self, topic: str, payload: str, qos: int, retain: bool) -> None:
        """Publish and wait until nothing is unacknowledged."""
        self._client.publish(topic, bytes.fromhex(payload), qos=qos, retain=retain)
        await self._settled()

    async def burst(self, topic: str, count: int, size: int, qos: int) -> None:
        """Publish in a loop, wait until nothing is unacknowledged, disconnect."""
        for payload in numbered(count, size):
            while True:
                try:
                    self._client.publish(topic, payload, qos=qos)
                    break
                except OverflowError:  # all packet ids that the broker's Receive Maximum allows are in use
                    await asyncio.sleep(0)
        await self._settled()
        await self.disconnect()

    async def disconnect(self) -> None:
        """Take leave."""
        self.leaving = True
        await self._client.disconnect()

    async def _settled(self) -> None:
        """Wait for the acknowledgements; gmqtt shows only by its store of messages that they are there."""
        await self._client._persistent_storage.wait_empty()

    def _on_message(self, client: Any, topic: str, payload: Any, qos: int, properties: Any) -> int:
        self.received(topic, bytes(payload), qos, bool(properties["retain"]))
        return 0

    def _on_subscribe(self, client: Any, mid: int, qos: tuple[int, ...], properties: Any) -> None:
        self._granted.put_nowait(tuple(qos))

    def _on_disconnect(self, client: Any, packet: Any, error: Any = None) -> None:
        self.gone(f"disconnected: {error or packet}")


if __name__ == "__main__":
    serve(Gmqtt)
