"""Topics of a bridge: what goes out and what comes in, and its name at the other end."""

from collections.abc import Sequence
from typing import Final, final

from broker.auth.permissions import Levels, matches
from config.bridge import BridgeTopic

MOST_NAMES: Final = 10_000
"""Topics whose names at the other end are kept; past that they are found anew."""
LONGEST_KEPT: Final = 256
"""Bytes of a topic whose name is kept: the remote broker may invent thousands of the longest ones."""
MOST_TOPIC: Final = 65_535
"""Bytes of a topic."""


@final
class Renaming:
    """Names at one end, by those at the other: the first rule whose filter matches replaces its prefix."""

    def __init__(self, rules: Sequence[tuple[str, str, str]], most_levels: int = 0) -> None:
        """`rules`: filter, prefix that it begins with, and what replaces that. `most_levels` of a name; 0 = any."""
        self._rules: list[tuple[Levels, bytes, bytes]] = [
            (topic_filter.encode().split(b"/"), old.encode(), new.encode()) for topic_filter, old, new in rules
        ]
        self.changes: bool = any(old != new for _, old, new in rules)
        """Whether any name differs at the other end."""
        self.adds: int = max([len(new) for _, _, new in rules], default=0)
        """Characters by which a name may be longer at the other end."""
        self._most_levels = most_levels
        self._names: dict[bytes, bytes] = {}

    def name(self, topic: bytes) -> bytes:
        """The name at the other end, the same object if nothing differs; empty = it does not go over the bridge."""
        name = self._names.get(topic)
        if name is None:
            name = self._find(topic)
            if len(topic) <= LONGEST_KEPT:
                if len(self._names) >= MOST_NAMES:
                    self._names.clear()
                self._names[topic] = name
        return name if self.changes or not name else topic

    def _find(self, topic: bytes) -> bytes:
        levels = topic.split(b"/")
        for topic_filter, old, new in self._rules:
            if matches(topic_filter, levels):
                if topic.startswith(old):
                    name = new + topic[len(old) :]
                else:  # a filter such as site/# matches site too
                    name = new.removesuffix(b"/")
                too_deep = 0 < self._most_levels <= name.count(b"/")
                return b"" if too_deep or len(name) > MOST_TOPIC else name
        return b""


@final
class Topics:
    """All that goes over one bridge."""

    def __init__(self, topics: Sequence[BridgeTopic], most_levels: int) -> None:
        """`most_levels`: of a topic here."""
        outgoing = [topic for topic in topics if topic.goes_out]
        incoming = [topic for topic in topics if topic.comes_in]
        self.outgoing = Renaming([_to_remote(topic) for topic in outgoing])
        """By the names here, those at the remote broker."""
        self.incoming = Renaming([_to_local(topic) for topic in incoming], most_levels)
        """By the names at the remote broker, those here."""
        self.outgoing_responses = Renaming([_to_remote(topic) for topic in incoming])
        """Where the remote side has to answer, so that the answer comes in."""
        self.incoming_responses = Renaming([_to_local(topic) for topic in outgoing], most_levels)
        """Where this side has to answer, so that the answer goes out."""


def _to_remote(topic: BridgeTopic) -> tuple[str, str, str]:
    return topic.local_filter, topic.local_prefix, topic.remote_prefix


def _to_local(topic: BridgeTopic) -> tuple[str, str, str]:
    return topic.remote_filter, topic.remote_prefix, topic.local_prefix
