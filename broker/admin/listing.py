"""The interface of a list: its items, sort keys and rows."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar, Final, Generic, TypeVar

T = TypeVar("T")

Key = Callable[[T, int], int]
"""The value by which an item is sorted, the highest first; the second argument is the time in microseconds."""

LONGEST_NAME: Final = 256
"""Characters of a name in an answer: client ids and topics may have 64 KB, and an answer up to 1000 rows."""


class Listing(ABC, Generic[T]):
    """One kind of items, such as sessions."""

    columns: ClassVar[tuple[str, ...]]
    """The names of a row's cells."""
    keys: Mapping[str, Key[T]]
    """Sort keys by name."""
    default: ClassVar[str]
    """The sort key if the request has none."""

    @abstractmethod
    def items(self) -> list[T]:
        """All items at this moment."""

    @abstractmethod
    def is_there(self, item: T) -> bool:
        """Whether an item of `items` still exists."""

    @abstractmethod
    def row(self, item: T, now: int) -> list[object]:
        """The cells of one item."""


def shortened(name: str) -> str:
    """A name as it appears in an answer."""
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
