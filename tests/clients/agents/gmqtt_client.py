"""gmqtt: asyncio, a codec of its own."""

import asyncio
from typing import Any

import gmqtt
from gmqtt.mqtt.constants import MQTTv50, MQTTv311
from gmqtt.mqtt.handler import MQTTConnectError

from tests.clients.agents.base import CALM, Agent, Link, RefusedError, numbered, serve

GRACE = 1.0
"""Seconds for what is said of a connection after its end."""


class Gmqtt(Agent):
    """An agent for gmqtt."""

    async def connect(self, link: Link) -> None:
        """Connect; gmqtt raises if the broker refuses."""
        self.begin()
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
        if link.username:
            self._client.set_auth_credentials(link.username, link.password or None)
        self._gone = asyncio.Event()
        connecting = asyncio.ensure_future(
            self._client.connect(link.host, link.port, ssl=link.tls() or False, version=version)
        )
        gone = asyncio.ensure_future(self._gone.wait())
        await asyncio.wait((connecting, gone), timeout=CALM, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        await asyncio.wait((connecting,), timeout=GRACE)  # gmqtt reports the end of the connection before its reason
        if connecting.done():
            try:
                connecting.result()
            except MQTTConnectError as error:
                raise RefusedError(error._code, str(error)) from error
        else:
            connecting.cancel()
            await self._client.disconnect()
            raise RefusedError(-1, self.lost[0] if self.lost else "no CONNACK")

    async def subscribe(self, filter: str, qos: int) -> None:  # noqa: A002  # the field of the order
        """Subscribe and wait for the SUBACK, which must grant the QoS."""
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
        """Disconnect."""
        self.leaving = True
        await self._client.disconnect()

    async def _settled(self) -> None:
        """Wait for the acknowledgements, which show only in gmqtt's store of messages."""
        await self._client._persistent_storage.wait_empty()

    def _on_message(self, client: Any, topic: str, payload: Any, qos: int, properties: Any) -> int:
        self.received(topic, bytes(payload), qos, bool(properties["retain"]))
        return 0

    def _on_subscribe(self, client: Any, mid: int, qos: tuple[int, ...], properties: Any) -> None:
        self._granted.put_nowait(tuple(qos))

    def _on_disconnect(self, client: Any, packet: Any, error: Any = None) -> None:
        if client is self._client:  # else it is the one of a connection before, which was refused
            self.gone(f"disconnected: {error or packet}")
            self._gone.set()


if __name__ == "__main__":
    serve(Gmqtt)
