"""Shared subscriptions: each message goes to one session of the group (section 4.8.2)."""

from typing import TYPE_CHECKING, Final, final

from protocol.errors import TopicFilterInvalid
from protocol.publish import Publish
from protocol.topics import parse_share
from session.outbound import Outbound

if TYPE_CHECKING:
    from broker.route import Route

MOST_ASKED: Final = 16
"""Connected members that are asked whether they can take a message at once; if none can, the first of them gets it."""
MOST_PASSED_OVER: Final = 1_000
"""Members that are looked at for one message: where so many are away, it may go to one of them."""


@final
class Group:
    """The sessions that share one subscription, and whose turn it is."""

    def __init__(self) -> None:
        self.members: dict[Outbound, Route] = {}
        self._turns: list[Route] | None = None
        """The members in the order of their turns; None: they have changed since."""
        self._next = 0

    def add(self, route: "Route") -> None:
        """Let a session in, or replace its subscription; each has options of its own [MQTT-4.8.2-3]."""
        self.members[route.outbound] = route
        self._turns = None

    def remove(self, outbound: Outbound) -> None:
        """Let a session out; nothing happens if it is not in."""
        self.members.pop(outbound, None)
        self._turns = None

    def deliver(self, publish: Publish) -> None:
        """Hand `publish` to one member, in turn: first who can take it at once, then who is connected."""
        turns = self._turns
        if turns is None:
            turns = self._turns = list(self.members.values())
        count = len(turns)
        chosen = self._next % count
        asked = 0
        for step in range(min(count, MOST_PASSED_OVER)):
            place = (self._next + step) % count
            outbound = turns[place].outbound
            if outbound.ready():
                chosen = place
                break
            if outbound.connected:
                if asked == 0:
                    chosen = place
                asked += 1
                if asked == MOST_ASKED:
                    break
        self._next = (chosen + 1) % count
        turns[chosen].deliver(publish)


def split_share(topic_filter: str) -> tuple[str, bytes]:
    """The share name (empty = not shared) and the filter that topics are matched with.

    A malformed shared filter gets here from 3.1.1 only, where it is a filter like any other.
    """
    try:
        shared = parse_share(topic_filter)
    except TopicFilterInvalid:
        shared = None
    if shared is None:
        return "", topic_filter.encode()
    return shared[0], shared[1].encode()
