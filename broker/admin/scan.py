"""Finds the top of a list by a walk over all items, in a bounded share of the broker's time."""

import asyncio
import json
from dataclasses import dataclass
from heapq import heappush, heapreplace
from typing import Final, Generic, TypeVar

from broker.admin.listing import Key, Listing
from broker.runtime.clock import SECOND, monotonic_us, wall_us

T = TypeVar("T")

SLICE: Final = 100
"""Items that are processed before the event loop continues: well under a millisecond."""

ROWS: Final = 50
"""Rows that are encoded before the event loop continues."""

REST: Final = 1 * SECOND
"""Microseconds between two walks; requests meanwhile get the result of the last walk, or wait."""

REST_SHARE: Final = 9
"""The pause is at least so many times as long as the walk, so that walks take at most a tenth of the time."""


@dataclass(frozen=True)
class Top:
    """The result of a walk for one key."""

    rows: list[str]
    """In JSON, the highest first."""
    total: int
    """The number of all items."""
    asked: int
    """The number of rows requested from the walk."""
    time_us: int
    clock_us: int

    def has(self, count: int) -> bool:
        """Whether there are enough rows for a request of `count`."""
        return self.asked >= min(count, self.total)


class _Highest(Generic[T]):
    """The items with the highest values; of equal values, the first."""

    def __init__(self, key: Key[T], count: int) -> None:
        self.key = key
        self.count = count
        self.heap: list[tuple[int, int, T]] = []

    def look(self, item: T, number: int, now: int) -> None:
        """Keep the item if it is among the highest so far. `number` is its number in the walk."""
        value = self.key(item, now)
        heap = self.heap
        if len(heap) < self.count:
            heappush(heap, (value, -number, item))
        elif value > heap[0][0]:
            heapreplace(heap, (value, -number, item))


class TopList(Generic[T]):
    """Returns the top of one listing. All waiting requests share one walk."""

    def __init__(self, listing: Listing[T]) -> None:
        self.listing = listing
        self._tops: dict[str, Top] = {}
        self._asked: dict[str, int] = {}
        self._walk: asyncio.Task[None] | None = None
        self._rested_at = 0

    async def top(self, sort: str, count: int) -> Top:
        """The top by one of the listing's keys: `count` rows or more, or all if there are fewer."""
        while True:
            top = self._tops.get(sort)
            if top is not None and top.has(count) and monotonic_us() < self._rested_at:
                return top
            self._asked[sort] = max(count, self._asked.get(sort, 0))
            if self._walk is None:
                self._walk = asyncio.get_running_loop().create_task(self._run())
            await asyncio.shield(self._walk)  # a request that is cancelled must not cancel the shared walk

    def stop(self) -> None:
        """Cancel a walk that is running."""
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
        """The rows of the items found, with their current values and sorted by them."""
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
    """The time that a walk has taken, without the event loop's turns in between."""

    def __init__(self) -> None:
        self.us = 0
        self.began = 0

    def begin(self) -> None:
        """Begin a slice."""
        self.began = monotonic_us()

    async def pause(self) -> None:
        """End a slice, yield to the event loop, and begin the next one."""
        self.us += monotonic_us() - self.began
        await asyncio.sleep(0)
        self.began = monotonic_us()
