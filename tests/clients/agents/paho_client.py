"""paho-mqtt: callbacks, one thread; it is also the peer of every client that is tested."""

import queue
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.clients.agents.base import CALM, PATH, Agent, Link, RefusedError, numbered, serve


def expiring(seconds: int) -> Properties:
    """Return the properties of a CONNECT with the session's expiry interval."""
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho leaves it without types
    properties.SessionExpiryInterval = seconds
    return properties


class Paho(Agent):
    """An agent for paho-mqtt."""

    def connect(self, link: Link) -> None:
        """Connect; a refusal is an error."""
        self.begin()
        self._connack = -1
        self._events: queue.Queue[str] = queue.Queue()
        self._client = client = self._made(link)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_subscribe = self._on_subscribe
        client.on_message = self._on_message
        if link.will_topic:
            client.will_set(link.will_topic, link.will, link.will_qos, link.will_retain)
        if link.cafile:
            client.tls_set(link.cafile, link.certfile or None, link.keyfile or None)
        if link.version == 5:
            client.connect(link.host, link.port, clean_start=link.clean, properties=expiring(link.expiry))
        else:
            client.connect(link.host, link.port)
        client.loop_start()
        seen = self._events.get(timeout=CALM)
        if seen != "Success":
            self.disconnect()
            raise RefusedError(self._connack, seen)

    @staticmethod
    def _made(link: Link) -> mqtt.Client:
        version = MQTTProtocolVersion.MQTTv5 if link.version == 5 else MQTTProtocolVersion.MQTTv311
        client = mqtt.Client(
            CallbackAPIVersion.VERSION2,
            link.client_id,
            clean_session=None if link.version == 5 else link.clean,
            protocol=version,
            transport="websockets" if link.websocket else "tcp",
        )
        if link.websocket:
            client.ws_set_options(PATH)
        if link.username:
            client.username_pw_set(link.username, link.password or None)
        return client

    def subscribe(self, filter: str, qos: int) -> None:  # noqa: A002  # the field of the order
        """Subscribe and wait for the SUBACK, which must grant the QoS."""
        self._client.subscribe(filter, qos)
        self._expect(f"Granted QoS {qos}")

    def publish(self, topic: str, payload: str, qos: int, retain: bool) -> None:
        """Publish and wait until it is sent, or acknowledged."""
        self._client.publish(topic, bytes.fromhex(payload), qos, retain).wait_for_publish(CALM)

    def burst(self, topic: str, count: int, size: int, qos: int) -> None:
        """Publish in a loop, wait for the acknowledgements if there are any, disconnect."""
        sent = [self._client.publish(topic, payload, qos) for payload in numbered(count, size)]
        if qos:
            for message in sent:
                message.wait_for_publish()
        self.disconnect()

    def disconnect(self) -> None:
        """Disconnect, and end the thread."""
        self.leaving = True
        self._client.disconnect()
        self._client.loop_stop()

    def _expect(self, event: str) -> None:
        seen = self._events.get(timeout=CALM)
        assert seen == event, f"expected {event}, the broker said {seen}"

    def _on_connect(self, client: mqtt.Client, data: Any, flags: Any, reason: Any, properties: Any) -> None:
        self._connack = reason.value
        self._events.put(str(reason))

    def _on_disconnect(self, client: mqtt.Client, data: Any, flags: Any, reason: Any, properties: Any) -> None:
        if self._connack < 0:
            self._events.put(f"disconnected: {reason}")
        self.gone(f"disconnected: {reason}")

    def _on_subscribe(self, client: mqtt.Client, data: Any, mid: int, reasons: Any, properties: Any) -> None:
        self._events.put(str(reasons[0]))

    def _on_message(self, client: mqtt.Client, data: Any, message: mqtt.MQTTMessage) -> None:
        self.received(message.topic, bytes(message.payload), message.qos, message.retain)


if __name__ == "__main__":
    serve(Paho)
