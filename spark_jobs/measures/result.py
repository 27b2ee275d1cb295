"""The result of one run: facts and tables, small except for the list of starved sessions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from spark_jobs.measures.layout import LAYOUTS, RUN, Layout

Row = dict[str, Any]  # column name -> value of a result table
MICROSECONDS = 1_000_000


@dataclass(frozen=True)
class Facts:
    """Facts about the input and its division in time.

    Attributes:
        label: the run's name in the report.
        rows: raw rows (session intervals) behind the compacted ones.
        clients: those (broker, client id) that were there and had something offered or waiting.
        brokers: their names, sorted.
        hours: number of hours with rows.
        first_us, last_us: least interval_start and greatest interval_end, microseconds since 1970.
        slot_us: resolution of the timeline.
        window_us: time between two points of the timeline; a whole number of slots.
        interval_us: mean length of the rows' intervals.
        starved_after: a session is starved after this many intervals in a row without a delivery.
        watermarks: broker -> last compacted interval_end.
        version: of the store that was read.
        files: status -> number of files.
        asked_from_us, asked_to_us: the requested range in whole hours; None: open.
        broker: the requested broker; None: all.
        hashed: whether client ids are digests.
    """

    label: str
    rows: int
    clients: int
    brokers: tuple[str, ...]
    hours: int
    first_us: int
    last_us: int
    slot_us: int
    window_us: int
    interval_us: int
    starved_after: int
    watermarks: Mapping[str, int] = field(default_factory=dict)
    version: int = 0
    files: Mapping[str, int] = field(default_factory=dict)
    asked_from_us: int | None = None
    asked_to_us: int | None = None
    broker: str | None = None
    hashed: bool = False

    @property
    def first(self) -> datetime:
        """Start of the first interval."""
        return moment(self.first_us)

    @property
    def last(self) -> datetime:
        """End of the last interval."""
        return moment(self.last_us)


@dataclass(frozen=True)
class Result:
    """One run: its facts and tables by the names and columns of `layout.LAYOUTS`.

    Attributes:
        facts: facts about the input.
        tables: name -> table; sorted and rounded, so that the same rows give the same bytes.
        windows: the sums of the timeline's windows, see `timeline.by_window`, from which runs are compared.
    """

    facts: Facts
    tables: Mapping[str, pa.Table]
    windows: Sequence[Row] = ()

    @property
    def label(self) -> str:
        """The run's name in the report."""
        return self.facts.label

    def rows_of(self, table: str) -> list[Row]:
        """The rows of a table."""
        return list(self.tables[table].to_pylist())

    def one(self, table: str, **values: object) -> Row:
        """The first row of a table that has these values.

        Raises:
            LookupError: there is none.
        """
        for row in self.rows_of(table):
            if all(row[name] == value for name, value in values.items()):
                return row
        raise LookupError(f"{table} has no row with {values}")

    def maybe(self, table: str, **values: object) -> Row | None:
        """As `one`; None if there is no such row."""
        try:
            return self.one(table, **values)
        except LookupError:
            return None


def table(name: str, label: str, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Rows as the result table of this name; a column that a row lacks is null there.

    Raises:
        KeyError: a row has a column that the table does not have.
    """
    return of_layout(LAYOUTS[name], label, rows)


def of_layout(layout: Layout, label: str, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """The same, of a layout that is not in `LAYOUTS`."""
    schema = layout.schema
    complete = []
    for row in rows:
        if unknown := row.keys() - set(schema.names):
            raise KeyError(f"{layout.title}: has no columns {sorted(unknown)}")
        complete.append({RUN: label, **row})
    return pa.Table.from_pylist(complete, schema=schema)


def moment(time_us: int) -> datetime:
    """A point in time from microseconds since 1970."""
    seconds, micros = divmod(time_us, MICROSECONDS)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=micros)
