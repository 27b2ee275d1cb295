"""The sections that name clients: poorly served, starved, overtaken by QoS 0, stalled."""

from collections.abc import Sequence
from typing import Final

from spark_jobs import formats
from spark_jobs.measures.result import Result, Row
from spark_jobs.page import grids, multiples
from spark_jobs.page.bars import Bar, bars
from spark_jobs.page.causes import causes
from spark_jobs.page.grids import FOLDED, Cell, Column, folded, grid
from spark_jobs.page.markup import (
    Html,
    both,
    csv_link,
    figure,
    join,
    lead,
    legend,
    name_of,
    note,
    nothing,
    section,
    small_figure,
    tag,
)
from spark_jobs.page.markup import grid as side_by_side
from spark_jobs.page.multiples import Hour
from spark_jobs.page.named_grids import BROKER, ID, WHY, named_grid, why
from spark_jobs.page.words import WORDS

_MICRO: Final = 1_000_000
_READ_MULTIPLES: Final = WORDS["read"]["multiples"]
_READ_STARVED: Final = WORDS["read"]["starved"]


def worst_section(results: Sequence[Result]) -> Html:
    """The clients with the lowest delivery ratio, small multiples (of the last run) and a table; and who was away."""
    parts: list[Html] = []
    for place in reversed(range(len(results))):
        result = results[place]
        rows = [row for row in result.rows_of("worst_sessions") if row["delivery_ratio"] is not None]
        short = [row for row in rows if row["delivery_ratio"] < 1]
        if len(results) > 1:
            parts.append(tag("h3", formats.name(result.label)))
        if not rows:
            parts.append(nothing("Nothing was due to any client."))
            continue
        if not short:
            parts.append(lead("Every client was sent all that was due to it."))
            continue
        drawn = _multiples(result, short)
        if drawn and place == len(results) - 1:
            key = legend([("asked", "offered"), ("got", "sent"), ("drop", "starved")])
            title = "The worst, hour by hour"
            small = side_by_side(*drawn, class_="multiples")
            parts.append(figure(title, _READ_MULTIPLES, small, data=["worst_hours"], key=key))
        lines = [_worst_line(row) for row in short]
        made = grid(f"worst-{place}", "Lowest delivery ratio", _WORST, lines, ["worst_sessions"])
        parts.append(made if place == len(results) - 1 else folded("Lowest delivery ratio", made))
    parts += causes(results)
    return section("Poorly served clients", *parts, id_="worst")


def _multiples(result: Result, worst: Sequence[Row]) -> list[Html]:
    hours: dict[int, list[Row]] = {}
    for row in result.rows_of("worst_hours"):
        hours.setdefault(row["rank"], []).append(row)
    if not hours:
        return []
    first = min(row["hour_us"] for rows in hours.values() for row in rows) / _MICRO
    last = max(row["hour_us"] for rows in hours.values() for row in rows) / _MICRO + 3600
    known = {(row["broker"], row["client_id"]): row for row in worst}
    drawn = []
    for _, rows in sorted(hours.items()):
        of = rows[0]
        if (of["broker"], of["client_id"]) not in known:
            continue
        rows.sort(key=lambda row: row["hour_us"])
        points = [Hour(row["hour_us"] / _MICRO, row["offered"], row["sent"], bool(row["starved_rows"])) for row in rows]
        label = f"{formats.name(of['client_id'])}: offered and sent, hour by hour"
        whole = known.get((of["broker"], of["client_id"]))
        drawn.append(
            small_figure(
                name_of(of["client_id"], 26), Html(multiples.session(points, first, last, label)), _in_short(whole)
            )
        )
    return drawn


def _in_short(row: Row | None) -> Html:
    if row is None:
        return Html("")
    told = [f"{formats.percent(row['delivery_ratio'])} sent"]
    if row["why"]:
        told.append(formats.reason(row["why"]))
    return tag("p", " · ".join(told), class_="note")


_WORST: Final = (
    ID,
    Column("sent of due"),
    Column(""),
    WHY,
    Column("due"),
    Column("dropped"),
    Column("gated"),
    Column("p99 wait"),
    Column("window full", title="share of its time; a window that is always full is a sign of late acknowledgement"),
    Column("congested", title="share of its time; a sign of a slow client or network"),
    Column("paced", title="how long publishers were paced for it"),
    Column("mqueue max"),
    BROKER,
    Column("listener", text=True),
)


def _worst_line(row: Row) -> list[Cell]:
    return [
        grids.name(row["client_id"]),
        grids.share(row["delivery_ratio"]),
        Cell(grids.meter(row["delivery_ratio"], "r1"), row["delivery_ratio"]),
        why(row),
        grids.number(row["due"]),
        grids.number(row["dropped"]),
        grids.number(row["gated"]),
        grids.time(row["wait_p99"]),
        grids.share(row["window_full_share"]),
        grids.share(row["congested_share"]),
        grids.time(row["paced_for_us"]),
        grids.number(row["mqueue_max"]),
        grids.name(row["broker"]),
        grids.name(row["listener"]),
    ]


def starvation_section(results: Sequence[Result]) -> Html:
    """The numbers of starved clients by duration, and the longest ones."""
    several = len(results) > 1
    rows: list[Bar] = []
    for place, result in enumerate(results):
        for row in result.rows_of("starvation"):
            counts = row["length"] != "all" and row["least_intervals"] >= result.facts.starved_after
            if counts and row["runs"]:
                of = f"{formats.name(result.label, 12)}, " if several else ""
                class_ = f"r{place}" if several else "drop"
                number = f"{row['clients']:,}"
                length = str(row["length"]).replace("-", "–").replace("+", " or more")
                rows.append(Bar(f"{of}{length}", class_, row["clients"], number))
    drawn = Html("")
    if rows:
        room = 20 + 6.9 * max(len(row.name) for row in rows)
        label = "Clients by the length of their longest starvation, in intervals"
        how = _READ_STARVED.format(after=results[-1].facts.starved_after)
        plot = both(lambda width: bars(rows, width, label, room=room))
        drawn = figure("Clients by intervals in a row without a delivery", how, plot, data=["starvation"])
    return section(
        "Starvation",
        lead(" ".join(_starved_sentence(result, several) for result in results)),
        drawn,
        *[_starved_grid(result, place, several) for place, result in enumerate(results)],
        id_="starvation",
    )


def _starved_sentence(result: Result, several: bool) -> str:
    of = f"{formats.name(result.label)}: " if several else ""
    total = result.maybe("starvation", length="all")
    if total is None or not total["clients"]:
        return f"{of}No client was starved.{_shorter(result)}"
    longest = formats.counted(total["longest_intervals"], "interval")
    was = "was" if total["clients"] == 1 else "were"
    number = formats.counted(total["clients"], "client")
    return f"{of}{number} {was} starved, at most for {longest} in a row.{_shorter(result)}"


def _shorter(result: Result) -> str:
    """The numbers of clients with runs that are too short to count as starved."""
    rows = [
        row
        for row in result.rows_of("starvation")
        if row["length"] != "all" and row["least_intervals"] < result.facts.starved_after and row["clients"]
    ]
    if not rows:
        return ""
    told = formats.listed([f"{row['clients']:,} for {row['length'].replace('-', '–')}" for row in rows])
    return f" For fewer than {result.facts.starved_after} intervals, which can be chance: {told}."


_STARVED: Final = (
    ID,
    Column("longest"),
    Column("from"),
    WHY,
    Column("total"),
    Column("times"),
    Column("first"),
    Column("last, to"),
    Column("offered meanwhile"),
    Column("waiting at the end"),
    BROKER,
    Column("listener", text=True),
)


def _starved_line(row: Row) -> list[Cell]:
    return [
        grids.name(row["client_id"]),
        Cell(formats.seconds(row["longest_us"] / _MICRO), row["longest_us"]),
        grids.moment(row["longest_start_us"]),
        why(row),
        Cell(formats.seconds(row["starved_us"] / _MICRO), row["starved_us"]),
        grids.number(row["runs"]),
        grids.moment(row["first_us"]),
        grids.moment(row["last_us"]),
        grids.number(row["offered"]),
        grids.number(row["waiting"]),
        grids.name(row["broker"]),
        grids.name(row["listener"]),
    ]


def _starved_grid(result: Result, place: int, several: bool) -> Html:
    rows = result.rows_of("starved_worst")
    if not rows:
        return Html("")
    title = f"{formats.name(result.label)}: starved longest" if several else "Starved longest"
    made = named_grid(f"starved-{place}", title, result, "starved_worst", _STARVED, _starved_line)
    all_of_them = note(join(["All starved clients: ", csv_link("starved_sessions"), "."]))
    return join([folded(title, made) if several and not place else made, all_of_them])


def order_section(results: Sequence[Result]) -> Html:
    """QoS 0 that overtook waiting QoS 1 and 2, stalled windows and slow consumers."""
    parts: list[Html] = []
    for place, result in enumerate(results):
        if len(results) > 1:
            parts.append(tag("h3", formats.name(result.label)))
        parts.append(lead(f"{_inversion_sentence(result)} {_stalled_sentence(result)}"))
        for name, title, columns, line in (
            ("inverted_sessions", "QoS 0 overtook waiting QoS 1 and 2", _INVERTED, _inverted_line),
            ("stalled_sessions", "Stalled windows and slow consumers", _STALLED, _stalled_line),
        ):
            rows = result.rows_of(name)
            if rows:
                made = named_grid(f"{name}-{place}", title, result, name, columns, line)
                parts.append(folded(title, made) if len(rows) > FOLDED or len(results) > 1 else made)
    parts.append(
        note(
            "Reported by the brokers: a window is stalled if it is full and nothing in it is acknowledged for long; a "
            "consumer is slow if it has a backlog and drains it slowly."
        )
    )
    return section("Order and stalls", *parts, id_="order")


def _inversion_sentence(result: Result) -> str:
    row = result.maybe("inversion")
    if row is None or not row["blocked_rows"]:
        return "QoS 0 overtook nothing: in no interval did QoS 1 or 2 wait from start to end."
    if not row["inverted_qos0"]:
        return (
            f"No QoS 0 overtook waiting QoS 1 and 2, in {formats.counted(row['blocked_rows'], 'interval')} in which "
            "that was possible."
        )
    noun = "delivery" if row["inverted_qos0"] == 1 else "deliveries"
    return (
        f"{row['inverted_qos0']:,} QoS 0 {noun} overtook waiting QoS 1 and 2, in "
        f"{formats.counted(row['clients'], 'client')}: {formats.percent(row['share_of_sent_qos0'])} of QoS 0 sent."
    )


def _stalled_sentence(result: Result) -> str:
    found = []
    for row in result.rows_of("stalled"):
        if row["reports"]:
            of = f"{formats.counted(row['reports'], 'report')} of a {formats.reason(row['kind'])}"
            found.append(f"{of} in {formats.counted(row['clients'], 'client')}")
    return f"{formats.listed(found)}." if found else "No window stalled and no consumer was reported as slow."


_INVERTED: Final = (
    ID,
    Column("overtook"),
    Column("intervals blocked"),
    Column("QoS 0 sent"),
    BROKER,
    Column("listener", text=True),
)
_STALLED: Final = (
    ID,
    Column("stalled"),
    Column("slow"),
    Column("window full"),
    Column("mqueue max"),
    BROKER,
    Column("listener", text=True),
)


def _inverted_line(row: Row) -> list[Cell]:
    return [
        grids.name(row["client_id"]),
        grids.number(row["inverted_qos0"]),
        grids.number(row["blocked_rows"]),
        grids.number(row["sent_qos0"]),
        grids.name(row["broker"]),
        grids.name(row["listener"]),
    ]


def _stalled_line(row: Row) -> list[Cell]:
    return [
        grids.name(row["client_id"]),
        grids.number(row["stalled_window"]),
        grids.number(row["slow_consumer"]),
        grids.share(row["window_full_share"]),
        grids.number(row["mqueue_max"]),
        grids.name(row["broker"]),
        grids.name(row["listener"]),
    ]
