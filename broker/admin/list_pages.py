"""Finds pages of a list by a walk over all items, in slices and in a bounded share of the broker's time."""

import asyncio
from dataclasses import dataclass
from operator import itemgetter
from typing import Final, Generic, TypeVar

from broker.admin.listing import Listing, ListQuery
from broker.runtime.clock import SECOND, monotonic_us, wall_us
from broker.telemetry.slices import STEP, Slices

T = TypeVar("T")

_PLACE: Final = itemgetter(0, 1)
"""What rows are sorted by: never by the items, of which one may be there twice if it has come again meanwhile."""

ROWS: Final = 20
"""Rows that are encoded between two looks at the clock."""

FRESH: Final = 1 * SECOND
"""Microseconds for which an answer is given again to the same question."""

REST_SHARE: Final = 3
"""The pause after a walk is so many times as long, so that walks take at most a quarter of the broker's time."""


@dataclass(frozen=True)
class ListPage:
    """The answer to one question."""

    rows: list[str]
    """In JSON, in their order."""
    places: list[tuple[int, str]]
    """The value and the name by which each is sorted."""
    total: int
    """The number of all items."""
    matched: int
    """The number of items that all filters match, on this page and all others."""
    last: tuple[int, str] | None
    """Value and name of the last row, if there may be rows after it."""
    time_us: int
    clock_us: int


class _Collected(Generic[T]):
    """The rows of one page: of all items that a walk has shown so far, the first ones in the question's order."""

    def __init__(self, listing: Listing[T], question: ListQuery) -> None:
        self.matched = 0
        self.rows: list[tuple[int, str, T]] = []
        """Negated value, name and item, so that sorting gives the order."""
        self._name = listing.name
        self._key = listing.key(question.sort)
        self._filters = [(listing.filters[name], value) for name, value in question.filters]
        self._limit = question.limit
        self._after: tuple[int, str] | tuple[int, str, int] | None = None
        """What comes before it is on an earlier page. A place is before itself with something behind it."""
        if question.after is not None:
            value, name = question.after
            self._after = (-value, name) if question.including else (-value, name, 0)
        self._worst: tuple[int, str] | None = None  # what comes after it is on a later page

    def look(self, item: T, now: int) -> None:
        """Keep the item if it may be on the page."""
        for matches, value in self._filters:
            if not matches(item, value):
                return
        self.matched += 1
        place = (-self._key(item, now), self._name(item))
        if self._after is not None and place < self._after:
            return
        if self._worst is not None and place > self._worst:
            return
        self.rows.append((*place, item))
        if len(self.rows) >= 2 * self._limit:
            self.cut()

    def cut(self) -> bool:
        """Sort, and keep one page; returns whether there was more."""
        self.rows.sort(key=_PLACE)
        more = len(self.rows) > self._limit or self._worst is not None
        del self.rows[self._limit :]
        if len(self.rows) == self._limit:
            self._worst = self.rows[-1][:2]
        return more


class ListPages(Generic[T]):
    """Answers questions about one listing. All that wait share one walk."""

    def __init__(self, listing: Listing[T]) -> None:
        self.listing = listing
        self._found: dict[ListQuery, ListPage] = {}
        self._found_in = 0
        """The generation in which the walk that has found them began."""
        self._generation = 0
        """How often something has changed that the next answers must show."""
        self._asked: set[ListQuery] = set()
        self._walk: asyncio.Task[None] | None = None
        self._fresh_until = 0
        self._rested_at = 0

    async def page(self, question: ListQuery) -> ListPage:
        """The answer to a question; its sort key and filters are those of the listing."""
        generation = self._generation
        while True:
            page = self._found.get(question)
            if page is not None and self._found_in >= generation and monotonic_us() < self._fresh_until:
                return page
            self._asked.add(question)
            if self._walk is None:
                self._walk = asyncio.get_running_loop().create_task(self._run())
            await asyncio.shield(self._walk)  # a request that is cancelled must not cancel the shared walk

    def forget(self) -> None:
        """Something has changed: questions from now on are answered by walks that begin from now on."""
        self._generation += 1

    def stop(self) -> None:
        """Cancel a walk that is running."""
        if self._walk is not None:
            self._walk.cancel()

    async def _run(self) -> None:
        slices = Slices()
        try:
            await asyncio.sleep(max(self._rested_at - monotonic_us(), 0) / SECOND)
            asked, self._asked = self._asked, set()
            generation = self._generation
            slices = Slices()
            self._found = await self._find(asked, slices)
            self._found_in = generation
        finally:
            now = monotonic_us()
            self._rested_at = now + REST_SHARE * slices.us
            self._fresh_until = max(now + FRESH, self._rested_at)
            self._walk = None

    async def _find(self, asked: set[ListQuery], slices: Slices) -> dict[ListQuery, ListPage]:
        listing = self.listing
        collected = {question: _Collected(listing, question) for question in asked}
        looking = list(collected.values())
        total = 0
        for number, item in enumerate(listing.items(), 1):
            if listing.is_there(item):
                total += 1
                for one in looking:
                    one.look(item, slices.began)
            if number % STEP == 0:
                await slices.breathe()
        return {question: await self._written(one, total, slices) for question, one in collected.items()}

    async def _written(self, collected: _Collected[T], total: int, slices: Slices) -> ListPage:
        await slices.pause()
        more = collected.cut()
        await slices.pause()  # to sort 2,000 takes a millisecond
        rows: list[str] = []
        places: list[tuple[int, str]] = []
        for number, (negated, name, item) in enumerate(collected.rows, 1):
            if self.listing.is_there(item):
                rows.append(self.listing.row(item, slices.began).model_dump_json())
                places.append((-negated, name))
            if number % ROWS == 0:
                await slices.breathe()
        last = None
        if more:
            value, name, _ = collected.rows[-1]
            last = (-value, name)
        return ListPage(rows, places, total, collected.matched, last, wall_us(), monotonic_us())
