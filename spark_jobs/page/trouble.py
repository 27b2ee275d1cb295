"""Clients that were treated unfairly: starved or poorly served, when, and why."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from spark_jobs import formats
from spark_jobs.measures.fairness import WELL_SERVED
from spark_jobs.measures.result import Result, Row
from spark_jobs.page.words import WORDS

HOUR: Final = 3_600_000_000
BACKLOG: Final = "backlog"


@dataclass(frozen=True)
class Episodes:
    """When it was: from the first to the last, how often, how long (median), and for which share of the time.

    `known` are start and end of those that are known one by one.
    """

    first_us: int
    last_us: int
    number: int
    seconds: float
    share: float | None
    known: tuple[tuple[int, int], ...]

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
    known = tuple((row["longest_start_us"], row["longest_start_us"] + row["longest_us"]) for row in rows)
    first, last, number = (total[name] for name in ("first_us", "last_us", "episodes"))
    when = Episodes(first, last, number, total["episode_seconds"], total["episodes_share"], known)
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
    known = tuple(zip(firsts, lasts, strict=True))
    return Episodes(firsts[0], lasts[-1], len(firsts), median(lengths), share, known)


def known_reasons(rows: Sequence[Row]) -> Counter[str]:
    """The number of rows with each reason. A backlog is an effect, not a reason."""
    return Counter(row["why"] for row in rows if row["why"] and row["why"] != BACKLOG)


def typical_reason(rows: Sequence[Row]) -> str:
    """The reason of more than half of the rows; "" if there is none."""
    return next((why for why, number in known_reasons(rows).items() if 2 * number > len(rows)), "")


def because(why: str) -> tuple[str, str, str]:
    """The texts for a reason: for one session, for several, and an interpretation."""
    reason = formats.reason(why)
    meaning = WORDS["meanings"].get(why) or formats.ADVICE["meanings"].get(why, "")
    return WORDS["because"].get(why, reason), WORDS["because_several"].get(why, reason), meaning
