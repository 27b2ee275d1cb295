"""Failed logins by user or address, and the logins that could become some."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

from broker.auth.authenticators.turn import Turn
from broker.runtime.clock import SECOND

MOST_KEYS: Final = 10_000
"""Entries of each table, about 200 bytes each. Past that the oldest goes of those that are not refused: failures of
many others must not make the broker forget a refused one."""

MOST_REFUSED: Final = MOST_KEYS // 2
"""Of these; past that the oldest refused one goes. Keys that are not refused need room to be counted at all."""

MOST_WAITING: Final = 1_000
"""Logins of one key that may wait. More would be refused by their time limit anyway (mqtt.connect_timeout)."""

FIRST_DELAY: Final = SECOND // 4
"""Microseconds. Each further failure doubles it."""
LONGEST_DELAY: Final = 5 * SECOND


class Failures:
    """Failed logins by key: the last ones of each, without a longer pause than `period`.

    A login that is decided about counts as if it had failed: the next one waits if both could pass the limit.
    """

    def __init__(self, limit: int, period: int) -> None:
        """`limit`: 0 = none. `period` in microseconds."""
        self._limit = limit
        self._period = period
        # Number of failures and time of the last by key; oldest first. A `dict` finds the oldest by going through all
        # places of removed ones.
        self._counted: OrderedDict[Hashable, tuple[int, int]] = OrderedDict()
        self._refused: OrderedDict[Hashable, tuple[int, int]] = OrderedDict()
        """Those at the limit. Their period may be over."""
        self._under_way: dict[Hashable, int] = {}  # logins that are decided about
        self._waiting: dict[Hashable, dict[Turn, None]] = {}  # first come, first served

    def __len__(self) -> int:
        return len(self._counted) + len(self._refused)

    def refused(self, key: Hashable, now: int) -> bool:
        """Whether the limit is reached."""
        return 0 < self._limit <= self._count(key, now)

    def is_full(self, key: Hashable, now: int) -> bool:
        """Whether the limit is reached if all logins fail that are decided about."""
        return 0 < self._limit <= self._count(key, now) + self._under_way.get(key, 0)

    def add(self, key: Hashable, now: int) -> int:
        """Count a failure; returns by how many microseconds its answer is to be delayed."""
        if self._limit == 0:
            return 0
        count = self._count(key, now) + 1
        self.forget(key)
        if len(self) >= MOST_KEYS:
            self._make_room(now)
        entries = self._counted if count < self._limit else self._refused
        entries[key] = (count, now)
        return self._delay(count)

    def delay(self, key: Hashable, now: int) -> int:
        """By how many microseconds the answer to a failure would be delayed now."""
        return self._delay(self._count(key, now) + 1)

    def _delay(self, count: int) -> int:
        beyond = count - self._limit // 2
        return 0 if beyond <= 0 or self._limit == 0 else min(LONGEST_DELAY, FIRST_DELAY << min(beyond - 1, 10))

    def forget(self, key: Hashable) -> None:
        """A login has succeeded."""
        self._counted.pop(key, None)
        self._refused.pop(key, None)

    def begin(self, key: Hashable) -> None:
        """A login is decided about."""
        self._under_way[key] = self._under_way.get(key, 0) + 1

    def end(self, key: Hashable) -> None:
        """A login has been decided about."""
        self._under_way[key] -= 1
        if self._under_way[key] == 0:
            del self._under_way[key]

    def wait(self, key: Hashable, turn: Turn) -> bool:
        """Have a login wait until `next` gives it; False if too many wait already."""
        queue = self._waiting.setdefault(key, {})
        if len(queue) >= MOST_WAITING:
            return False
        turn.wait_in(queue)
        return True

    def next(self, key: Hashable, now: int) -> Turn | None:
        """The first of those that wait, if it need not wait any longer: it may go on, or the limit is reached."""
        queue = self._waiting.get(key)
        if queue and self.is_full(key, now) and not self.refused(key, now):
            return None
        if not queue:
            self._waiting.pop(key, None)
            return None
        turn = next(iter(queue))
        del queue[turn]
        return turn

    def _count(self, key: Hashable, now: int) -> int:
        count, at = self._refused.get(key) or self._counted.get(key, (0, 0))
        return count if now < at + self._period else 0

    def _make_room(self, now: int) -> None:
        """Remove the oldest refused entry if its period is over or there are too many, else the oldest other one."""
        oldest = next(iter(self._refused), None)
        if oldest is not None and (len(self._refused) > MOST_REFUSED or self._count(oldest, now) == 0):
            del self._refused[oldest]
        else:
            del self._counted[next(iter(self._counted))]
