"""How many a second (FC-11, FC-23): a token bucket in whole numbers."""

from typing import Final, final

from mypy_extensions import mypyc_attr

_TOKEN: Final = 1_000_000
"""One token in micro-tokens, of which a rate of one a second brings one each microsecond."""
_FIFTH: Final = 200_000
"""Microseconds."""
_TICK: Final = 100_000
"""Microseconds between the ticks of the host's timers: whoever waits for a token comes for it up to that much late."""


@mypyc_attr(acyclic=True)
@final
class Rate:
    """A bucket that gains `per_second` tokens a second, full at the start. Times are microseconds.

    It holds a fifth of a second's worth, which is what it takes to reach the rate with timers that tick ten times a
    second; below ten a second, a tick's worth besides the one token that is waited for. So it lets through at most 1.2
    times the rate in any second (or one more than the rate, if that is more), and exactly the rate over time.
    """

    def __init__(self, per_second: int, now: int) -> None:
        self._per_second = per_second
        self._capacity: int = max(per_second * _FIFTH, _TOKEN + per_second * _TICK)
        self._full_at = now * per_second  # when it is full again, on a clock that counts the micro-tokens gained

    def available(self, now: int) -> bool:
        """Whether there is a token."""
        return self._full_at - now * self._per_second + _TOKEN <= self._capacity

    def take(self, now: int) -> bool:
        """Take a token if there is one; returns whether there was."""
        if not self.available(now):
            return False
        self.spend(now)
        return True

    def spend(self, now: int) -> None:
        """Take a token, there or not: what cannot be put off is paid for later."""
        self._full_at = max(self._full_at, now * self._per_second) + _TOKEN

    def next_at(self, now: int) -> int:
        """When there is a token, if nobody takes one before: `now` if there is one now."""
        missing = self._full_at + _TOKEN - self._capacity
        return max(-(-missing // self._per_second), now)
