"""Lists of the admin API as tables for the terminal."""

from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from typing import Any, Final, NamedTuple

from rich.console import Group
from rich.table import Table
from rich.text import Text

Row = dict[str, Any]

HEAD_LINES: Final = 3
"""Lines of a view above its rows."""

NARROWEST_NAME: Final = 12
LONGEST_NAME: Final = 40
_GAP: Final = 2
"""Spaces between two columns."""

NAMES: Final = {"sessions": "client_id", "groups": "group", "addresses": "address"}
"""What names an item of each list."""

_UNITS: Final = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


class Snapshot:
    """An answer, with rates since the one before: `<column>_per_second`, and `full`, the share of time."""

    def __init__(self, answer: dict[str, Any], before: "Snapshot | None" = None) -> None:
        self.answer = answer
        self.rows: list[Row] = list(map(dict, answer["items"]))
        self._clock = int(answer["clock_us"])
        self._known = {_identity(row, answer["what"]): row for row in self.rows}
        if before is None:
            return
        for identity, row in self._known.items():
            past = before._known.get(identity)
            if past is None:
                continue
            if self._clock == before._clock:  # the broker has repeated its last answer: keep the rates
                row |= {name: value for name, value in past.items() if name not in row}
            else:
                row |= _rates(row, past, self._clock - before._clock)


def _identity(row: Row, what: str) -> tuple[object, object]:
    return row[NAMES[what]], (row.get("cell"), row.get("started_us"))


def _rates(row: Row, past: Row, elapsed_us: int) -> Row:
    rates: Row = {}
    for name in ("offered", "sent", "acknowledged", "refused", "dropped"):
        if name in row:
            rates[f"{name}_per_second"] = (row[name] - past[name]) * 1e6 / elapsed_us
    if "window_full_us" in row:
        rates["full"] = min((row["window_full_us"] - past["window_full_us"]) / elapsed_us, 1.0)
    return rates


class _Column(NamedTuple):
    title: str
    width: int
    cell: Callable[[Row], str]
    sort: str = ""
    """The key that sorts by this column."""
    dispensable: int = 0
    """If the terminal is too narrow, columns with the highest number are removed first; 0 = never."""
    compares: bool = False
    """Whether it needs an earlier answer."""


def _count(name: str) -> Callable[[Row], str]:
    return lambda row: short(row[name])


def _rate(title: str, name: str, dispensable: int) -> _Column:
    name += "_per_second"

    def cell(row: Row) -> str:
        return short(row[name]) if name in row else ""

    return _Column(title, max(len(title), 7), cell, dispensable=dispensable, compares=True)


def _full(row: Row) -> str:
    return f"{row['full']:.0%}" if "full" in row else ""


def _state(row: Row) -> str:
    if not row["connected"]:
        return "offline"
    return "congested" if row["congested"] else "online"


_COLUMNS: Final[dict[str, list[_Column]]] = {
    "sessions": [
        _Column("client", 0, lambda row: printable(row["client_id"])),
        _Column("listener", 8, lambda row: printable(row["listener"]), dispensable=7),
        _Column("version", 7, lambda row: {4: "3.1.1", 5: "5"}.get(row["protocol_version"], "?"), dispensable=6),
        _Column("state", 9, _state),
        _Column("mailbox", 7, _count("mailbox_len"), "mailbox"),
        _Column("mqueue", 7, _count("mqueue_len"), "mqueue"),
        _Column("bytes", 7, lambda row: size(row["mqueue_bytes"]), "bytes"),
        _Column("window", 11, lambda row: f"{row['window_len']}/{row['window_limit']}", dispensable=1),
        _Column("full", 7, lambda row: span(row["window_full_us"]), "window_full"),
        _Column("full%", 5, _full, dispensable=4, compares=True),
        _Column("drops", 7, _count("dropped"), "drops"),
        _Column("patience", 8, lambda row: span(row["paced_for_us"]), "patience"),
        _rate("drops/s", "dropped", 5),
        _rate("sent/s", "sent", 2),
        _rate("acked/s", "acknowledged", 3),
    ],
    "groups": [
        _Column("group", 0, lambda row: printable(row["group"])),
        _Column("members", 7, _count("members")),
        _Column("mqueue", 7, _count("mqueue_len"), "mqueue"),
        _Column("bytes", 7, lambda row: size(row["mqueue_bytes"]), "bytes"),
        _Column("drops", 7, _count("dropped"), "drops"),
        _Column("patience", 8, lambda row: span(row["paced_for_us"]), "patience"),
        _rate("offered/s", "offered", 2),
        _rate("sent/s", "sent", 1),
    ],
    "addresses": [
        _Column("address", 0, lambda row: printable(row["address"])),
        _Column("policy", 6, lambda row: printable(row["full_policy"])),
        _Column("bytes", 7, lambda row: size(row["size_bytes"]), "bytes"),
        _Column("limit", 7, lambda row: size(row["max_size_bytes"])),
        _Column("waiting", 7, _count("waiting"), "waiting"),
        _Column("parked", 7, _count("parked"), dispensable=1),
        _Column("paged", 7, _count("paged"), dispensable=2),
        _Column("refused", 7, _count("refused"), "refused"),
        _Column("drops", 7, _count("dropped"), "drops"),
        _rate("refused/s", "refused", 3),
        _rate("drops/s", "dropped", 4),
    ],
}


_CELL: Final = _Column("cell", 4, lambda row: str(row["cell"]))
"""If there are several (cluster.workers)."""


def next_key(what: str, sort: str) -> str:
    """The sort key that follows `sort`."""
    keys = [column.sort for column in _COLUMNS[what] if column.sort]
    return keys[(keys.index(sort) + 1) % len(keys)]


def view(snapshot: Snapshot, width: int, live: bool = True) -> Group:
    """The list as a table of `width` characters; `live`: with rates and a line of keys."""
    answer = snapshot.answer
    name, *others = [column for column in _COLUMNS[answer["what"]] if live or not column.compares]
    columns = [name, *([_CELL] if "cells" in answer else []), *others]
    name, *others = _that_fit(columns, width)
    room = width - sum(column.width + _GAP for column in others)
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="bold")
    table.add_column(name.title, no_wrap=True, overflow="ellipsis", max_width=max(min(room, LONGEST_NAME), 1))
    for column in others:
        style = "reverse" if column.sort == answer["sort"] else ""
        side: Any = "left" if column.title in ("listener", "state", "policy") else "right"
        table.add_column(column.title, justify=side, no_wrap=True, min_width=column.width, header_style=style)
    for row in snapshot.rows:
        table.add_row(*(Text(column.cell(row)) for column in (name, *others)))
    time = datetime.fromtimestamp(answer["time_us"] / 1e6).astimezone()
    head = f"{printable(answer['broker'])}  {time:%Y-%m-%d %H:%M:%S}  {answer['what']}: {answer['total']}"
    if len(snapshot.rows) < answer["total"]:
        head += f", the first {len(snapshot.rows)} by {answer['sort']}"
    hint = Text("q ends, s sorts by the next key" if live else "", style="dim")
    missing = [Text(printable(f"{each[:1].upper()}{each[1:]}"), style="bold") for each in answer.get("unanswered", ())]
    return Group(Text(head, no_wrap=True, overflow="ellipsis"), hint, *missing, table)


def _that_fit(columns: list[_Column], width: int) -> list[_Column]:
    """The columns that fit beside a name of NARROWEST_NAME."""
    chosen = list(columns)
    while sum(column.width + _GAP for column in chosen[1:]) + NARROWEST_NAME > width:
        last = max(chosen, key=lambda column: column.dispensable)
        if not last.dispensable:
            break
        chosen.remove(last)
    return chosen


def printable(text: str) -> str:
    """Text from clients with control and invisible characters escaped."""
    return "".join([char if char.isprintable() else char.encode("unicode_escape").decode() for char in text])


def short(number: float) -> str:
    """Format a number in a few characters."""
    if number < 10 and number != int(number):
        return f"{number:.1f}"
    return _scaled(number, 1_000, ("", "k", "M", "G", "T"))


def size(number: int) -> str:
    """Format a number of bytes in a few characters."""
    return _scaled(number, 1_024, ("", "Ki", "Mi", "Gi", "Ti"))


def _scaled(number: float, thousand: int, units: tuple[str, ...]) -> str:
    if number < 10 * thousand:
        return str(round(number))
    power = 0
    while number >= thousand and power < len(units) - 1:
        number /= thousand
        power += 1
    return f"{number:.1f}{units[power]}" if number < 100 else f"{number:.0f}{units[power]}"


def span(us: int) -> str:
    """Format a duration in its two largest units."""
    seconds = us / 1e6
    if seconds < 10:
        return f"{seconds:.1f}s" if us else "0"
    whole = int(seconds)
    for (unit, size), (lower, part) in pairwise(_UNITS):
        if whole >= size:
            return f"{whole // size}{unit}{whole % size // part:02d}{lower}"
    return f"{whole}s"
