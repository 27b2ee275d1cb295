"""paho-mqtt: callbacks, one thread for each client."""

import queue
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from tests.clients.exchange import KEPT, TIMEOUT, Outcome, Plan, Received


class Client:
    """One connected client; what it receives waits in a queue."""

    def __init__(self, plan: Plan, will: Received | None = None) -> None:
        self._inbox: queue.Queue[Received] = queue.Queue()
        self._events: queue.Queue[str] = queue.Queue()
        protocol = MQTTProtocolVersion.MQTTv5 if plan.version == 5 else MQTTProtocolVersion.MQTTv311
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=protocol)
        self._client.on_connect = self._on_connect
        self._client.on_subscribe = self._on_subscribe
        self._client.on_message = self._on_message
        if will:
            self._client.will_set(will.topic, will.payload, will.qos, will.retain)
        if plan.tls:
            certificate = plan.tls.certificate
            files = (str(certificate.certfile), str(certificate.keyfile)) if certificate else (None, None)
            self._client.tls_set(plan.tls.cafile, *files)
        self._client.connect(*plan.address)
        self._client.loop_start()
        self._expect("Success")

    def subscribe(self, topic_filter: str, qos: int) -> None:
        """Subscribe and wait for the SUBACK, which has to grant the QoS."""
        self._client.subscribe(topic_filter, qos)
        self._expect(f"Granted QoS {qos}")

    def publish(self, topic: str, payload: bytes, qos: int, *, retain: bool = False) -> None:
        """Publish and wait for the acknowledgement, if there is one."""
        self._client.publish(topic, payload, qos, retain).wait_for_publish(TIMEOUT)

    def receive(self, count: int) -> list[Received]:
        """Return the next messages."""
        return [self._inbox.get(timeout=TIMEOUT) for _ in range(count)]

    def close(self) -> None:
        """Disconnect and end the thread."""
        self._client.disconnect()
        self._client.loop_stop()

    def vanish(self) -> None:
        """End the connection as a crash would: without DISCONNECT."""
        self._client.loop_stop()
        connection = self._client.socket()
        assert connection is not None
        connection.close()

    def _expect(self, event: str) -> None:
        seen = self._events.get(timeout=TIMEOUT)
        assert seen == event, f"expected {event}, the broker said {seen}"

    def _on_connect(self, client: mqtt.Client, data: Any, flags: Any, reason: Any, properties: Any) -> None:
        self._events.put(str(reason))

    def _on_subscribe(self, client: mqtt.Client, data: Any, mid: int, reasons: Any, properties: Any) -> None:
        self._events.put(str(reasons[0]))

    def _on_message(self, client: mqtt.Client, data: Any, message: mqtt.MQTTMessage) -> None:
        self._inbox.put(Received(message.topic, bytes(message.payload), message.qos, message.retain))


@contextmanager
def connected(plan: Plan, will: Received | None = None) -> Iterator[Client]:
    """A client for the time of the block."""
    client = Client(plan, will)
    try:
        yield client
    finally:
        client.close()


def run(plan: Plan) -> Outcome:
    """Carry out the exchange."""
    with connected(plan) as subscriber, connected(plan) as publisher, connected(plan) as late:
        subscriber.subscribe(plan.topic_filter, plan.qos)
        for topic, payload in plan.messages():
            publisher.publish(topic, payload, plan.qos)
        publisher.publish(plan.kept_topic, KEPT, plan.qos, retain=True)
        live = subscriber.receive(len(plan.messages()) + 1)
        late.subscribe(plan.topic_filter, plan.qos)
        retained = late.receive(1)
        publisher.publish(plan.kept_topic, b"", plan.qos, retain=True)
        return Outcome(live, retained)
