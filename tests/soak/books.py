"""Holds the exported metrics to the rules, and to what the clients have seen."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.soak.checker import Lost, Missing, Violation
from tests.soak.client import clock
from tests.soak.observed import Seen
from tests.soak.plan import RoundPlan
from tests.support.broker.metrics import Row, by_session, check_books, read_rows, total

Sessions = dict[tuple[str, Any], list[Row]]
"""Rows by client id and start of the session."""


def check_metrics(directory: Path, plan: RoundPlan, missing: Missing) -> list[Violation]:
    """Return what is wrong with the books, and which losses they do not explain."""
    rows = read_rows(directory)
    found: list[Violation] = []
    try:
        check_books(rows)
    except AssertionError as error:
        found.append(Violation("offered = sent + dropped + waiting", "the metrics", str(error)))
    sessions = by_session(rows)
    for (client_id, started), own in sessions.items():
        found += _check_session(f"{client_id} since {started}", own, plan)
    for lost in missing.sessions:
        found += _check_lost(sessions, lost)
    discarded = total(rows, "publish_discarded")
    if plan.rules.lossless and missing.discardable > discarded:
        detail = f"{missing.discardable} messages are missing, {discarded} were counted as discarded"
        found.append(Violation("FC-26 drops are counted", "addresses", detail))
    return found


def _check_session(who: str, rows: list[Row], plan: RoundPlan) -> list[Violation]:
    found = []
    for reason in ("expired", "too_large", *(["queue_full"] if plan.rules.lossless else [])):
        count = sum(total(rows, f"dropped_{reason}_qos{qos}") for qos in range(3))
        if count:
            found.append(Violation("drops have a reason", who, f"{count} deliveries were dropped: {reason}"))
    if not rows[-1]["ended"]:
        found.append(Violation("the end", who, "has no last row"))
    return found


def _check_lost(sessions: Sessions, lost: Lost) -> list[Violation]:
    """What has not come was dropped, one by one, and what was dropped has not come."""
    seen = lost.session
    rows = _rows_of(sessions, seen)
    if not rows:
        return [Violation("the books", seen.client_id, "has no rows")]
    found = []
    for qos in (1, 2):
        dropped = total(rows, f"dropped_queue_full_qos{qos}")
        least, most = lost.surely[qos], lost.perhaps[qos]
        if dropped < least or (dropped > most and not seen.groups()):
            detail = f"QoS {qos}: {dropped} were counted as dropped, of {least} to {most} that are missing"
            found.append(Violation("drops are counted", seen.client_id, detail))
        sent, acknowledged = total(rows, f"sent_qos{qos}"), total(rows, f"acknowledged_qos{qos}")
        if sent != acknowledged:
            detail = f"QoS {qos}: {sent} sent, {acknowledged} acknowledged when all was still"
            found.append(Violation("acknowledged", seen.client_id, detail))
    return found


def _rows_of(sessions: Sessions, seen: Seen) -> list[Row]:
    """The rows of a session: the last one of its client that was there when the SUBACK came."""
    subscribed_at = datetime.now(UTC) - timedelta(seconds=clock() - seen.subscribed_at)
    found: list[Row] = []
    for (client_id, started), rows in sorted(sessions.items()):
        if client_id == seen.client_id and started <= subscribed_at:
            found = rows
    return found
