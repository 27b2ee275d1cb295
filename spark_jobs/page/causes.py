"""The tables of what is behind findings: who has most drops, who reconnects, and who was away."""

from collections.abc import Sequence
from typing import Final

from spark_jobs import formats
from spark_jobs.measures.result import Result, Row
from spark_jobs.page import grids
from spark_jobs.page.grids import Cell, Column, folded
from spark_jobs.page.markup import Html
from spark_jobs.page.named_grids import BROKER, ID, WHY, Line, named_grid, why

_AWAY: Final = (
    ID,
    Column("missed", title="offered while it was away, and dropped or waiting at the end"),
    Column("dropped"),
    Column("offered"),
    Column("connected", title="share of its time"),
    BROKER,
    Column("listener", text=True),
)


def _away_line(row: Row) -> list[Cell]:
    return [
        grids.name(row["client_id"]),
        grids.number(row["missed"]),
        grids.number(row["missed_dropped"]),
        grids.number(row["offered"]),
        grids.share(row["connected_share"]),
        grids.name(row["broker"]),
        grids.name(row["listener"]),
    ]


_DROPPED: Final = (
    ID,
    Column("dropped", title="while it was there"),
    Column("share of all"),
    WHY,
    Column("due"),
    BROKER,
    Column("listener", text=True),
)


def _dropped_line(row: Row) -> list[Cell]:
    return [
        grids.name(row["client_id"]),
        grids.number(row["lost"]),
        grids.share(row["share_of_lost"]),
        why(row),
        grids.number(row["due"]),
        grids.name(row["broker"]),
        grids.name(row["listener"]),
    ]


_RECONNECTING: Final = (
    ID,
    Column("sessions", title="that began in its worst hour"),
    Column("from"),
    Column("to"),
    Column("connected", title="share of that time"),
    BROKER,
)


def _reconnecting_line(row: Row) -> list[Cell]:
    return [
        grids.name(row["client_id"]),
        grids.number(row["begun"]),
        grids.moment(row["first_us"]),
        grids.moment(row["last_us"]),
        grids.share(row["connected_share"]),
        grids.name(row["broker"]),
    ]


_TABLES: Final[dict[str, tuple[str, tuple[Column, ...], Line]]] = {
    "dropped_clients": ("Clients with most drops", _DROPPED, _dropped_line),
    "reconnecting_clients": ("Clients that reconnect", _RECONNECTING, _reconnecting_line),
    "away_clients": ("Clients that were away", _AWAY, _away_line),
}


def causes(results: Sequence[Result]) -> list[Html]:
    """The tables of each run that have rows, folded."""
    parts = []
    for place, result in enumerate(results):
        of = f"{formats.name(result.label)}: " if len(results) > 1 else ""
        for name, (title, columns, line) in _TABLES.items():
            if result.rows_of(name):
                named = f"{of}{formats.inside(title) if of else title}"
                parts.append(folded(named, named_grid(f"{name}-{place}", named, result, name, columns, line)))
    return parts
