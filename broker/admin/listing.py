"""What can be listed: where the items are, what they can be sorted by, and what a row tells of one."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar, Final, Generic, TypeVar

T = TypeVar("T")

Key = Callable[[T, int], int]
"""The value by which an item is sorted, the highest first; the second argument is the time in microseconds."""

LONGEST_NAME: Final = 256
"""Characters of a name in an answer: client ids and topics may have 64 KB, and there are up to 1000 rows."""


class Listing(ABC, Generic[T]):
    """One thing that there are many of."""

    columns: ClassVar[tuple[str, ...]]
    """The names of a row's cells."""
    keys: Mapping[str, Key[T]]
    """What it can be sorted by."""
    default: ClassVar[str]
    """The key where the request does not say."""

    @abstractmethod
    def items(self) -> list[T]:
        """All there are at this moment."""

    @abstractmethod
    def is_there(self, item: T) -> bool:
        """Whether an item of `items` has not ended since."""

    @abstractmethod
    def row(self, item: T, now: int) -> list[object]:
        """The cells of one item."""


def shortened(name: str) -> str:
    """A name as it goes into an answer."""
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
