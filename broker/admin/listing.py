"""The interface of a list: its items, sort keys, filters and rows."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, TypeVar

from pydantic import BaseModel

T = TypeVar("T")

Key = Callable[[T, int], int]
"""The value by which an item is sorted; the second argument is the time in microseconds."""

Filter = Callable[[T, Any], bool]
"""Whether an item has the value that is asked for."""

LONGEST_NAME: Final = 256
"""Characters of a name in a list: client ids and topics may have 64 KB, and a list up to 1000 rows."""

MOST_ROWS: Final = 1_000
"""The most rows of an answer."""

DEFAULT_LIMIT: Final = 20
"""Rows of an answer if the request has no limit."""

BY_NAME: Final = "name"
"""The sort key of every list that sorts by name, A to Z; the others sort by a value, the highest first."""


@dataclass(frozen=True)
class ListQuery:
    """Which rows of a list are wanted."""

    sort: str
    limit: int = DEFAULT_LIMIT
    after: tuple[int, str] | None = None
    """Value and name of the last row of the page before; None = from the beginning."""
    filters: tuple[tuple[str, Any], ...] = ()
    """Names of filters, with the values asked for. All have to match."""
    including: bool = False
    """Whether a row at the place `after` is wanted too."""


class Listing(ABC, Generic[T]):
    """One kind of items, such as sessions."""

    row_type: ClassVar[type[BaseModel]]
    """What `row` returns."""
    keys: Mapping[str, Key[T]]
    """Sort keys by name."""
    filters: Mapping[str, Filter[T]]
    """Filters by name."""
    default: ClassVar[str]
    """The sort key if the request has none."""

    @abstractmethod
    def items(self) -> Iterable[T]:
        """All items; what is added during the iteration may be left out."""

    @abstractmethod
    def is_there(self, item: T) -> bool:
        """Whether an item of `items` still exists."""

    @abstractmethod
    def name(self, item: T) -> str:
        """The name of an item, which no other item of the list has."""

    @abstractmethod
    def row(self, item: T, now: int) -> BaseModel:
        """What the list says of one item."""

    def key(self, sort: str) -> Key[T]:
        """The sort key of this name."""
        return _zero if sort == BY_NAME else self.keys[sort]


def _zero(item: object, now: int) -> int:
    return 0


def shortened(name: str) -> str:
    """A name as it appears in a list."""
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def decoded(topic: bytes) -> str:
    """A topic name as text."""
    return topic.decode(errors="replace")
