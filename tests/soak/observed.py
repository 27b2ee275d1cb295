"""What the clients of a round have seen: all that the checks know of the broker."""

from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from protocol.topics import matches, parse_share

ACKNOWLEDGED = "acknowledged"
REFUSED = "refused"
ABANDONED = "abandoned"
"""Its publisher's session ended before the answer came."""


@dataclass
class Message:
    """One application message. `publisher` and `number` name it, and are in its payload."""

    publisher: int
    number: int
    topic: str
    qos: int
    size: int
    first_sent_at: float = inf
    """By the clock of the round, as all times here; inf = never sent."""
    sent: int = 0
    """How often: more than once only after the connection was lost."""
    outcome: str = ""
    """What the answer was; empty = none yet, or QoS 0."""

    @property
    def id(self) -> str:
        """How reports call it."""
        return f"{self.publisher}:{self.number}"


class Receipt(NamedTuple):
    """A PUBLISH that a subscriber has read."""

    publisher: int
    number: int
    topic: str
    qos: int
    dup: bool
    again: bool
    """QoS 2: whether its packet identifier was known already, so that it is no new message (section 4.3.3)."""


@dataclass
class Seen:
    """One session, as its client has known it."""

    client_id: str
    filters: dict[str, int]
    """Topic filters that are subscribed to, shared ones too, and the QoS of each."""
    kept: bool
    """Whether it outlives its connection."""
    subscribed_at: float = inf
    """When the SUBACK was read."""
    ended: bool = False
    """Whether its client has ended it before the round was over, or it has ended with a connection."""
    receipts: list[Receipt] = field(default_factory=list)

    def qos_of(self, topic: str) -> int:
        """The highest QoS that a subscription of its own gives to `topic`; -1 if none matches."""
        return max((qos for text, qos in self.filters.items() if not _group(text) and matches(text, topic)), default=-1)

    def shared_qos_of(self, group: str) -> int:
        """The QoS at which it takes part in `group`, a whole shared filter; -1 if it does not."""
        return self.filters.get(group, -1)

    def groups(self) -> list[str]:
        """The shared filters."""
        return [text for text in self.filters if _group(text)]


def group_matches(group: str, topic: str) -> bool:
    """Whether a whole shared filter takes a topic."""
    parsed = parse_share(group)
    return parsed is not None and matches(parsed[1], topic)


def _group(topic_filter: str) -> bool:
    return parse_share(topic_filter) is not None


@dataclass
class Observed:
    """One round."""

    messages: dict[tuple[int, int], Message] = field(default_factory=dict)
    sessions: list[Seen] = field(default_factory=list)
    breaches: list[str] = field(default_factory=list)
    """What a client has noticed at once."""
    last_receipt: float = 0.0
    last_progress: float = 0.0
    """When something last came that was not sent again, or an exchange of a publisher came to its end."""
