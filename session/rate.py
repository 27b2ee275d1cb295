"""A limit per second (FC-11, FC-23, FC-31): a token bucket in integers."""

from typing import Final, final

from mypy_extensions import mypyc_attr

_TOKEN: Final = 1_000_000
"""One token in micro-tokens; at a rate of one token a second, one micro-token comes each microsecond."""
_FIFTH: Final = 200_000
"""A fifth of a second in microseconds."""
_TICK: Final = 100_000
"""Microseconds between the ticks of the host's timers: a token is taken up to that much late."""


@mypyc_attr(acyclic=True)
@final
class Rate:
    """A bucket that gains `per_second` tokens a second, full at the start. Times are microseconds.

    It holds the tokens of a fifth of a second, enough to reach the rate with timers that tick ten times a second; below
    ten a second, one token and the gain of one tick. So it allows at most 1.2 times the rate in any second (or one more
    than the rate, if that is more), and exactly the rate over time.
    """

    def __init__(self, per_second: int, now: int) -> None:
        self.per_second = per_second
        self._capacity: int = max(per_second * _FIFTH, _TOKEN + per_second * _TICK)
        self._full_at = now * per_second  # when it is full again, on a clock that counts the micro-tokens gained

    def available(self, now: int) -> bool:
        """Whether there is a token."""
        return self._full_at - now * self.per_second + _TOKEN <= self._capacity

    def take(self, now: int) -> bool:
        """Take a token if there is one; returns whether there was."""
        if not self.available(now):
            return False
        self.spend(now)
        return True

    def spend(self, now: int, tokens: int = 1) -> None:
        """Take tokens even if there are none: the next ones are then available later."""
        self._full_at = max(self._full_at, now * self.per_second) + tokens * _TOKEN

    def next_at(self, now: int) -> int:
        """When the next token is available; `now` if there is one."""
        missing = self._full_at + _TOKEN - self._capacity
        return max(-(-missing // self.per_second), now)
