"""What each client has to do, and what must come of it, whichever client it is.

A subscriber takes `TOPIC/+`; a publisher sends each payload to `TOPIC/0`, `TOPIC/1` ... and a retained message
to `TOPIC/kept`; a second subscriber, which comes later, gets the retained one. Then it is cleared.
"""

from dataclasses import dataclass
from typing import NamedTuple

from tests.support.certificates import Certificate
from tests.support.process import Address

TIMEOUT = 10.0
"""Seconds after which a client gives up waiting for what must come."""

PAYLOADS = (b"21.5", bytes(range(256)), b"", "größer".encode(), bytes(20_000))
"""Text, every byte, nothing, more than ASCII, and more than one small packet."""

KEPT = b"last known value"


class Received(NamedTuple):
    """One message as a client's user sees it."""

    topic: str
    payload: bytes
    qos: int
    retain: bool


@dataclass(frozen=True)
class Tls:
    """PEM files for one connection."""

    cafile: str
    certificate: Certificate | None = None


@dataclass(frozen=True)
class Plan:
    """One exchange: where, in which version of MQTT, at which QoS, below which topic."""

    address: Address
    tls: Tls | None
    version: int
    qos: int
    topic: str

    @property
    def topic_filter(self) -> str:
        """What both subscribers subscribe to."""
        return f"{self.topic}/+"

    @property
    def kept_topic(self) -> str:
        """Where the retained message is."""
        return f"{self.topic}/kept"

    def messages(self) -> list[tuple[str, bytes]]:
        """Return topic and payload of the messages that are not retained."""
        return [(f"{self.topic}/{number}", payload) for number, payload in enumerate(PAYLOADS)]

    def expected(self) -> "Outcome":
        """Return what the subscribers must see: no retain flag for one that was there [MQTT-3.3.1-12]."""
        live = [Received(topic, payload, self.qos, False) for topic, payload in self.messages()]
        live.append(Received(self.kept_topic, KEPT, self.qos, False))
        return Outcome(live, [Received(self.kept_topic, KEPT, self.qos, True)])


@dataclass
class Outcome:
    """What came: to the subscriber that was there, and to the one that came later."""

    live: list[Received]
    retained: list[Received]
