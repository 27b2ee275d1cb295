"""aiomqtt: asyncio, based on paho-mqtt. A burst is as in its documentation: each publish is awaited."""

import asyncio
from typing import Any

import aiomqtt

from tests.clients.agents.base import PATH, Agent, Link, RefusedError, numbered, serve
from tests.clients.agents.paho_client import expiring


class Aiomqtt(Agent):
    """An agent for aiomqtt."""

    async def connect(self, link: Link) -> None:
        """Connect, and begin to receive messages."""
        self.begin()
        self._client = self._made(link)
        try:
            await self._client.__aenter__()
        except aiomqtt.MqttCodeError as error:
            raise RefusedError(getattr(error.rc, "value", -1), str(error)) from error
        self._taking = asyncio.create_task(self._take())

    @staticmethod
    def _made(link: Link) -> aiomqtt.Client:
        will = None
        if link.will_topic:
            will = aiomqtt.Will(link.will_topic, link.will, link.will_qos, link.will_retain)
        if link.version == 5:
            return aiomqtt.Client(
                link.host,
                link.port,
                identifier=link.client_id,
                protocol=aiomqtt.ProtocolVersion.V5,
                clean_start=link.clean,
                properties=expiring(link.expiry),
                will=will,
                tls_context=link.tls(),
                **_more(link),
            )
        return aiomqtt.Client(
            link.host,
            link.port,
            identifier=link.client_id,
            protocol=aiomqtt.ProtocolVersion.V311,
            clean_session=link.clean,
            will=will,
            tls_context=link.tls(),
            **_more(link),
        )

    async def subscribe(self, filter: str, qos: int) -> None:  # noqa: A002  # the field of the order
        """Subscribe and wait for the SUBACK."""
        await self._client.subscribe(filter, qos)

    async def publish(self, topic: str, payload: str, qos: int, retain: bool) -> None:
        """Publish and wait until it is sent, or acknowledged."""
        await self._client.publish(topic, bytes.fromhex(payload), qos, retain)

    async def burst(self, topic: str, count: int, size: int, qos: int) -> None:
        """Publish in a loop and disconnect."""
        for payload in numbered(count, size):
            await self._client.publish(topic, payload, qos)
        await self.disconnect()

    async def disconnect(self) -> None:
        """Disconnect."""
        self.leaving = True
        self._taking.cancel()
        await self._client.__aexit__(None, None, None)

    async def _take(self) -> None:
        try:
            async for message in self._client.messages:
                assert isinstance(message.payload, bytes)
                self.received(str(message.topic), message.payload, message.qos, message.retain)
        except aiomqtt.MqttError as error:
            self.gone(str(error))


def _more(link: Link) -> dict[str, Any]:
    """Options that the client has only if they are used."""
    found: dict[str, Any] = {}
    if link.username:
        found |= {"username": link.username, "password": link.password or None}
    if link.websocket:
        found |= {"transport": "websockets", "websocket_path": PATH}
    return found


if __name__ == "__main__":
    serve(Aiomqtt)
