"""A strict client's view of one connection: what it has said, what it was told, and whether it may be told that."""

from collections import Counter
from typing import Final

from protocol import properties as props
from protocol.acknowledgements import Puback, Pubcomp, Pubrec
from protocol.auth import Auth
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.decoder import Decoder
from protocol.disconnect import Disconnect
from protocol.errors import MQTTError
from protocol.packet import Packet
from protocol.ping import Pingreq, Pingresp
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe
from protocol.unsuback import Unsuback
from protocol.unsubscribe import Unsubscribe

FAILURE: Final = 0x80
"""Reason codes from here on say that something is refused."""
CONNACK_BYTES: Final = 5
"""Nobody who takes less can be told why it is refused."""


class Observer:
    """Feed it what goes over the connection, both ways; AssertionError when the broker breaks a rule."""

    def __init__(self, largest: int) -> None:
        self.connect: Connect | None = None
        self.error: MQTTError | None = None
        """What is wrong with what the client has said, as far as the codec knows."""
        self.left = False
        """The client has said DISCONNECT."""
        self.connack: Connack | None = None
        self.challenge: bytes | None = None
        """Authentication Data of the last AUTH from the broker."""
        self.last: Packet | None = None
        """What the broker said last."""
        self.publishes: list[Publish] = []
        """Messages that the client has received and that were not asked for since."""
        self.inflight: dict[int, int] = {}
        """Packet ids of deliveries that are not fully acknowledged; 1 = PUBACK is missing, 2 = PUBREC, 3 = PUBCOMP."""
        self._mouth = Decoder(largest)
        self._ear: Decoder | None = None
        self._pings = 0
        self._answers: Counter[tuple[str, int]] = Counter()
        """How often a packet of a kind with an id may still come."""
        self._filters: dict[tuple[str, int], list[int]] = {}
        self._aliases: dict[int, bytes] = {}

    @property
    def version(self) -> int:
        """The client's, as the broker understands it; 0 = it cannot know."""
        return self._mouth.version

    def asked(self, key: int, default: int) -> int:
        """Return a number that the client stated in its CONNECT."""
        value = (self.connect.properties or {}).get(key, default) if self.connect is not None else default
        assert isinstance(value, int)
        return value

    @property
    def largest(self) -> int:
        """The client's Maximum Packet Size, even if its CONNECT is wrong behind it; 0 = none."""
        if self.connect is None and self.error is not None:
            return self.error.maximum_packet_size
        return self.asked(props.MAXIMUM_PACKET_SIZE, 0)

    # -- what the client says

    def says(self, data: bytes) -> list[Packet]:
        """The client sends this; returns the packets that are complete by now."""
        packets: list[Packet] = []
        self._mouth.feed(data)
        try:
            while (packet := self._mouth.next_packet()) is not None:
                packets.append(packet)
                self._said(packet)
        except MQTTError as error:
            self.error = error
        return packets

    def _said(self, packet: Packet) -> None:
        if isinstance(packet, Connect):
            self.connect = packet
        elif isinstance(packet, Disconnect):
            self.left = True
        elif isinstance(packet, Pingreq):
            self._pings += 1
        elif isinstance(packet, Publish) and packet.qos:
            self._answers["Puback" if packet.qos == 1 else "Pubrec", packet.packet_id] += 1
        elif isinstance(packet, Subscribe):
            self._filters.setdefault(("Suback", packet.packet_id), []).append(len(packet.subscriptions))
        elif isinstance(packet, Unsubscribe):
            self._filters.setdefault(("Unsuback", packet.packet_id), []).append(len(packet.topic_filters))
        elif isinstance(packet, (Puback, Pubrec, Pubcomp)):
            self._acknowledged(packet)
        elif type(packet).__name__ == "Pubrel":
            self._answers["Pubcomp", packet.packet_id] += 1  # type: ignore[attr-defined]

    def _acknowledged(self, packet: Puback | Pubrec | Pubcomp) -> None:
        waits_for = self.inflight.get(packet.packet_id)
        if isinstance(packet, Pubrec):
            if waits_for in (2, 3):
                self.inflight[packet.packet_id] = 3
                if packet.reason_code >= FAILURE:
                    del self.inflight[packet.packet_id]
        elif waits_for == (1 if isinstance(packet, Puback) else 3):
            del self.inflight[packet.packet_id]

    # -- what the broker says

    def hears(self, data: bytes) -> list[Packet]:
        """The client receives this; returns the packets, each of which must be right where it comes."""
        if self._ear is None:
            assert self.version or self.error is not None, "the broker speaks first"
            self._ear = Decoder(self.largest, version=self._version_of(data))
        packets = []
        self._ear.feed(data)
        while (packet := self._ear.next_packet()) is not None:
            self._told(packet)
            self.last = packet
            packets.append(packet)
        assert not self._ear.buffered, "half a packet"
        return packets

    def _version_of(self, data: bytes) -> int:
        """Who asks for an unknown version is answered in the nearest, a CONNACK of 4 or more bytes."""
        return self.version or (4 if len(data) == 4 else 5)

    def _told(self, packet: Packet) -> None:
        name = type(packet).__name__
        assert not isinstance(self.last, Disconnect), f"{name} after DISCONNECT"
        if self.connack is None:
            assert isinstance(packet, (Connack, Auth)), f"{name} before CONNACK"
        else:
            assert not isinstance(packet, Connack), "a second CONNACK"
            assert self.connack.reason_code == 0, f"{name} after a CONNACK that refuses"
        if isinstance(packet, Connack):
            self.connack = packet
        elif isinstance(packet, Auth):
            data = (packet.properties or {})[props.AUTHENTICATION_DATA]
            assert isinstance(data, bytes)
            self.challenge = data
        elif isinstance(packet, Publish):
            self._delivered(packet)
        elif isinstance(packet, Pingresp):
            self._pings -= 1
            assert self._pings >= 0, "PINGRESP to no PINGREQ"
        elif isinstance(packet, (Suback, Unsuback)):
            waiting = self._filters.get((name, packet.packet_id))
            assert waiting, f"{name} {packet.packet_id} answers nothing"
            count = waiting.pop(0)
            assert len(packet.reason_codes) == (count if name == "Suback" or self.version == 5 else 0)
        elif isinstance(packet, (Puback, Pubrec, Pubcomp)):
            self._answers[name, packet.packet_id] -= 1
            assert self._answers[name, packet.packet_id] >= 0, f"{name} {packet.packet_id} answers nothing"
        elif isinstance(packet, Disconnect):
            assert self.version == 5, "DISCONNECT to a client of MQTT 3.1.1"
            assert packet.reason_code >= FAILURE, "DISCONNECT with a reason that is none"
        else:
            assert name == "Pubrel", f"{name} is not for a server to send"

    def _delivered(self, publish: Publish) -> None:
        alias = (publish.properties or {}).get(props.TOPIC_ALIAS)
        if alias is not None:
            assert isinstance(alias, int)
            assert alias <= self.asked(props.TOPIC_ALIAS_MAXIMUM, 0), "a topic alias above the client's maximum"
            if publish.topic:
                self._aliases[alias] = publish.topic
            publish.topic = self._aliases[alias]
        self.publishes.append(publish)
        if publish.qos == 0:
            return
        known = self.inflight.get(publish.packet_id)
        assert known is None or (publish.dup and known == publish.qos), f"packet id {publish.packet_id} is in use"
        self.inflight[publish.packet_id] = publish.qos
        most = self.asked(props.RECEIVE_MAXIMUM, 65_535)
        assert len(self.inflight) <= most, "more in flight than the client's Receive Maximum"

    def closed(self, *, waited: bool) -> None:
        """The broker has closed, and the client has not asked it to: an MQTT 5 client must know why."""
        if self.version != 5 or self.left or (waited and self.connack is None):
            return
        if self.connack is None and 0 < self.largest < CONNACK_BYTES:  # [MQTT-3.1.2-24]
            return
        assert isinstance(self.last, (Connack, Disconnect)), f"closed without a word; the last was {self.last}"
        assert self.last.reason_code >= FAILURE, f"closed after {self.last}"
