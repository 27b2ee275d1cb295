"""Very many retained messages in the order of their topics: sorted piece by piece, between the turns of others."""

from bisect import bisect_right
from collections.abc import Iterator
from heapq import merge
from itertools import islice
from typing import Final, final

from broker.routing.retained_message import RetainedMessage

PIECE: Final = 1_000
"""Messages that are sorted, or merged, at once: a million took the event loop four seconds."""


@final
class TopicOrder:
    """What has been found, in order."""

    def __init__(self, found: list[RetainedMessage], behind: bytes) -> None:
        """Only messages of topics behind that one, which is empty for all."""
        self._unsorted = found
        self._behind = behind
        self._sorted: list[list[RetainedMessage]] = []
        self._merged: Iterator[RetainedMessage] | None = None

    def next_piece(self) -> list[RetainedMessage] | None:
        """The next messages, or none yet; None at the end. Each call does a part of the work."""
        if self._unsorted:
            piece = self._unsorted[-PIECE:]
            del self._unsorted[-PIECE:]
            self._sorted.append(in_order(piece, self._behind))
            return []
        if self._merged is None:
            self._merged = merge(*self._sorted, key=topic_of)
        return list(islice(self._merged, PIECE)) or None


def in_order(found: list[RetainedMessage], behind: bytes) -> list[RetainedMessage]:
    """Few messages in order, of topics behind that one."""
    found.sort(key=topic_of)
    return found[bisect_right(found, behind, key=topic_of) :]


def topic_of(message: RetainedMessage) -> bytes:
    """What messages are sorted by."""
    return message.topic
