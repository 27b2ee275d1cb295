"""Who has published what at one broker, and what has come of it at the other: clients of paho-mqtt, unmodified."""

import threading
from collections import defaultdict, deque
from typing import Any, Final

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.support.process import Address

VERSIONS: Final = (MQTTProtocolVersion.MQTTv5, MQTTProtocolVersion.MQTTv311)
RECONNECT: Final = 3
"""Seconds until a client connects again: the broker is up by then. After two attempts that fail, paho-mqtt 2.2.0
publishes anew, without DUP, what had got as far as PUBREL. No broker can help its coming twice, and out of order."""
UNDER_WAY: Final = 20
"""PUBLISHes of one publisher that are not acknowledged, at most."""


def client(name: str, version: MQTTProtocolVersion, kept: bool) -> paho.Client:
    """A client that connects again by itself; `kept`: so is its session."""
    if version == MQTTProtocolVersion.MQTTv5:
        return paho.Client(CallbackAPIVersion.VERSION2, name, protocol=version)
    return paho.Client(CallbackAPIVersion.VERSION2, name, not kept, protocol=version)


def connect(made: paho.Client, address: Address, kept: bool) -> None:
    """Connect, and go on connecting in a thread."""
    made.reconnect_delay_set(RECONNECT, RECONNECT)
    options: dict[str, Any] = {}
    if made.protocol == MQTTProtocolVersion.MQTTv5:
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho has no types here
        properties.SessionExpiryInterval = 3600 if kept else 0
        options = {"clean_start": not kept, "properties": properties}
    made.connect_async(address.host, address.port, 5, **options)
    made.loop_start()


class Publisher:
    """Publishes numbers to one topic, as fast as it is told and they are acknowledged."""

    def __init__(
        self,
        name: str,
        address: Address,
        number: int,
        qos: int,
        under_way: int = UNDER_WAY,
        *,
        client_id: str = "",
        retain: bool = False,
    ) -> None:
        self.topic = f"{name}/{number}/{qos}"
        self.qos = qos
        self._retain = retain
        self.sent = 0
        self._acknowledged: set[int] = set()
        self._by_mid: dict[int, int] = {}
        self._answered: deque[int] = deque()
        self._lock = threading.Lock()
        self._under_way = under_way
        self._resumed = True
        """Whether all that was under way when the connection was lost has been sent again."""
        self._client = client(client_id or f"pub-{name}-{number}", VERSIONS[number % 2], True)
        self._client.on_publish = self._on_publish
        self._client.on_disconnect = self._on_disconnect
        self._client.max_inflight_messages_set(under_way)
        connect(self._client, address, True)

    def publish(self, size: int = 0) -> bool:
        """Publish the next number in at least so many bytes; False if too many are under way.

        After CONNECT paho-mqtt 2.2.0 sends what is new before what it has to send again: so nothing is until then.
        """
        if not self._client.is_connected():
            return False
        if self.qos and (pending := self.pending) and (pending >= self._under_way or not self._resumed):
            return False
        answer = self._client.publish(self.topic, (b"%d " % self.sent).ljust(size, b"."), self.qos, self._retain)
        if answer.rc not in (MQTTErrorCode.MQTT_ERR_SUCCESS, MQTTErrorCode.MQTT_ERR_NO_CONN):
            return False
        with self._lock:
            self._by_mid[answer.mid] = self.sent
        self.sent += 1
        return True

    def _on_disconnect(self, *_: Any) -> None:
        self._resumed = False

    def _on_publish(self, _client: Any, _data: Any, mid: int, _reason: Any, _properties: Any) -> None:
        """paho-mqtt calls it with a lock that `publish` takes too: here none may be waited for."""
        self._answered.append(mid)
        self._resumed = True

    def _note(self) -> None:
        """Take note of what has been acknowledged."""
        with self._lock:
            for _ in range(len(self._answered)):
                mid = self._answered.popleft()
                number = self._by_mid.pop(mid, None)
                if number is not None:
                    self._acknowledged.add(number)
                elif self._by_mid:  # `publish` has not returned yet
                    self._answered.append(mid)

    @property
    def acknowledged(self) -> set[int]:
        """The numbers that the broker has acknowledged."""
        self._note()
        return self._acknowledged

    @property
    def pending(self) -> int:
        """How many are not acknowledged."""
        self._note()
        return len(self._by_mid) if self.qos else 0

    def stop(self) -> None:
        """Leave."""
        self._client.disconnect()
        self._client.loop_stop()


class Subscriber:
    """Takes note of everything that comes, in a kept session or a clean one."""

    def __init__(self, name: str, address: Address, topic_filter: str, *, kept: bool = True) -> None:
        self.came: dict[str, list[int]] = defaultdict(list)
        """Numbers by topic, in the order in which they came."""
        self.ready = threading.Event()
        self._filter = topic_filter
        self._client = client(name, MQTTProtocolVersion.MQTTv5, kept)
        self._client.on_connect = self._on_connect
        self._client.on_subscribe = lambda *_: self.ready.set()
        self._client.on_message = self._on_message
        connect(self._client, address, kept)

    def _on_connect(self, *_: Any) -> None:
        self._client.subscribe(self._filter, 2)

    def _on_message(self, _client: Any, _data: Any, message: paho.MQTTMessage) -> None:
        self.came[message.topic].append(int(message.payload.partition(b" ")[0]))

    def count(self) -> int:
        """How many messages have come."""
        return sum(map(len, self.came.values()))

    def stop(self) -> None:
        """Leave."""
        self._client.disconnect()
        self._client.loop_stop()


def violations(publisher: Publisher, came: list[int]) -> list[str]:
    """What is wrong with what has come of one publisher."""
    wrong: list[str] = []
    missing = publisher.acknowledged - set(came) if publisher.qos else set()
    if missing:
        wrong.append(f"{publisher.topic}: {len(missing)} acknowledged messages are lost, such as {sorted(missing)[:5]}")
    if publisher.qos == 2 and len(came) != len(set(came)):
        twice = sorted({each for each in came if came.count(each) > 1})
        wrong.append(f"{publisher.topic}: {len(twice)} messages came twice, such as {twice[:5]}")
    firsts = list(dict.fromkeys(came))
    if firsts != sorted(firsts):
        at = next(i for i in range(1, len(firsts)) if firsts[i] < firsts[i - 1])
        wrong.append(f"{publisher.topic}: {firsts[at]} came after {firsts[at - 1]}")
    return wrong
