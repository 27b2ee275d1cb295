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
        self.first: list[Publish] = []
        """The first ones, turned round: its last one is the head. Unless it is empty, the head may be taken from it."""
        self.then: list[Publish] = []
        """What follows them; to be appended to."""

    def __len__(self) -> int:
        return len(self.first) + len(self.then)

    def __iter__(self) -> Iterator[Publish]:
        return chain(reversed(self.first), self.then)

    def append(self, publish: Publish) -> None:
        """Add a delivery at the end."""
        self.then.append(publish)

    def extend(self, deliveries: Iterable[Publish]) -> None:
        """Add these at the end."""
        self.then.extend(deliveries)

    def prepend(self, publish: Publish) -> None:
        """Add a delivery at the head."""
        self.first.append(publish)

    def head(self) -> Publish:
        """The first delivery. Raises IndexError if there is none."""
        if not self.first:
            self._turn_round()
        return self.first[-1]

    def pop_head(self) -> Publish:
        """Remove and return the first delivery. Raises IndexError if there is none."""
        if not self.first:
            self._turn_round()
        return self.first.pop()

    def pop_last(self) -> Publish:
        """Remove and return the last delivery. Raises IndexError if there is none."""
        return self.then.pop() if self.then else self.first.pop(0)

    def at(self, position: int) -> Publish:
        """The delivery with so many before it. Raises IndexError if there is none."""
        behind = position - len(self.first)
        return self.then[behind] if behind >= 0 else self.first[-1 - position]

    def remove(self, position: int) -> Publish:
        """Remove and return the delivery with so many before it. Raises IndexError if there is none."""
        behind = position - len(self.first)
        return self.then.pop(behind) if behind >= 0 else self.first.pop(-1 - position)

    def _turn_round(self) -> None:
        used_up = self.first
        self.first = self.then
        self.first.reverse()
        self.then = used_up
