"""The section on publishers: who sends most, what was done about it, and for which sessions they were held back."""

from collections.abc import Sequence
from typing import Final

from spark_jobs import words
from spark_jobs.measures.result import Result, Row
from spark_jobs.page import grids
from spark_jobs.page.grids import FOLDED, Cell, Column, folded
from spark_jobs.page.markup import Html, lead, nothing, section
from spark_jobs.page.who import BROKER, ID, WHY, named_grid, why

_REFILL: Final = 20
"""Real time refills patience with a twentieth (FC-16)."""

_PUBLISHERS: Final = (
    ID,
    Column("received"),
    Column("share of all"),
    Column(""),
    Column("per second"),
    Column("bytes"),
    Column("QoS 0"),
    Column("QoS 1"),
    Column("QoS 2"),
    Column("refused"),
    Column("parked"),
    Column("throttled", title="how long it was not read because of producer_max_rate"),
    Column("held back", title="how long it was held back for queues that drained"),
    Column("paused", title="how long it was not read, for whatever reason"),
    BROKER,
)


def publishers_section(results: Sequence[Result]) -> Html:
    """Who sends most, what was done about it, and which sessions publishers were held back for."""
    parts: list[Html] = []
    for place, result in enumerate(results):
        rows = result.rows_of("publishers")
        if not rows:
            continue
        if told := _held_back_words(result):
            parts.append(lead(f"{words.name(result.label)}: {told}" if len(results) > 1 else told))
        title = f"{words.name(result.label)}: noisiest" if len(results) > 1 else "Noisiest publishers"
        made = named_grid(f"publishers-{place}", title, result, "publishers", _PUBLISHERS, _publisher_line)
        parts.append(folded(title, made) if len(results) > 1 else made)
        parts.append(_paced_grid(result, place, several=len(results) > 1))
    if not parts:
        parts.append(nothing("Nobody published anything."))
    return section("Publishers", *parts, id_="publishers")


def _held_back_words(result: Result) -> str:
    """How long publishers were held back; empty if that is not known."""
    row = result.maybe("queues")
    if row is None or row["publish_paced_seconds"] is None:
        return ""
    if not row["publish_paced_seconds"]:
        return "No publisher was held back for a full queue."
    return (
        f"Publishers were held back for {words.seconds(row['publish_paced_seconds'])} in all, while queues that "
        "drained had no room for what they sent."
    )


_PACED: Final = (
    ID,
    Column("held back", title="how long publishers were held back for it"),
    Column("of its time"),
    Column("", title="a full bar is a twentieth of its time: over hours there is no more"),
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
    title = "Sessions that publishers were held back for"
    title = f"{words.name(result.label)}: {words.inside(title)}" if several else title
    made = named_grid(f"paced-for-{place}", title, result, "paced_for_sessions", _PACED, _paced_line)
    return folded(title, made) if len(rows) > FOLDED or several else made


def _publisher_line(row: Row) -> list[Cell]:
    return [
        grids.name(row["client_id"]),
        grids.number(row["received"]),
        grids.share(row["share_of_received"]),
        Cell(grids.meter(row["share_of_received"], "r1"), row["share_of_received"]),
        Cell(words.rate(row["received_per_second"]), row["received_per_second"]),
        Cell(
            words.DASH if row["received_bytes"] is None else f"{words.short(row['received_bytes'])}B",
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
