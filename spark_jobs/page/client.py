"""The section about one client (`--client`): its sessions hour by hour."""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from spark_jobs import formats
from spark_jobs.measures.client import NAME
from spark_jobs.measures.result import Result, Row
from spark_jobs.page import multiples
from spark_jobs.page.clients import HOURLY
from spark_jobs.page.grids import BROKER, P99, WHY, Column, moment, of_runs, share, time, words
from spark_jobs.page.markup import Html, Section, beside, figure, legend, note, small_figure
from spark_jobs.page.words import WORDS

MOST_HOURS: Final = 400
"""Hours that the table shows, the last ones; the CSV has all."""
MOST_SESSIONS: Final = 24
"""Sessions with a plot, the last ones."""
_COLUMNS: Final = (
    words("hour", "hour_us", moment), words("session since", "session_started_us", moment),
    share("connected", "connected_share"), Column("offered"), share("sent of offered", "delivery_ratio"),
    Column("dropped"), WHY, *P99, share("window full", "window_full_share"), share("congested", "congested_share"),
    time("paced", "paced_for_us", title="how long publishers were paced for it"),
    Column("starved", "starved_rows", title="intervals in which it was sent nothing although deliveries were there"),
    Column("mqueue max", "mqueue_max"),
    Column("received", lambda row: sum(row[f"received_qos{qos}"] for qos in range(3)), title="that it published"),
    time("reading paused", "reading_paused_us"), BROKER,
)  # fmt: skip


def client_section(results: Sequence[Result]) -> Section:
    """Everything about one client; the plots are of the last run."""
    rows = results[-1].rows_of(NAME)
    if not any(result.rows_of(NAME) for result in results):
        return Section("client", "One client", "It had no session in this range.")
    sessions = [list(hours) for _, hours in groupby(rows, key=lambda row: (row["broker"], row["session_started_us"]))]
    offered, sent = (sum(row[name] for row in rows) for name in ("offered", "sent"))
    who = formats.name(rows[0]["client_id"]) if rows else formats.DASH
    told = f"{who}: {formats.counted(len(sessions), 'session')}, {offered:,} deliveries offered, {sent:,} sent."
    drawn = [_plot(hours, *multiples.extent(rows)) for hours in sessions[-MOST_SESSIONS:]]
    small = beside(*drawn, class_="multiples")
    sheet = of_runs(results, NAME, "Hour by hour", _COLUMNS, _last_hours, id_="client-hours", shown=MOST_HOURS)
    remark = note(f"The last {MOST_HOURS} of {len(rows):,} hours; the CSV has all.") if len(rows) > MOST_HOURS else ""
    how = WORDS["read"]["client"]
    plots = figure("Its sessions, hour by hour", how, small, data=[NAME], key=legend(HOURLY)) if drawn else ""
    return Section("client", "One client", told, (Html(plots), sheet, Html(remark)))


def _last_hours(result: Result) -> list[Row]:
    return sorted(result.rows_of(NAME), key=lambda row: row["hour_us"])[-MOST_HOURS:]


def _plot(rows: Sequence[Row], first: float, last: float) -> Html:
    since = f"since {formats.minute(rows[0]['session_started_us'])}, {formats.name(rows[0]['broker'], 24)}"
    label = f"session {since}: offered and sent, hour by hour"
    return small_figure(since, multiples.session(rows, first, last, label))
