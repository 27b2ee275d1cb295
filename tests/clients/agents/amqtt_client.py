"""amqtt's client: asyncio, MQTT 3.1.1 only. A burst is what its documentation shows: tasks, awaited together.

But a thousand at a time: it gives every acknowledgement five seconds from the moment of `publish`, and 20,000 that
begin at once take it longer than that by itself, with Mosquitto as well.
"""

import asyncio

from amqtt.client import MQTTClient

from tests.clients.agents.base import Agent, Link, numbered, serve

TOGETHER = 1_000


class Amqtt(Agent):
    """An agent for amqtt."""

    async def connect(self, link: Link) -> None:
        """Connect, and begin to receive messages."""
        config: dict[str, object] = {"auto_reconnect": False}
        if link.will_topic:
            config["will"] = {
                "topic": link.will_topic,
                "message": link.will.decode(),
                "qos": link.will_qos,
                "retain": link.will_retain,
            }
        if link.certfile:
            config["connection"] = {"certfile": link.certfile, "keyfile": link.keyfile}
        self._client = MQTTClient(link.client_id, config=config)
        scheme = "mqtts" if link.cafile else "mqtt"
        uri = f"{scheme}://{link.host}:{link.port}/"
        await self._client.connect(uri, cleansession=link.clean, cafile=link.cafile or None)
        self._taking = asyncio.create_task(self._take())

    async def subscribe(self, filter: str, qos: int) -> None:  # noqa: A002  # the field of the order
        """Subscribe and wait for the SUBACK, which must grant the QoS."""
        granted = await self._client.subscribe([(filter, qos)])
        assert granted == [qos], granted

    async def publish(self, topic: str, payload: str, qos: int, retain: bool) -> None:
        """Publish and wait until it is sent, or acknowledged."""
        await self._client.publish(topic, bytes.fromhex(payload), qos, retain)

    async def burst(self, topic: str, count: int, size: int, qos: int) -> None:
        """Publish all, wait for all, disconnect."""
        payloads = list(numbered(count, size))
        for first in range(0, count, TOGETHER):
            sent = [self._client.publish(topic, payload, qos) for payload in payloads[first : first + TOGETHER]]
            await asyncio.gather(*sent)
        await self.disconnect()

    async def disconnect(self) -> None:
        """Disconnect."""
        self.leaving = True
        self._taking.cancel()
        await self._client.disconnect()

    async def _take(self) -> None:
        while True:
            message = await self._client.deliver_message()
            if message is None or message.publish_packet is None:
                self.gone("disconnected")
                return
            packet = message.publish_packet
            self.received(message.topic, bytes(message.data or b""), packet.qos, packet.retain_flag)


if __name__ == "__main__":
    serve(Amqtt)
