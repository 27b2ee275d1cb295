"""FC-11: how many a second, as a bucket of tokens in exact fractions."""

from fractions import Fraction

from tests.model.message import SECOND


class Rate:
    """Corner: the bucket holds a fifth of a second's worth, and at least one token and a tenth of a second's worth."""

    def __init__(self, per_second: int, now: int) -> None:
        self.per_second = per_second
        self.capacity = max(Fraction(per_second, 5), 1 + Fraction(per_second, 10))
        self.tokens = self.capacity
        self.at = now

    def tokens_at(self, now: int) -> Fraction:
        """What the bucket holds."""
        return min(self.capacity, self.tokens + Fraction((now - self.at) * self.per_second, SECOND))

    def spend(self, now: int) -> None:
        """A delivery is sent."""
        self.tokens = self.tokens_at(now) - 1
        self.at = now

    def next_at(self, now: int) -> int:
        """When there is a whole token."""
        missing = max(1 - self.tokens_at(now), Fraction(0))
        return now + -(-missing * SECOND // self.per_second)
