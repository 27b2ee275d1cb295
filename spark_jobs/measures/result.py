"""What a report knows of one run once Spark is through: facts and small tables, whatever the number of sessions."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs.measures.layout import LAYOUTS, RUN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Row = dict[str, Any]  # column name -> value of a result table
MICROSECONDS = 1_000_000


@dataclass(frozen=True)
class Facts:
    """How much there was, and how its time is cut.

    Attributes:
        label: the run's name in the report.
        rows: raw rows (session intervals) behind the compacted ones.
        sessions: different sessions (broker, client id, start).
        brokers: their names, sorted.
        hours: how many hours have rows.
        first_us, last_us: least interval_start and greatest interval_end, microseconds since 1970.
        slot_us: the finest time that the timeline tells apart.
        window_us: what the timeline has a point for; a whole number of slots.
        interval_us: mean length of the rows' intervals.
        starved_after: intervals in a row without a delivery sent that make a session starved.
        watermarks: broker -> up to when its rows have been compacted.
        files: status (read, older, or why it was skipped, ...) -> how many files.
        asked_from_us, asked_to_us: the range that was asked for; None: open. Sessions are taken by whole hours.
        broker: the one broker that was asked for; None: all.
    """

    label: str
    rows: int
    sessions: int
    brokers: tuple[str, ...]
    hours: int
    first_us: int
    last_us: int
    slot_us: int
    window_us: int
    interval_us: int
    starved_after: int
    watermarks: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[str, int] = field(default_factory=dict)
    asked_from_us: int | None = None
    asked_to_us: int | None = None
    broker: str | None = None

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
        facts: how much there was.
        tables: name -> table; sorted, rounded, the same bytes whenever the same rows are measured.
        starved_sessions: every starved session, by `layout.STARVED_SESSIONS`; it grows with the sessions, so Spark
            writes it. None where there is no Spark.
    """

    facts: Facts
    tables: Mapping[str, pa.Table]
    starved_sessions: "DataFrame | None" = None

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
    schema = LAYOUTS[name].schema
    made = []
    for row in rows:
        if unknown := row.keys() - set(schema.names):
            raise KeyError(f"{name} has no columns {sorted(unknown)}")
        made.append({RUN: label, **row})
    return pa.Table.from_pylist(made, schema=schema)


def moment(time_us: int) -> datetime:
    """A point in time from microseconds since 1970."""
    seconds, micros = divmod(time_us, MICROSECONDS)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=micros)
