"""Loops of brokers, the last resort: a user property names the brokers that a message has come through (MQTT 5 only).

No Local keeps a message from going back over the bridge that it came by. A ring of three brokers needs more. Each
broker adds its id to what it sends to another one, and drops what has its id already. Others pass the property on.
"""

from secrets import token_hex
from typing import Final, cast, final

from protocol import properties as props
from protocol.packet_types import PUBLISH
from protocol.properties import Properties, encode_property_list
from protocol.publish import Publish
from session.outbox import Rewriter

NAME: Final = "sluice-via"
"""Of the user property of a PUBLISH: ids of brokers, with commas between them. Of CONNECT: that a broker connects."""
MOST_BROKERS: Final = 16
"""A message that has come through so many goes no further."""

Pairs = list[tuple[str, str]]


def value_of(properties: Properties) -> str:
    """What the user property says; empty = there is none."""
    pairs = properties.get(props.USER_PROPERTY)
    if isinstance(pairs, list):
        for name, value in cast("Pairs", pairs):
            if name == NAME:
                return value
    return ""


@final
class Via(Rewriter):
    """The path of messages, as one broker sees and extends it."""

    def __init__(self) -> None:
        self.broker_id: str = token_hex(4)  # not the node's name: where two were equal, messages would be lost
        self._own = encode_property_list({props.USER_PROPERTY: [(NAME, self.broker_id)]}, PUBLISH)

    def is_loop(self, properties: Properties) -> bool:
        """Whether a received message has been here before, or has come through too many brokers."""
        if props.USER_PROPERTY not in properties:
            return False
        brokers = value_of(properties).split(",")
        return self.broker_id in brokers or len(brokers) >= MOST_BROKERS

    def rewritten(self, publish: Publish) -> Publish:
        """The PUBLISH with this broker added to its path."""
        return self.extended(publish, publish.topic, publish.properties)

    def extended(self, publish: Publish, topic: bytes, properties: Properties | None) -> Publish:
        """The same, under another topic and with other properties."""
        before = "" if properties is None else value_of(properties)
        if not before or properties is None:
            return publish.renamed(topic, properties, publish.identifiers + self._own)
        changed = dict(properties)
        changed[props.USER_PROPERTY] = [
            (name, f"{before},{self.broker_id}" if name == NAME else value)
            for name, value in cast("Pairs", properties[props.USER_PROPERTY])
        ]
        return publish.renamed(topic, changed, publish.identifiers)
