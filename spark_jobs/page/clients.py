"""The sections that name clients: poorly served, starved, overtaken by QoS 0, stalled, and publishers."""

from collections.abc import Sequence
from typing import Final

from spark_jobs import formats
from spark_jobs.measures.result import Result, Row
from spark_jobs.page import multiples
from spark_jobs.page.findings import inverted
from spark_jobs.page.grids import BROKER, ID, LISTENER, WHY, Column, duration, moment, of_run, of_runs, share, time
from spark_jobs.page.markup import Html, Section, beside, figure, legend, name_of, note, small_figure, tag
from spark_jobs.page.words import WORDS

HOURLY: Final = (("asked", "offered"), ("got", "sent"), ("drop", "starved"))
"""The legend of plots hour by hour."""

_PACED_FOR: Final = time("paced", "paced_for_us", title="how long publishers were paced for it")
_FULL: Final = share("window full", "window_full_share", title="of its time; always: a sign of late acknowledgement")
_CONGESTED: Final = share("congested", "congested_share", title="of its time; a sign of a slow client or network")
_LONGEST_QUEUE: Final = Column("mqueue max", "mqueue_max")
_PLACE: Final = (BROKER, LISTENER)
_WORST: Final = (
    ID, share("sent of due", "delivery_ratio"), WHY, Column("due"), Column("dropped"), Column("gated"),
    time("p99 wait", "wait_p99"), _FULL, _CONGESTED, _PACED_FOR, _LONGEST_QUEUE, *_PLACE,
)  # fmt: skip
_DROPPED: Final = (
    ID, Column("dropped", "lost", title="while it was there"), share("share of all", "share_of_lost"), WHY,
    Column("due"), *_PLACE,
)  # fmt: skip
_RECONNECTING: Final = (
    ID, Column("sessions", "begun", title="that began in its worst hour"), Column("from", "first_us", moment),
    Column("to", "last_us", moment), share("connected", "connected_share", title="share of that time"), BROKER,
)  # fmt: skip
_AWAY: Final = (
    ID, Column("missed", title="offered while it was away, and dropped or waiting at the end"),
    Column("dropped", "missed_dropped"), Column("offered"),
    share("connected", "connected_share", title="share of its time"), *_PLACE,
)  # fmt: skip
_STARVED: Final = (
    ID, Column("longest", "longest_us", duration), Column("from", "longest_start_us", moment), WHY,
    Column("total", "starved_us", duration), Column("times", "runs"), Column("first", "first_us", moment),
    Column("last, to", "last_us", moment), Column("offered meanwhile", "offered"),
    Column("waiting at the end", "waiting"), *_PLACE,
)  # fmt: skip
_INVERTED: Final = (
    ID, Column("overtook", "inverted_qos0"), Column("intervals blocked", "blocked_rows"),
    Column("QoS 0 sent", "sent_qos0"), *_PLACE,
)  # fmt: skip
_STALLED: Final = (
    ID, Column("stalled", "stalled_window"), Column("slow", "slow_consumer"), _FULL, _LONGEST_QUEUE, *_PLACE,
)  # fmt: skip
_PUBLISHERS: Final = (
    ID, Column("received"), share("share of all", "share_of_received"),
    Column("per second", "received_per_second", formats.rate, "of the time for which it was connected"),
    Column("bytes", "received_bytes", lambda value: formats.DASH if value is None else f"{formats.short(value)}B"),
    *[Column(f"QoS {qos}", f"received_qos{qos}") for qos in range(3)],
    Column("refused", "publish_refused"), Column("parked", "publish_parked"),
    time("throttled", "publish_throttled_us", title="how long reading was paused by producer_max_rate"),
    time("paced", "publish_paced_us", title="how long it was held back for full queues (FC-16)"),
    time("paused", "reading_paused_us", title="how long reading was paused, for any reason"), BROKER,
)  # fmt: skip
_PACED: Final = (
    ID, _PACED_FOR, share("of its time", "paced_for_share", title="a twentieth is the maximum over hours"), WHY,
    share("sent of offered", "delivery_ratio"), Column("dropped"), _FULL, _CONGESTED, _LONGEST_QUEUE, *_PLACE,
)  # fmt: skip


def worst_section(results: Sequence[Result]) -> Section:
    """The clients with the lowest delivery ratio, the last run's hour by hour; who lost most, reconnects, was away."""
    found = _short(results[-1])
    told = "Those with the lowest delivery ratio, hour by hour, and what they wait for"
    if not found:
        any_due = any(row["delivery_ratio"] is not None for row in results[-1].rows_of("worst_sessions"))
        told = "Every client was sent all that was due to it" if any_due else "Nothing was due to any client"
    drawn = _multiples(results[-1], found)
    small = beside(*drawn, class_="multiples")
    key = legend(HOURLY)
    how = WORDS["read"]["multiples"]
    parts = (
        figure("The worst, hour by hour", how, small, data=["worst_hours"], key=key) if drawn else Html(""),
        of_runs(results, "worst_sessions", "Lowest delivery ratio", _WORST, _short),
        of_runs(results, "dropped_clients", "Clients with most drops", _DROPPED),
        of_runs(results, "reconnecting_clients", "Clients that reconnect", _RECONNECTING),
        of_runs(results, "away_clients", "Clients that were away", _AWAY),
    )
    return Section("worst", "Poorly served clients", f"{told}.", parts)


def _short(result: Result) -> list[Row]:
    """The worst that were sent less than was due."""
    rows = result.rows_of("worst_sessions")
    return [row for row in rows if row["delivery_ratio"] is not None and row["delivery_ratio"] < 1]


def _multiples(result: Result, worst: Sequence[Row]) -> list[Html]:
    hours: dict[int, list[Row]] = {}
    for row in result.rows_of("worst_hours"):
        hours.setdefault(row["rank"], []).append(row)
    between = multiples.extent([row for rows in hours.values() for row in rows])
    known = {(row["broker"], row["client_id"]): row for row in worst}
    drawn = []
    for _, rows in sorted(hours.items()):
        whole = known.get((rows[0]["broker"], rows[0]["client_id"]))
        if whole is None:
            continue
        label = f"{formats.name(whole['client_id'])}: offered and sent, hour by hour"
        told = [f"{formats.percent(whole['delivery_ratio'])} sent"]
        told += [formats.reason(whole["why"])] if whole["why"] else []
        plot = multiples.session(rows, *between, label)
        drawn.append(small_figure(name_of(whole["client_id"], 26), plot, tag("p", " · ".join(told), class_="note")))
    return drawn


def starvation_section(results: Sequence[Result]) -> Section:
    """The number of starved clients, and the longest ones."""
    sheet = of_runs(results, "starved_worst", "Starved longest", _STARVED)
    told = " ".join(f"{of_run(result, results)}{_starved_sentence(result)}" for result in results)
    return Section("starvation", "Starvation", told, (sheet,))


def _starved_sentence(result: Result) -> str:
    total = result.maybe("starvation", length="all")
    if total is None or not total["clients"]:
        return "No client was starved."
    longest = formats.counted(total["longest_intervals"], "interval")
    was = "was" if total["clients"] == 1 else "were"
    number = formats.counted(total["clients"], "client")
    return f"{number} {was} starved, at most for {longest} in a row."


def order_section(results: Sequence[Result]) -> Section:
    """QoS 0 that overtook waiting QoS 1 and 2, stalled windows and slow consumers."""
    sheets = [
        of_runs(results, "inverted_sessions", "QoS 0 overtook waiting QoS 1 and 2", _INVERTED),
        of_runs(results, "stalled_sessions", "Stalled windows and slow consumers", _STALLED),
    ]
    remark = note(WORDS["read"]["stalled"])
    told = " ".join(f"{of_run(r, results)}{_inversion_sentence(r)} {_stalled_sentence(r)}" for r in results)
    return Section("order", "Order and stalls", told, (*sheets, remark) if any(sheets) else ())


def _inversion_sentence(result: Result) -> str:
    nothing = "QoS 0 overtook nothing: in no interval did QoS 1 or 2 wait from start to end."
    return next((finding.text for finding in inverted(result)), nothing)


def _stalled_sentence(result: Result) -> str:
    found = []
    for row in result.rows_of("stalled"):
        if row["reports"]:
            of = f"{formats.counted(row['reports'], 'report')} of a {formats.reason(row['kind'])}"
            found.append(f"{of} in {formats.counted(row['clients'], 'client')}")
    return f"{formats.listed(found)}." if found else "No window stalled and no consumer was reported as slow."


def publishers_section(results: Sequence[Result]) -> Section:
    """The noisiest publishers, how they were limited, and the clients for which they were paced."""
    sheets = (
        of_runs(results, "publishers", "Publishers with the most messages", _PUBLISHERS),
        of_runs(results, "paced_for_sessions", "Clients for which publishers were paced", _PACED),
    )
    told = " ".join(f"{of_run(result, results)}{_paced_sentence(result)}" for result in results)
    return Section("publishers", "Publishers", told if any(sheets) else "Nothing was published.", sheets)


def _paced_sentence(result: Result) -> str:
    row = result.maybe("queues")
    if row is None or not row["publish_paced_seconds"]:
        return "No publisher was paced."
    return (
        f"Publishers were paced for {formats.seconds(row['publish_paced_seconds'])} in total, because queues that "
        "drain were full."
    )
