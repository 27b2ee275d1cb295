"""Deliveries in a row: added at the end, taken at the head."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import final

from mypy_extensions import mypyc_attr

from protocol.publish import Publish


@mypyc_attr(acyclic=True)  # it refers to PUBLISHes only, which are acyclic too: 16 bytes less
@final
class Fifo:
    """Two lists, because compiled code appends to a list and pops from its end without a method's lookup.

    Whenever the first one is used up, the second one, turned round, takes its place: each delivery is moved once.
    """

    def __init__(self) -> None:
        self._first: list[Publish] = []  # the head is its last one
        self._then: list[Publish] = []

    def __len__(self) -> int:
        return len(self._first) + len(self._then)

    def __iter__(self) -> Iterator[Publish]:
        return chain(reversed(self._first), self._then)

    def append(self, publish: Publish) -> None:
        """Add a delivery at the end."""
        self._then.append(publish)

    def extend(self, deliveries: Iterable[Publish]) -> None:
        """Add these at the end."""
        self._then.extend(deliveries)

    def prepend(self, publish: Publish) -> None:
        """Add a delivery at the head."""
        self._first.append(publish)

    def head(self) -> Publish:
        """The first delivery. Raises IndexError if there is none."""
        if not self._first:
            self._turn_round()
        return self._first[-1]

    def pop_head(self) -> Publish:
        """Remove and return the first delivery. Raises IndexError if there is none."""
        if not self._first:
            self._turn_round()
        return self._first.pop()

    def pop_last(self) -> Publish:
        """Remove and return the last delivery. Raises IndexError if there is none."""
        return self._then.pop() if self._then else self._first.pop(0)

    def at(self, position: int) -> Publish:
        """The delivery with so many before it. Raises IndexError if there is none."""
        behind = position - len(self._first)
        return self._then[behind] if behind >= 0 else self._first[-1 - position]

    def remove(self, position: int) -> Publish:
        """Remove and return the delivery with so many before it. Raises IndexError if there is none."""
        behind = position - len(self._first)
        return self._then.pop(behind) if behind >= 0 else self._first.pop(-1 - position)

    def _turn_round(self) -> None:
        used_up = self._first
        self._first = self._then
        self._first.reverse()
        self._then = used_up
