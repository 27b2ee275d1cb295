"""Clients as others write them, paho and aiomqtt, and what they are told: for tests of what a broker refuses."""

from types import TracebackType
from typing import Any, Self

import aiomqtt
import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.support.process import Address
from tests.support.waiting import wait_until

SECONDS = 10.0


class Paho:
    """paho with a thread of its own. It does not reconnect."""

    def __init__(
        self, address: Address, version: int, client_id: str, user: str = "", password: str = "", kept: bool = False
    ) -> None:
        self.version = version
        self.connack = -1
        """The reason code or return code of CONNACK; -1 before it."""
        self.closed = False
        self.messages: list[mqtt.MQTTMessage] = []
        self._answers: dict[int, list[int]] = {}
        self._kept = kept
        clean = None if version == 5 else not kept
        client = self.client = mqtt.Client(
            CallbackAPIVersion.VERSION2,
            client_id,
            clean,
            protocol=MQTTProtocolVersion(version),
            reconnect_on_failure=False,
        )
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_subscribe = self._on_subscribe
        client.on_publish = self._on_publish
        client.on_message = lambda _client, _data, message: self.messages.append(message)
        if user:
            client.username_pw_set(user, password)
        self._address = address

    def connect(self) -> int:
        """CONNECT; returns the reason code: of MQTT 5, into which paho translates those of 3.1.1."""
        if self.version == 5 and self._kept:
            properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            properties.SessionExpiryInterval = 3600
            self.client.connect(*self._address, clean_start=False, properties=properties)
        else:
            self.client.connect(*self._address)
        self.client.loop_start()
        wait_until(lambda: self.connack >= 0, "CONNACK", SECONDS)
        return self.connack

    def subscribe(self, *filters: str, qos: int = 1) -> list[int]:
        """SUBSCRIBE; returns the reason codes of SUBACK."""
        _, number = self.client.subscribe([(topic_filter, qos) for topic_filter in filters])
        return self._answer(number)

    def publish(self, topic: str, payload: bytes, qos: int = 1, retain: bool = False) -> int:
        """PUBLISH; returns the reason code that refuses it, 0 if it is acknowledged, -1 if the connection is closed."""
        number = self.client.publish(topic, payload, qos, retain).mid
        return self._answer(number)[0]

    def _answer(self, number: int | None) -> list[int]:
        assert number is not None
        wait_until(lambda: number in self._answers or self.closed, "an answer", SECONDS)
        return self._answers.get(number, [-1])

    def _on_connect(self, _client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        self.connack = reason.value

    def _on_disconnect(self, *_: Any) -> None:
        self.closed = True

    def _on_subscribe(self, _client: Any, _data: Any, number: int, reasons: Any, _properties: Any) -> None:
        self._answers[number] = [reason.value for reason in reasons]

    def _on_publish(self, _client: Any, _data: Any, number: int, reason: Any, _properties: Any) -> None:
        self._answers[number] = [reason.value if reason.is_failure else 0]

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.disconnect()
        self.client.loop_stop()


def aiomqtt_client(
    address: Address, version: int, client_id: str, user: str = "", password: str = ""
) -> aiomqtt.Client:
    """aiomqtt, not connected yet."""
    return aiomqtt.Client(
        address.host,
        address.port,
        username=user or None,
        password=password or None,
        identifier=client_id,
        protocol=aiomqtt.ProtocolVersion.V5 if version == 5 else aiomqtt.ProtocolVersion.V311,
    )


