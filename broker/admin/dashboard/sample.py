"""What one walk sees of the sessions: what each waits for, the longest backlogs, the most messages."""

from collections.abc import Callable
from heapq import heappush, heappushpop
from typing import TYPE_CHECKING, Any, Final

from broker.admin.dashboard.findings import drop_advice
from broker.admin.dashboard.moment import AwayRow, DroppingRow, SlowRow, TalkerRow
from broker.admin.listing import shortened
from broker.admin.waiting import CLIENT, NOTHING, REASONS, TURN, advice, backlog_us, because, waits_for
from broker.clients import Seen
from broker.runtime.clock import SECOND

if TYPE_CHECKING:
    from broker.clients import Client
    from session.counters import SessionTotals

ROWS: Final = 12
"""The most rows of a list."""


class Sample:
    """One walk. What it sees of a session is kept at the client, so that the next one knows times and rates."""

    def __init__(self, clock: Callable[[], int], before: int = 0) -> None:
        """`before`: when the walk before began, if there was one a moment ago; 0 = there was none."""
        self.began = clock()
        self.waits_for = dict.fromkeys(REASONS, 0)
        self.slow_count = 0
        self.paced_for = 0
        self.away_count = 0
        """Sessions for which something waits, and whose clients are away."""
        self.away_len = 0
        """What waits for them."""
        self._clock = clock
        self._before = before
        # Heaps of the largest so far; the number orders those of equal value.
        self._slow: list[tuple[int, int, Client, str, float]] = []
        self._talkers: list[tuple[float, int, Client, float, float]] = []
        self._dropping: list[tuple[float, int, Client]] = []
        self._away: list[tuple[int, int, Client]] = []
        self._number = 0

    def see(self, client: "Client") -> None:
        """Look at one session."""
        now = self._clock()
        totals = client.session.totals(now)
        seen = client.seen
        if seen is None:
            seen = client.seen = Seen()
        known = bool(self._before) and seen.at >= self._before
        sent_rate = 0.0
        if self._before:
            sent_rate = self._see_traffic(client, totals, now, seen if known else None)
        reason = waits_for(client)
        self.waits_for[reason] += 1
        if reason == CLIENT:
            self._see_away(client)
        elif reason not in _NOT_SLOW:
            self._see_slow(client, reason, sent_rate)
        seen.at, seen.received, seen.sent, seen.dropped = now, totals.received, totals.sent, totals.dropped

    def _see_slow(self, client: "Client", reason: str, sent_rate: float) -> None:
        self.slow_count += 1
        outbound = client.session.outbound
        self.paced_for += outbound.paces()
        length = outbound.mqueue.length if outbound.mqueue is not None else 0
        self._number += 1
        _keep(self._slow, (length, self._number, client, reason, sent_rate))

    def _see_away(self, client: "Client") -> None:
        waiting = _waiting(client)
        self.away_count += 1
        self.away_len += waiting
        self._number += 1
        _keep(self._away, (waiting, self._number, client))

    def _see_traffic(self, client: "Client", totals: "SessionTotals", now: int, seen: Seen | None) -> float:
        """Returns how many messages have been sent to it per second, since the walk before. `seen`: None = is new."""
        at = self._before if seen is None else seen.at
        before = Seen() if seen is None else seen
        seconds = max(now - at, 1) / SECOND
        if totals.dropped > before.dropped:
            self._number += 1
            _keep(self._dropping, ((totals.dropped - before.dropped) / seconds, self._number, client))
        if totals.received <= before.received and totals.sent <= before.sent:
            return 0.0
        received_rate = max(totals.received - before.received, 0) / seconds
        sent_rate = max(totals.sent - before.sent, 0) / seconds
        self._number += 1
        _keep(self._talkers, (received_rate + sent_rate, self._number, client, received_rate, sent_rate))
        return sent_rate

    def slow(self) -> list[SlowRow]:
        """The longest backlogs, the longest first."""
        return [self._slow_row(*entry[2:]) for entry in sorted(self._slow, reverse=True)]

    def _slow_row(self, client: "Client", reason: str, sent_rate: float) -> SlowRow:
        now = self._clock()
        session = client.session
        gauges = session.gauges()
        return SlowRow(
            client_id=shortened(session.client_id),
            waits_for=reason,
            because=because(reason),
            advice=advice(reason, client),
            for_us=backlog_us(client, now),
            mqueue_len=gauges.mqueue_len,
            mqueue_bytes=gauges.mqueue_bytes,
            max_mqueue_len=session.limits.max_mqueue_len,
            window_len=gauges.window_len,
            window_limit=gauges.window_limit,
            sent=sent_rate,
            dropped=session.totals(now).dropped,
            paced=session.paces_publishers(),
        )

    def dropping(self) -> list[DroppingRow]:
        """Those of which most is dropped, the first with the most."""
        return [self._dropping_row(client, rate) for rate, _, client in sorted(self._dropping, reverse=True)]

    def _dropping_row(self, client: "Client", rate: float) -> DroppingRow:
        session = client.session
        drops = session.counters.drops or {}  # an export may have taken those that the walk has seen
        column = max(drops, key=drops.__getitem__, default="")
        waits = waits_for(client)
        reason = column.removeprefix("dropped_").rpartition("_qos")[0]
        return DroppingRow(
            client_id=shortened(session.client_id),
            connected=session.connected,
            dropped=rate,
            reason=reason,
            advice=drop_advice(reason, advice(waits, client) if waits != NOTHING else ""),
            mqueue_len=session.gauges().mqueue_len,
            max_mqueue_len=session.limits.max_mqueue_len,
        )

    def away(self) -> list[AwayRow]:
        """Those for which most waits while they are away, the first with the most."""
        found = sorted(self._away, reverse=True)
        return [AwayRow(client_id=shortened(each.session.client_id), waiting=waiting) for waiting, _, each in found]

    def talkers(self) -> list[TalkerRow]:
        """Those with most messages, the first with the most."""
        found = sorted(self._talkers, reverse=True)
        return [
            TalkerRow(client_id=shortened(client.session.client_id), received=received, sent=sent)
            for _, _, client, received, sent in found
        ]


def _waiting(client: "Client") -> int:
    gauges = client.session.gauges()
    return gauges.mqueue_len + gauges.window_len


def _keep(heap: list[Any], entry: tuple[Any, ...]) -> None:
    """Add an entry if it is among the ROWS largest."""
    if len(heap) < ROWS:
        heappush(heap, entry)
    elif entry > heap[0]:
        heappushpop(heap, entry)


_NOT_SLOW: Final = (NOTHING, CLIENT, TURN)
