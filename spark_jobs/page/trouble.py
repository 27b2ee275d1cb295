"""Sessions that were treated unfairly: starved or poorly served, from when to when, and why."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from spark_jobs import formats
from spark_jobs.measures.fairness import WELL_SERVED
from spark_jobs.measures.result import Result, Row

HOUR: Final = 3_600_000_000
BACKLOG: Final = "backlog"

# For one session, for several, and an interpretation.
_BECAUSE: Final = {
    "window_full": ("its window was full", "their windows were full", "a sign of late acknowledgement"),
    "window_bytes_full": (
        "its window was full in bytes",
        "their windows were full in bytes",
        "a sign of late acknowledgement",
    ),
    "rate_limited": ("its rate was used up", "their rates were used up", "the limit is below the demand"),
    "congested": (
        "its send path was congested",
        "their send paths were congested",
        "a sign of a slow client or network",
    ),
    "queue_full": ("its queue was full", "their queues were full", "more is offered than can be sent"),
    "queue_full_paced": (
        "its queue was full although publishers were paced",
        "their queues were full although publishers were paced",
        "more is offered than can be sent",
    ),
    "expired": ("messages expired while they waited", "messages expired while they waited", ""),
    "aged": ("messages waited too long", "messages waited too long", "longer than session.max_mqueue_age"),
    "not_permitted": ("rules no longer permitted its messages", "rules no longer permitted their messages", ""),
    "too_large": ("messages exceeded its Maximum Packet Size", "messages exceeded their Maximum Packet Size", ""),
}


@dataclass(frozen=True)
class Trouble:
    """Sessions that were treated unfairly: rows of the worst, the number of all, since when, and why."""

    rows: Sequence[Row]
    number: int
    since: str
    why: str

    @property
    def several(self) -> bool:
        """Whether it is more than one."""
        return self.number > 1


def starvation(result: Result) -> Trouble | None:
    """The starved clients; None without any."""
    total = result.maybe("starvation", length="all")
    rows = result.rows_of("starved_worst")
    if total is None or not total["sessions"]:
        return None
    return Trouble(rows, total["sessions"], _when_starved(result, rows), typical_reason(rows))


def _when_starved(result: Result, rows: Sequence[Row]) -> str:
    """From when to when: `hours` covers all starved sessions, `rows` only the worst, but to the minute."""
    starts = [row["first_us"] for row in rows if row["first_us"] is not None]
    ends = [row["last_us"] for row in rows if row["last_us"] is not None]
    hours = [row["hour_us"] for row in result.rows_of("hours") if row["starved_sessions"]]
    if hours:
        if not starts or min(hours) < min(starts) // HOUR * HOUR:
            starts.append(min(hours))
        if not ends or max(hours) > max(ends):
            ends.append(min(max(hours) + HOUR, result.facts.last_us))
    return _when(starts, ends, result.facts.last_us)


def _when(starts: Sequence[int], ends: Sequence[int], last_us: int) -> str:
    if not starts or not ends:
        return ""
    if max(ends) >= last_us - 2 * 60_000_000:
        return f" from {formats.minute(min(starts))} on, to the end"
    return f" from {formats.between(min(starts), max(ends))}"


def poorly_served(result: Result) -> Trouble | None:
    """The clients with a delivery ratio below WELL_SERVED; None without any."""
    total = result.maybe("fairness", scope="all", qos="all")
    if total is None or not total["poorly_served"]:
        return None
    rows = [
        row
        for row in result.rows_of("worst_sessions")
        if row["delivery_ratio"] is not None and row["delivery_ratio"] < WELL_SERVED
    ]
    hours = [
        row["hour_us"]
        for row in result.rows_of("worst_hours")
        if row["delivery_ratio"] is not None and row["delivery_ratio"] < WELL_SERVED
    ]
    first, last = result.facts.first_us, result.facts.last_us
    since = _when([max(hour, first) for hour in hours], [min(hour + HOUR, last) for hour in hours], last)
    number = total["poorly_served"]
    return Trouble(rows, number, since, typical_reason(rows))


def known_reasons(rows: Sequence[Row]) -> Counter[str]:
    """The number of rows with each reason. A backlog is an effect, not a reason."""
    return Counter(row["why"] for row in rows if row["why"] and row["why"] != BACKLOG)


def typical_reason(rows: Sequence[Row]) -> str:
    """The reason of more than half of the rows; "" if there is none."""
    return next((why for why, number in known_reasons(rows).items() if 2 * number > len(rows)), "")


def because(why: str) -> tuple[str, str, str]:
    """The texts for a reason: for one session, for several, and an interpretation."""
    reason = formats.reason(why)
    return _BECAUSE.get(why, (reason, reason, ""))
