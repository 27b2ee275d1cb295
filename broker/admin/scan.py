"""The top of a list, found in a walk over all items that costs a bounded part of the broker's time."""

import asyncio
import json
from dataclasses import dataclass
from heapq import heappush, heapreplace
from typing import Final, Generic, TypeVar

from broker.admin.listing import Key, Listing
from broker.runtime.clock import SECOND, monotonic_us, wall_us

T = TypeVar("T")

SLICE: Final = 100
"""Items that are looked at before the loop gets its turn: well under a millisecond."""

ROWS: Final = 50
"""Rows that are written before the loop gets its turn."""

REST: Final = 1 * SECOND
"""Microseconds between two walks; whoever asks meanwhile is told what the last one has found, or waits."""

REST_SHARE: Final = 9
"""The rest is also this many times what the walk has taken: where a walk is long, walks are a tenth of the time."""


@dataclass(frozen=True)
class Top:
    """What a walk has found for one key."""

    rows: list[str]
    """As JSON, the highest first."""
    total: int
    """How many items there were."""
    asked: int
    """How many rows the walk was to find."""
    time_us: int
    clock_us: int

    def has(self, count: int) -> bool:
        """Whether these are as many rows as a walk for `count` would have found."""
        return self.asked >= min(count, self.total)


class _Highest(Generic[T]):
    """The items with the highest values; of equal ones those that came first."""

    def __init__(self, key: Key[T], count: int) -> None:
        self.key = key
        self.count = count
        self.heap: list[tuple[int, int, T]] = []

    def look(self, item: T, number: int, now: int) -> None:
        """Keep the item if it is among the highest so far. `number` counts the items."""
        value = self.key(item, now)
        heap = self.heap
        if len(heap) < self.count:
            heappush(heap, (value, -number, item))
        elif value > heap[0][0]:
            heapreplace(heap, (value, -number, item))


class TopList(Generic[T]):
    """Answers whoever asks for the top of one listing. All that wait share one walk."""

    def __init__(self, listing: Listing[T]) -> None:
        self.listing = listing
        self._tops: dict[str, Top] = {}
        self._asked: dict[str, int] = {}
        self._walk: asyncio.Task[None] | None = None
        self._rested_at = 0

    async def top(self, sort: str, count: int) -> Top:
        """The top by one of the listing's keys: `count` rows, or all if there are fewer; it may have more."""
        while True:
            top = self._tops.get(sort)
            if top is not None and top.has(count) and monotonic_us() < self._rested_at:
                return top
            self._asked[sort] = max(count, self._asked.get(sort, 0))
            if self._walk is None:
                self._walk = asyncio.get_running_loop().create_task(self._run())
            await asyncio.shield(self._walk)  # who goes away takes it from nobody else

    def stop(self) -> None:
        """Walk no further."""
        if self._walk is not None:
            self._walk.cancel()

    async def _run(self) -> None:
        spent = _Spent()
        try:
            await asyncio.sleep(max(self._rested_at - monotonic_us(), 0) / SECOND)
            asked, self._asked = self._asked, {}
            self._tops = await self._find(asked, spent)
        finally:
            self._rested_at = monotonic_us() + max(REST, REST_SHARE * spent.us)
            self._walk = None

    async def _find(self, asked: dict[str, int], spent: "_Spent") -> dict[str, Top]:
        listing = self.listing
        spent.begin()
        found = {sort: _Highest(listing.keys[sort], count) for sort, count in asked.items()}
        highest = list(found.values())
        items = listing.items()
        for number, item in enumerate(items, 1):
            if listing.is_there(item):
                for one in highest:
                    one.look(item, number, spent.began)
            if number % SLICE == 0:
                await spent.pause()
        total = len(items)
        del items
        return {sort: await self._written(one, total, spent) for sort, one in found.items()}

    async def _written(self, highest: _Highest[T], total: int, spent: "_Spent") -> Top:
        """The rows of what has been found, each as it stands now, and in that order."""
        await spent.pause()
        rows: list[tuple[int, int, str]] = []
        for place, (_, number, item) in enumerate(highest.heap, 1):
            if self.listing.is_there(item):
                now = spent.began
                row = json.dumps(self.listing.row(item, now), ensure_ascii=False, separators=(",", ":"))
                rows.append((highest.key(item, now), number, row))
            if place % ROWS == 0:
                await spent.pause()
        rows.sort(reverse=True)
        return Top([row for _, _, row in rows], total, highest.count, wall_us(), monotonic_us())


class _Spent:
    """The time that a walk has taken from the broker."""

    def __init__(self) -> None:
        self.us = 0
        self.began = 0

    def begin(self) -> None:
        """A slice begins."""
        self.began = monotonic_us()

    async def pause(self) -> None:
        """A slice ends; the next one begins when the loop has had its turn."""
        self.us += monotonic_us() - self.began
        await asyncio.sleep(0)
        self.began = monotonic_us()
