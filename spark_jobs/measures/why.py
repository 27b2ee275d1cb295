"""The probable cause of a session's poor service, from its times and drops: a hint, not a proof."""

from typing import Any, Final

from spark_jobs.measures.fairness import WELL_SERVED
from spark_jobs.measures.numbers import ratio
from spark_jobs.metrics import AWAY_REASONS, CLOCKS, DROP_REASONS

OFFLINE: Final = "offline"
BACKLOG: Final = "backlog"
OVERFLOW: Final = "queue_full"
OVERFLOW_PACED: Final = "queue_full_paced"
"""The same although publishers were paced (FC-16): patience was used up, or nothing was drained."""
LEAST: Final = 0.05  # minimum share of its time for a cause


def shares(row: dict[str, Any]) -> dict[str, float | None]:
    """<clock>_share: the share of the session's time in which its window was full, its rate used up ..."""
    return {f"{clock}_share": ratio(row[f"{clock}_us"], row["duration_us"]) for clock in CLOCKS}


def why(row: dict[str, Any]) -> str:
    """The state with the largest share of its time: offline, window full, rate used up or path congested.

    If all shares are below LEAST, the most frequent drop reason; then backlog, if deliveries were queued; else empty.
    That a client was away is no reason for poor service while it was there.
    """
    whole = row["duration_us"]
    times = {clock: row[f"{clock}_us"] for clock in CLOCKS}
    reasons = [reason for reason in DROP_REASONS if reason not in AWAY_REASONS]
    if row["sent"] >= row["due"] * WELL_SERVED:
        times[OFFLINE], reasons = whole - row["connected_us"], list(DROP_REASONS)
    longest = max(times, key=lambda name: times[name])
    if whole and times[longest] >= LEAST * whole:
        return longest
    reason = max(reasons, key=lambda name: row[f"dropped_{name}"])
    if row[f"dropped_{reason}"]:
        return OVERFLOW_PACED if reason == OVERFLOW and row["paced_for_us"] else reason
    return BACKLOG if row["mqueue_max"] else ""


def why_starved(row: dict[str, Any]) -> str:
    """As `why`, for a starved session: a state that lasted for at least half of its starved time comes first."""
    longest = max(CLOCKS, key=lambda clock: row[f"{clock}_us"])
    return longest if 2 * row[f"{longest}_us"] >= row["starved_us"] else why(row)
