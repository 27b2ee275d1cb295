"""The probable cause of a client's poor service."""

from typing import Any

import pytest

from spark_jobs.measures.why import why, why_starved
from spark_jobs.metrics import CLOCKS, DROP_REASONS

pytestmark = pytest.mark.once


def session(**values: Any) -> dict[str, Any]:
    """A session connected for 1000 microseconds, with the given values."""
    made: dict[str, Any] = {"duration_us": 1000, "connected_us": 1000, "mqueue_max": 0, "starved_us": 10}
    made |= {"paced_for_us": 0, "due": 10, "sent": 10}
    made |= {f"{clock}_us": 0 for clock in CLOCKS} | {f"dropped_{reason}": 0 for reason in DROP_REASONS}
    return made | values


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, ""),
        ({"mqueue_max": 3}, "backlog"),
        ({"mqueue_max": 3, "dropped_expired": 1, "dropped_queue_full": 2}, "queue_full"),
        ({"dropped_expired": 1, "dropped_queue_full": 2, "paced_for_us": 1}, "queue_full_paced"),
        ({"dropped_expired": 2, "dropped_queue_full": 1, "paced_for_us": 1}, "expired"),
        ({"dropped_queue_full": 2, "paced_for_us": 500, "congested_us": 50}, "congested"),
        ({"paced_for_us": 500, "mqueue_max": 1}, "backlog"),
        ({"dropped_expired": 1, "congested_us": 50}, "congested"),
        ({"dropped_expired": 1, "congested_us": 49}, "expired"),
        ({"window_full_us": 300, "rate_limited_us": 400}, "rate_limited"),
        ({"window_full_us": 300, "connected_us": 100}, "offline"),
        ({"window_full_us": 300, "connected_us": 100, "sent": 9}, "window_full"),
        ({"dropped_session_ended": 9, "dropped_expired": 1, "connected_us": 100, "sent": 9}, "expired"),
        ({"dropped_session_ended": 9, "dropped_expired": 1}, "session_ended"),
        ({"duration_us": 0, "connected_us": 0}, ""),
    ],
)
def test_what_took_most_time_comes_first(values: dict[str, Any], expected: str) -> None:
    """Then the most frequent drop reason, then a backlog; absence is no cause for who was sent too little meanwhile."""
    assert why(session(**values)) == expected


def test_starvation_is_explained_by_its_own_time() -> None:
    """A path congested for as long as the session was starved is the cause, even if that is short in its day."""
    assert why(session(congested_us=9)) == ""
    assert why_starved(session(congested_us=9)) == "congested"
    assert why_starved(session(congested_us=4, mqueue_max=1)) == "backlog"
