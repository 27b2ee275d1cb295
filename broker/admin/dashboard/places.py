"""The places of those who look at the dashboard: nobody takes them all, and some are for operators."""

from collections import Counter
from typing import Final

MOST: Final = 16
"""Streams; further ones are refused."""

FOR_OPERATORS: Final = 4
"""Of these, so many are for operators only."""

MOST_OF_ONE: Final = 8
"""Streams of one token, or of all links of one user."""


class Places:
    """Counts streams by whom they are for."""

    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()

    def take(self, name: str, operator: bool) -> str:
        """Take a place, until `leave`; returns why there is none, or nothing."""
        most = MOST if operator else MOST - FOR_OPERATORS
        if self._taken.total() >= most:
            return f"{most} others look, which is the most{'' if operator else ' for viewers'}: try again later"
        if self._taken[name] >= MOST_OF_ONE:
            return f"{name} looks {MOST_OF_ONE} times already, which is the most: close a page, or use another token"
        self._taken[name] += 1
        return ""

    def leave(self, name: str) -> None:
        """Give a place back."""
        self._taken[name] -= 1
        if not self._taken[name]:
            del self._taken[name]
