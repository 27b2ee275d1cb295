"""What an operator should know first, in sentences: what is dropped, then who is slow, what waits, and who is away.

That all is well is said only if there is nothing of it.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Protocol

from broker.admin.dashboard.moment import AwayRow, DroppingRow, Finding, SlowRow
from broker.admin.waiting import DISK
from broker.runtime.clock import SECOND

if TYPE_CHECKING:
    from broker.admin.dashboard.moment import Rates
    from broker.admin.rows import GroupRow

SLOW_AFTER: Final = 9 * SECOND // 10
"""Microseconds from which on a backlog is named: shorter ones come and go."""

WELL: Final = ("brief", "well")
"""The kinds of sentences that say that nothing is wrong."""

_ADVICE: Final = {
    "offline_qos0": "QoS 0 waits for clients that are away only with session.mqueue_store_qos0.",
    "expired": "The Message Expiry Interval of the messages was over before they could be sent.",
    "too_large": "The messages exceed the Maximum Packet Size that the client has stated.",
    "aged": "They had waited longer than session.max_mqueue_age.",
    "not_permitted": "Rules do not allow any more what they allowed when the messages were queued.",
}
"""What is dropped although the queue has room, and why. Otherwise the advice is about what the session waits for."""


_ENDED: Final = "session_ended"
"""What waits in a session is dropped with it: its client, or its expiry, has ended it. This comes last."""


class Backlogs(Protocol):
    """What has been seen of the sessions."""

    slow_count: int
    """Connected sessions with a backlog."""
    away_count: int
    """Sessions for which something waits, and whose clients are away."""
    away_len: int
    """What waits for them."""

    def dropping(self) -> list[DroppingRow]:
        """Those of which most is dropped, the first with the most."""

    def slow(self) -> list[SlowRow]:
        """The longest backlogs, the longest first."""

    def away(self) -> list[AwayRow]:
        """Those for which most waits while they are away, the first with the most."""


def findings(
    sample: Backlogs, rates: "Rates | None", dropped_lately: dict[str, int], groups: "list[GroupRow]", full: int
) -> list[Finding]:
    """The sentences, the most important first; at least one.

    `dropped_lately`: deliveries dropped in the last minute, by reason. `full`: addresses that are full.
    """
    ended = dropped_lately.pop(_ENDED, 0)
    now = {reason: rate for reason, rate in (rates.dropped if rates is not None else {}).items() if reason != _ENDED}
    found = [
        *_dropped(sample.dropping(), now, dropped_lately),
        *_slow(sample.slow(), sample.slow_count),
        *_waits(groups, full),
        *_away(sample.away(), sample.away_count, sample.away_len),
        *_lately(ended, _ENDED),
    ]
    if found:
        return found
    if sample.slow_count:
        return [Finding(kind="brief", text="Backlogs come and go: no session is slow for long")]
    if rates is None:
        return [Finding(kind="well", text="Nothing waits")]
    return [Finding(kind="well", text="Nothing waits and nothing is dropped: what is offered is sent at once")]


def _dropped(rows: list[DroppingRow], now: dict[str, float], lately: dict[str, int]) -> Iterator[Finding]:
    in_all = max([sum(now.values()), *(row.dropped for row in rows)])
    if rows and in_all:
        worst = rows[0]
        where = "" if worst.connected else " while it is away"
        others = f", {number(in_all)} in all" if len(rows) > 1 else ""
        text = f": {number(worst.dropped)} deliveries a second are dropped{where}{others}"
        yield Finding(kind="dropped", client_id=worst.client_id, text=text, drops=worst.reason, advice=worst.advice)
    elif in_all:
        reason = max(now, key=now.__getitem__)
        yield Finding(kind="dropped", text=f"{number(in_all)} deliveries a second are dropped", drops=reason)
    elif lately:
        reason = max(lately, key=lately.__getitem__)
        yield from _lately(sum(lately.values()), reason)


def _lately(count: int, reason: str) -> Iterator[Finding]:
    if count:
        text = f"{_counted(count, 'delivery was', 'deliveries were')} dropped in the last minute"
        yield Finding(kind="dropped", text=text, drops=reason)


def _slow(rows: list[SlowRow], count: int) -> Iterator[Finding]:
    worst = next((row for row in rows if row.for_us >= SLOW_AFTER or row.waits_for == DISK), None)
    if worst is None:
        return
    others = f", and {_counted(count - 1, 'other has', 'others have')} a backlog" if count > 1 else ""
    text = f" is slow: {worst.because}{others}"
    yield Finding(kind="slow", client_id=worst.client_id, text=text, advice=worst.advice)


def _waits(groups: "list[GroupRow]", full: int) -> Iterator[Finding]:
    if full:
        yield Finding(kind="waits", text=f"{_counted(full, 'address is', 'addresses are')} full: PUBLISHes may wait")
    waiting = [group for group in groups if group.mqueue_len]
    if waiting:
        longest = waiting[0]
        count = _counted(longest.mqueue_len, "delivery waits", "deliveries wait")
        members = _counted(longest.members, "member", "members")
        yield Finding(kind="waits", text=f"Group {longest.group}: {count} for its {members}")


def _away(rows: list[AwayRow], count: int, length: int) -> Iterator[Finding]:
    if not rows:
        return
    longest = rows[0]
    others = f"; {_counted(count - 1, 'other is', 'others are')} away too, {length:,} wait in all" if count > 1 else ""
    text = f" is away: {_counted(longest.waiting, 'delivery waits', 'deliveries wait')} for it{others}"
    yield Finding(kind="away", client_id=longest.client_id, text=text)


def drop_advice(reason: str, waiting: str) -> str:
    """Why deliveries are dropped for this reason, and what changes it.

    `waiting`: the advice about what their session waits for.
    """
    return _ADVICE.get(reason, waiting)


def number(rate: float) -> str:
    """A rate as text: below ten with a digit after the point."""
    return f"{rate:,.0f}" if rate >= 9.95 else f"{rate:.1f}".removesuffix(".0")


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"
