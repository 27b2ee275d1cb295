"""Clients that were treated unfairly: starved or poorly served, when, and why."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from spark_jobs import formats
from spark_jobs.measures.fairness import WELL_SERVED
from spark_jobs.measures.result import Result, Row

HOUR: Final = 3_600_000_000
BACKLOG: Final = "backlog"

_BECAUSE: Final[dict[str, tuple[str, ...]]] = {
    "window_full": ("its window was full", "their windows were full"),
    "window_bytes_full": ("its window was full in bytes", "their windows were full in bytes"),
    "rate_limited": ("its rate was used up", "their rates were used up"),
    "congested": ("its send path was congested", "their send paths were congested"),
    "queue_full": ("its queue was full", "their queues were full", "more is offered than can be sent"),
    "queue_full_paced": (
        "its queue was full although publishers were paced",
        "their queues were full although publishers were paced",
        "more is offered than can be sent",
    ),
    "expired": ("messages expired while they waited", "messages expired while they waited"),
    "aged": ("messages waited too long", "messages waited too long", "longer than session.max_mqueue_age"),
    "not_permitted": ("rules no longer permitted its messages", "rules no longer permitted their messages"),
    "too_large": ("messages exceeded its Maximum Packet Size", "messages exceeded their Maximum Packet Size"),
}
"""For one client, for several, and an interpretation if formats.ADVICE has none."""


@dataclass(frozen=True)
class Episodes:
    """When it was: from the first to the last, how often, how long (median), and for which share of the time."""

    first_us: int
    last_us: int
    number: int
    seconds: float
    share: float | None

    def told(self, end_us: int) -> str:
        """In words, of a report that ends then."""
        if self.number > 1:
            return (
                f", in {self.number:,} episodes of {formats.seconds(self.seconds)} (median), "
                f"{formats.percent(self.share)} of the time, between "
                f"{formats.between(self.first_us, self.last_us).replace(' to ', ' and ')}"
            )
        if self.last_us >= end_us - 2 * 60_000_000:
            return f" from {formats.minute(self.first_us)} on, to the end"
        return f" from {formats.between(self.first_us, self.last_us)}"


@dataclass(frozen=True)
class Trouble:
    """Clients that were treated unfairly: rows of the worst, the number of all, when, and why."""

    rows: Sequence[Row]
    number: int
    when: Episodes | None
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
    if total is None or not total["clients"]:
        return None
    when = Episodes(
        *(total[name] for name in ("first_us", "last_us", "episodes", "episode_seconds", "episodes_share"))
    )
    return Trouble(rows, total["clients"], when, when.told(result.facts.last_us), typical_reason(rows))


def poorly_served(result: Result) -> Trouble | None:
    """The clients with a delivery ratio below WELL_SERVED; None without any."""
    total = result.maybe("fairness", scope="all", qos="all")
    if total is None or not total["poorly_served"]:
        return None
    rows = [row for row in result.rows_of("worst_sessions") if (row["delivery_ratio"] or 0) < WELL_SERVED]
    named = {(row["broker"], row["client_id"]) for row in rows}
    hours = {
        row["hour_us"]
        for row in result.rows_of("worst_hours")
        if (row["broker"], row["client_id"]) in named
        and row["delivery_ratio"] is not None
        and row["delivery_ratio"] < WELL_SERVED
    }
    when = _of_hours(sorted(hours), result)
    since = when.told(result.facts.last_us) if when else ""
    return Trouble(rows, total["poorly_served"], when, since, typical_reason(rows))


def _of_hours(hours: Sequence[int], result: Result) -> Episodes | None:
    """Hours in a row are one episode."""
    if not hours:
        return None
    firsts = [hour for hour in hours if hour - HOUR not in hours]
    lasts = [hour + HOUR for hour in hours if hour + HOUR not in hours]
    firsts[0], lasts[-1] = max(firsts[0], result.facts.first_us), min(lasts[-1], result.facts.last_us)
    lengths = [(last - first) / 1e6 for first, last in zip(firsts, lasts, strict=True)]
    whole = (result.maybe("totals", qos="all") or {}).get("seconds")
    share = sum(lengths) / whole if whole else None
    return Episodes(firsts[0], lasts[-1], len(firsts), median(lengths), share)


def known_reasons(rows: Sequence[Row]) -> Counter[str]:
    """The number of rows with each reason. A backlog is an effect, not a reason."""
    return Counter(row["why"] for row in rows if row["why"] and row["why"] != BACKLOG)


def typical_reason(rows: Sequence[Row]) -> str:
    """The reason of more than half of the rows; "" if there is none."""
    return next((why for why, number in known_reasons(rows).items() if 2 * number > len(rows)), "")


def because(why: str) -> tuple[str, str, str]:
    """The texts for a reason: for one session, for several, and an interpretation."""
    reason = formats.reason(why)
    one, several, *meaning = _BECAUSE.get(why, (reason, reason))
    return one, several, meaning[0] if meaning else formats.ADVICE["meanings"].get(why, "")
