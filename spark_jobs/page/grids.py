"""Tables of the page. The script sorts and filters them; without it they are static."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from spark_jobs import formats
from spark_jobs.measures.result import Result, Row
from spark_jobs.page.markup import Html, name_of
from spark_jobs.page.templates import fill

LONGEST_NAME: Final = 34  # letters of a name in a table; the tooltip has more
SHOWN: Final = 50  # rows of a run that a table has; the CSV files have all


@dataclass(frozen=True)
class Column:
    """A column: its head, its value in a row (or its name there, if that is not the head), and how that is shown.

    `title` is the tooltip of its head. A column of text is sorted by what is shown, others by their values.
    """

    head: str
    value: str | Callable[[Row], Any] = ""
    show: Callable[[Any], str] = formats.count
    title: str | None = None
    text: bool = False
    wrap: bool = False

    def cell(self, row: Row) -> tuple[str, str | None]:
        """What is shown in a row, and the number for sorting."""
        value = row[self.value or self.head] if isinstance(self.value, str) else self.value(row)
        return self.show(value), None if self.text else "" if value is None else f"{value:.10g}"

    @property
    def class_(self) -> str:
        """The class of its cells."""
        return " ".join(name for name, used in (("words", self.text), ("wrap", self.wrap)) if used)


def _as_it_is(value: str) -> str:
    return value


share = partial(Column, show=formats.percent)
"""A column of fractions as per cent."""
index = partial(Column, show=formats.index)
"""A column of indices between 0 and 1."""
time = partial(Column, show=formats.micros)
"""A column of lengths of time in microseconds."""


def words(
    head: str, value: str | Callable[[Row], Any], show: Callable[[Any], str] = _as_it_is, *, wrap: bool = False
) -> Column:
    """A column of text."""
    return Column(head, value, show, text=True, wrap=wrap)


def name(value: str | None) -> Html:
    """An external name."""
    return name_of(value or "", LONGEST_NAME)


def moment(value: int | None) -> str:
    """A time in microseconds since 1970, to the minute."""
    return formats.DASH if value is None else formats.minute(value)


def duration(value: int) -> str:
    """A length of time in microseconds, up to days."""
    return formats.seconds(value / 1e6)


def reason(value: str) -> str:
    """The main cause of blocking as text."""
    return formats.reason(value) if value else formats.DASH


ID: Final = words("client id", "client_id", name)
BROKER: Final = words("broker", "broker", name)
LISTENER: Final = words("listener", "listener", name)
WHY: Final = Column("why", "why", reason, "the cause of blocking for the largest part of its time", text=True)
P99: Final = (
    time("QoS 1 ack p99", "ack_qos1_p99"),
    time("QoS 2 ack p99", "ack_qos2_p99"),
    time("QoS 0 wait p99", "wait_qos0_p99"),
)
"""Of each kind of latency."""


def grid(id_: str, title: str, columns: Sequence[Column], rows: Iterable[Row], data: Sequence[str] = ()) -> Html:
    """A table with its title; a wide one scrolls sideways. `data`: the result tables, which are linked."""
    lines = [[(column, *column.cell(row)) for column in columns] for row in rows]
    return fill("table.html", id=id_, title=title, columns=columns, rows=lines, data=data) if lines else Html("")


def of_runs(
    results: Sequence[Result],
    table: str,
    title: str,
    columns: Sequence[Column],
    rows: Callable[[Result], Sequence[Row]] | None = None,
    *,
    id_: str | None = None,
    shown: int = SHOWN,
) -> Html:
    """A result table, of two runs with a column that says of which; nothing if it has no rows.

    `rows` are the shown ones if these are not all.
    """
    found = [row for result in results for row in (rows(result) if rows else result.rows_of(table))[:shown]]
    first, *others = columns
    run = [words("run", "run", name)] if len(results) > 1 else []
    return grid(id_ or f"{table}-table", title, [first, *run, *others], found, [table])


def of_run(result: Result, results: Sequence[Result]) -> str:
    """Which run a sentence is about, if there are two."""
    return f"{formats.name(result.label)}: " if len(results) > 1 else ""
