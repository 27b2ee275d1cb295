"""Which of two retained messages of a topic is the newer one, where cells publish to it at the same time.

Each cell has all retained messages. On a link a PUBLISH with RETAIN has a user property that says when it was
received, by the clock that all processes of a host share, and by which cell. A cell stores only what is newer than
what it has stored last. It remembers that for a while: what is older is on no link any more.
"""

from typing import Final, cast, final

from broker.runtime.clock import SECOND
from protocol import properties as props
from protocol.publish import Publish

NAME: Final = "sluice-received"
"""Of the user property: microseconds and the number of the cell, with a point between them."""
REMEMBERED: Final = 600 * SECOND
"""Microseconds."""
LONGEST: Final = 64
"""Bytes of the user property, at most."""

Pairs = list[tuple[str, str]]
Stamp = tuple[int, int]


@final
class RetainedOrder:
    """The order of retained messages, as one cell sees it."""

    def __init__(self, cell: int) -> None:
        self._cell = cell
        self._last = 0
        self._stored: dict[bytes, Stamp] = {}
        """When the last message of a topic was received, the latest change last."""

    def stamped(self, publish: Publish) -> Publish:
        """A PUBLISH with RETAIN, as another cell gets it."""
        changed = {} if publish.properties is None else dict(publish.properties)
        pairs = cast("Pairs", changed.get(props.USER_PROPERTY, []))
        changed[props.USER_PROPERTY] = [*pairs, (NAME, f"{publish.received_at}.{self._cell}")]
        return publish.renamed(publish.topic, changed, publish.identifiers)

    def number(self, publish: Publish) -> None:
        """Have it received later than the one before: all that is read at once has the same time.

        Else one of QoS 1 that a link sends again could replace the next one, of QoS 2, which is not taken again.
        """
        publish.received_at = self._last = max(publish.received_at, self._last + 1)

    def stored(self, publish: Publish) -> None:
        """A client of this cell has published it."""
        self._note(publish.topic, (publish.received_at, self._cell))

    def admits(self, publish: Publish) -> bool:
        """Whether what has come over a link is newer than what is stored; takes the user property out of it."""
        stamp = _take(publish)
        if stamp is None:
            return True
        if stamp < self._stored.get(publish.topic, (0, 0)):
            return False
        self._note(publish.topic, stamp)
        return True

    def _note(self, topic: bytes, stamp: Stamp) -> None:
        stored = self._stored
        stored.pop(topic, None)
        stored[topic] = stamp
        while stored:
            oldest = next(iter(stored))
            if stored[oldest][0] > stamp[0] - REMEMBERED:
                return
            del stored[oldest]


def _take(publish: Publish) -> Stamp | None:
    properties = publish.properties
    pairs = [] if properties is None else cast("Pairs", properties.get(props.USER_PROPERTY, []))
    if properties is None or not pairs or pairs[-1][0] != NAME:
        return None
    at, _, cell = pairs.pop()[1].partition(".")
    if not pairs:
        del properties[props.USER_PROPERTY]
    if not properties:
        publish.properties = None
    publish.frame4 = publish.frame5 = publish.rest4 = publish.rest5 = None
    return int(at), int(cell)
