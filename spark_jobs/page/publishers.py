"""The section on publishers: the noisiest ones, how they were limited, and for which clients they were paced."""

from collections.abc import Sequence
from typing import Final

from spark_jobs import formats
from spark_jobs.measures.result import Result, Row
from spark_jobs.page import grids
from spark_jobs.page.grids import FOLDED, Cell, Column, folded
from spark_jobs.page.markup import Html, lead, nothing, section
from spark_jobs.page.named_grids import BROKER, ID, WHY, named_grid, why

_REFILL: Final = 20
"""Patience is refilled with a twentieth of the time (FC-16)."""

_PUBLISHERS: Final = (
    ID,
    Column("received"),
    Column("share of all"),
    Column(""),
    Column("per second", title="of the time for which it was connected"),
    Column("bytes"),
    Column("QoS 0"),
    Column("QoS 1"),
    Column("QoS 2"),
    Column("refused"),
    Column("parked"),
    Column("throttled", title="how long reading was paused by producer_max_rate"),
    Column("paced", title="how long it was held back for full queues (FC-16)"),
    Column("paused", title="how long reading was paused, for any reason"),
    BROKER,
)


def publishers_section(results: Sequence[Result]) -> Html:
    """The noisiest publishers, how they were limited, and the clients for which they were paced."""
    parts: list[Html] = []
    for place, result in enumerate(results):
        rows = result.rows_of("publishers")
        if not rows:
            continue
        if told := _paced_sentence(result):
            parts.append(lead(f"{formats.name(result.label)}: {told}" if len(results) > 1 else told))
        title = f"{formats.name(result.label)}: noisiest" if len(results) > 1 else "Publishers with the most messages"
        made = named_grid(f"publishers-{place}", title, result, "publishers", _PUBLISHERS, _publisher_line)
        parts.append(folded(title, made) if len(results) > 1 else made)
        parts.append(_paced_grid(result, place, several=len(results) > 1))
    if not parts:
        parts.append(nothing("Nothing was published."))
    return section("Publishers", *parts, id_="publishers")


def _paced_sentence(result: Result) -> str:
    """How long publishers were paced; empty if unknown."""
    row = result.maybe("queues")
    if row is None or row["publish_paced_seconds"] is None:
        return ""
    if not row["publish_paced_seconds"]:
        return "No publisher was paced."
    return (
        f"Publishers were paced for {formats.seconds(row['publish_paced_seconds'])} in total, because queues that "
        "drain were full."
    )


_PACED: Final = (
    ID,
    Column("paced", title="how long publishers were paced for it"),
    Column("of its time"),
    Column("", title="a full bar is a twentieth of its time, the maximum over hours"),
    WHY,
    Column("sent of offered"),
    Column("dropped"),
    Column("window full"),
    Column("congested"),
    Column("mqueue max"),
    BROKER,
    Column("listener", text=True),
)


def _paced_line(row: Row) -> list[Cell]:
    return [
        grids.name(row["client_id"]),
        grids.time(row["paced_for_us"]),
        grids.share(row["paced_for_share"]),
        Cell(grids.meter((row["paced_for_share"] or 0.0) * _REFILL, "r1"), row["paced_for_share"]),
        why(row),
        grids.share(row["delivery_ratio"]),
        grids.number(row["dropped"]),
        grids.share(row["window_full_share"]),
        grids.share(row["congested_share"]),
        grids.number(row["mqueue_max"]),
        grids.name(row["broker"]),
        grids.name(row["listener"]),
    ]


def _paced_grid(result: Result, place: int, *, several: bool) -> Html:
    rows = result.rows_of("paced_for_sessions")
    if not rows:
        return Html("")
    title = "Clients for which publishers were paced"
    title = f"{formats.name(result.label)}: {formats.inside(title)}" if several else title
    made = named_grid(f"paced-for-{place}", title, result, "paced_for_sessions", _PACED, _paced_line)
    return folded(title, made) if len(rows) > FOLDED or several else made


def _publisher_line(row: Row) -> list[Cell]:
    return [
        grids.name(row["client_id"]),
        grids.number(row["received"]),
        grids.share(row["share_of_received"]),
        Cell(grids.meter(row["share_of_received"], "r1"), row["share_of_received"]),
        Cell(formats.rate(row["received_per_second"]), row["received_per_second"]),
        Cell(
            formats.DASH if row["received_bytes"] is None else f"{formats.short(row['received_bytes'])}B",
            row["received_bytes"],
        ),
        grids.number(row["received_qos0"]),
        grids.number(row["received_qos1"]),
        grids.number(row["received_qos2"]),
        grids.number(row["publish_refused"]),
        grids.number(row["publish_parked"]),
        grids.time(row["publish_throttled_us"]),
        grids.time(row["publish_paced_us"]),
        grids.time(row["reading_paused_us"]),
        grids.name(row["broker"]),
    ]
