"""Loops of brokers, the last resort: a user property names the brokers that a message came through (MQTT 5 only).

No Local keeps a message from going back over the bridge that it came by. A ring of three brokers needs more. Brokers
say in CONNECT and CONNACK which one they are. What a broker passes on of another one has both their ids, and what has
its own id already it drops. So a message that goes one step has no path, and costs nothing. Others pass the path on.
"""

from secrets import randbits
from typing import Final, cast, final

from protocol import properties as props
from protocol.properties import Properties
from protocol.publish import Publish
from session.flows import BROKER, broker_of
from session.outbox import Rewriter

NAME: Final = "sluice-via"
"""Of the user property of a PUBLISH: ids of brokers, with commas between them. Of CONNECT and CONNACK: one's own."""
MOST_BROKERS: Final = 16
"""A message that has come through so many goes no further."""
LONGEST: Final = 256
"""Bytes that a path adds to a PUBLISH, at most."""
_BITS: Final = 32
_DIGITS: Final = 8

Pairs = list[tuple[str, str]]


def value_of(properties: Properties) -> str:
    """What the user property says; empty = there is none."""
    pairs = properties.get(props.USER_PROPERTY)
    if isinstance(pairs, list):
        for name, value in cast("Pairs", pairs):
            if name == NAME:
                return value
    return ""


def broker_id(properties: Properties) -> int:
    """The id of who has sent CONNECT or CONNACK; 0 if it cannot be read, -1 = it does not say that it is a broker."""
    value = value_of(properties)
    if not value:
        return -1
    digits = len(value) == _DIGITS and all(digit in "0123456789abcdef" for digit in value)
    return int(value, 16) if digits else 0


@final
class Via(Rewriter):
    """The path of messages, as one broker sees and extends it; rewrites what goes to a broker that knows this one."""

    def __init__(self) -> None:
        self.adds = LONGEST
        # Not the node's name: where two were equal, messages would be lost.
        self.broker_id: str = f"{randbits(_BITS) | 1:08x}"

    @property
    def own(self) -> Pairs:
        """What CONNECT and CONNACK say."""
        return [(NAME, self.broker_id)]

    def is_loop(self, properties: Properties) -> bool:
        """Whether a received message has been here before, or has come through too many brokers."""
        if props.USER_PROPERTY not in properties:
            return False
        brokers = value_of(properties).split(",")
        return self.broker_id in brokers or len(brokers) >= MOST_BROKERS

    def rewritten(self, publish: Publish) -> Publish:
        """The PUBLISH as another broker gets it that knows this one."""
        return self.extended(publish, publish.topic, publish.properties, True)

    def extended(self, publish: Publish, topic: bytes, properties: Properties | None, known: bool) -> Publish:
        """The PUBLISH with its path, under another topic and with other properties.

        `known`: whether who gets it knows of whom, so that this broker need not be in the path of its own messages.
        """
        before = "" if properties is None else value_of(properties)
        if not before and known and not publish.flow & BROKER:
            if topic is publish.topic and properties is publish.properties:
                return publish
            return publish.renamed(topic, properties, publish.identifiers)
        if not before and publish.flow & BROKER and broker_of(publish.flow):
            before = f"{broker_of(publish.flow):08x}"
        path = f"{before},{self.broker_id}" if before else self.broker_id
        changed = {} if properties is None else dict(properties)
        pairs = cast("Pairs", changed.get(props.USER_PROPERTY, []))
        changed[props.USER_PROPERTY] = [*[pair for pair in pairs if pair[0] != NAME], (NAME, path)]
        return publish.renamed(topic, changed, publish.identifiers)
