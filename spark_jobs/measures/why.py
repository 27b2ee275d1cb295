"""What most likely held a session back, from how its time was spent and what was dropped: a hint, not a proof."""

from typing import Any, Final

from spark_jobs.measures.numbers import ratio
from spark_jobs.measures.sessions import CLOCKS
from spark_jobs.metrics import DROP_REASONS

OFFLINE: Final = "offline"
BACKLOG: Final = "backlog"
OVERFLOW: Final = "queue_full"
OVERFLOW_PACED: Final = "queue_full_paced"
"""The same, though publishers had been held back for it (FC-16): patience has run out, or nothing was drained."""
LEAST: Final = 0.05  # of its time; below, a clock explains nothing


def shares(row: dict[str, Any]) -> dict[str, float | None]:
    """<clock>_share: the part of the session's time in which its window was full, its rate used up ..."""
    return {f"{clock}_share": ratio(row[f"{clock}_us"], row["duration_us"]) for clock in CLOCKS}


def why(row: dict[str, Any]) -> str:
    """What took most of its time: offline, window full, rate used up or path congested.

    If none of them did, why most of what was dropped was; then backlog, if deliveries were queued; empty if there is
    nothing to say.
    """
    whole = row["duration_us"]
    times = {OFFLINE: whole - row["connected_us"], **{clock: row[f"{clock}_us"] for clock in CLOCKS}}
    longest = max(times, key=lambda name: times[name])
    if whole and times[longest] >= LEAST * whole:
        return longest
    reason = max(DROP_REASONS, key=lambda name: row[f"dropped_{name}"])
    if row[f"dropped_{reason}"]:
        return OVERFLOW_PACED if reason == OVERFLOW and row["paced_for_us"] else reason
    return BACKLOG if row["mqueue_max"] else ""


def why_starved(row: dict[str, Any]) -> str:
    """As `why` for a starved session, by the time that it was starved: a short while in a day, but all of its trouble.

    A clock explains it that ran for at least half as long in the range.
    """
    longest = max(CLOCKS, key=lambda clock: row[f"{clock}_us"])
    return longest if 2 * row[f"{longest}_us"] >= row["starved_us"] else why(row)
