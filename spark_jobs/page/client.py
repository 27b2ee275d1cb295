"""The section about one client (`--client`): its sessions hour by hour."""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from spark_jobs import formats
from spark_jobs.measures.client import NAME
from spark_jobs.measures.result import Result, Row
from spark_jobs.page import grids, multiples
from spark_jobs.page.grids import Cell, Column, grid
from spark_jobs.page.markup import Html, figure, lead, legend, name_of, note, nothing, section, small_figure, tag
from spark_jobs.page.markup import grid as side_by_side
from spark_jobs.page.multiples import Hour
from spark_jobs.page.words import WORDS

MOST_HOURS: Final = 400
"""Hours that the table shows, the last ones; the CSV has all."""
MOST_SESSIONS: Final = 24
"""Sessions with a plot, the last ones."""
_MICRO: Final = 1_000_000
_READ: Final = WORDS["read"]["client"]
_COLUMNS: Final = (
    Column("hour", text=True),
    Column("session since", text=True),
    Column("connected"),
    Column("offered"),
    Column("sent of offered"),
    Column("dropped"),
    Column("why", text=True, title="the cause of blocking for the largest part of its time"),
    Column("QoS 1 ack p99"),
    Column("QoS 2 ack p99"),
    Column("QoS 0 wait p99"),
    Column("window full"),
    Column("congested"),
    Column("paced", title="how long publishers were paced for it"),
    Column("starved", title="intervals in which it was sent nothing although deliveries were there"),
    Column("mqueue max"),
    Column("received", title="messages that it published"),
    Column("reading paused"),
    Column("broker", text=True),
)


def client_section(results: Sequence[Result]) -> Html:
    """Everything about one client, of each run."""
    parts: list[Html] = []
    for place, result in enumerate(results):
        if len(results) > 1:
            parts.append(tag("h3", formats.name(result.label)))
        parts += _of_run(result, place)
    return section("One client", *parts, id_="client")


def _of_run(result: Result, place: int) -> list[Html]:
    rows = result.rows_of(NAME)
    if not rows:
        return [nothing("It had no session in this range.")]
    sessions = [list(hours) for _, hours in groupby(rows, key=lambda row: (row["broker"], row["session_started_us"]))]
    offered, sent = (sum(row[name] for row in rows) for name in ("offered", "sent"))
    told = f": {formats.counted(len(sessions), 'session')}, {offered:,} deliveries offered, {sent:,} sent."
    first, last = rows[0]["hour_us"], rows[0]["hour_us"]
    for row in rows:
        first, last = min(first, row["hour_us"]), max(last, row["hour_us"])
    drawn = [_plot(hours, first / _MICRO, last / _MICRO + 3600) for hours in sessions[-MOST_SESSIONS:]]
    key = legend([("asked", "offered"), ("got", "sent"), ("drop", "starved")])
    ordered = sorted(rows, key=lambda row: row["hour_us"])[-MOST_HOURS:]
    remark = [note(f"The last {MOST_HOURS} of {len(rows):,} hours; the CSV has all.")] if len(rows) > MOST_HOURS else []
    return [
        lead(Html(f"{name_of(rows[0]['client_id'])}{tag('span', told)}")),
        figure("Its sessions, hour by hour", _READ, side_by_side(*drawn, class_="multiples"), data=[NAME], key=key),
        grid(f"client-{place}", "Hour by hour", _COLUMNS, [_line(row) for row in ordered], [NAME]),
        *remark,
    ]


def _plot(rows: Sequence[Row], first: float, last: float) -> Html:
    points = [Hour(row["hour_us"] / _MICRO, row["offered"], row["sent"], bool(row["starved_rows"])) for row in rows]
    since = f"since {formats.minute(rows[0]['session_started_us'])}, {formats.name(rows[0]['broker'], 24)}"
    drawing = multiples.session(points, first, last, f"session {since}: offered and sent, hour by hour")
    return small_figure(since, Html(drawing))


def _line(row: Row) -> list[Cell]:
    received = sum(row[f"received_qos{qos}"] for qos in range(3))
    return [
        grids.moment(row["hour_us"]),
        grids.moment(row["session_started_us"]),
        grids.share(row["connected_share"]),
        grids.number(row["offered"]),
        grids.share(row["delivery_ratio"]),
        grids.number(row["dropped"]),
        Cell(formats.reason(row["why"])),
        grids.time(row["ack_qos1_p99"]),
        grids.time(row["ack_qos2_p99"]),
        grids.time(row["wait_qos0_p99"]),
        grids.share(row["window_full_share"]),
        grids.share(row["congested_share"]),
        grids.time(row["paced_for_us"]),
        grids.number(row["starved_rows"]),
        grids.number(row["mqueue_max"]),
        grids.number(received),
        grids.time(row["reading_paused_us"]),
        grids.name(row["broker"]),
    ]
