"""Tables that name clients, and the columns that several of them have."""

from collections.abc import Callable, Sequence
from typing import Final

from spark_jobs import formats
from spark_jobs.measures.result import Result, Row
from spark_jobs.page.grids import Cell, Column, grid
from spark_jobs.page.markup import Html

SHOWN: Final = 50  # clients that a table names; the CSV files name all
ID: Final = Column("client id", text=True)
BROKER: Final = Column("broker", text=True)
WHY: Final = Column("why", text=True, title="the cause of blocking for the largest part of its time")

Line = Callable[[Row], list[Cell]]


def why(row: Row) -> Cell:
    """The main cause of blocking as text."""
    return Cell(formats.reason(row["why"]) if row["why"] else formats.DASH)


def named_grid(id_: str, title: str, result: Result, name: str, columns: Sequence[Column], line: Line) -> Html:
    """A table of clients."""
    return grid(id_, title, columns, [line(row) for row in result.rows_of(name)[:SHOWN]], [name])
