"""Makes the moments of the dashboard, from the broker's totals."""

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from broker import __version__
from broker.admin.bridges import bridge_rows
from broker.admin.cell_links import links_of
from broker.admin.dashboard.findings import findings
from broker.admin.dashboard.moment import Moment, Rates
from broker.admin.dashboard.sample import ROWS, Sample
from broker.admin.listing import ListQuery
from broker.admin.rows import AddressRow, GroupRow
from broker.runtime.clock import SECOND, monotonic_us, wall_us
from broker.telemetry.totals_walk import TotalsSnapshot

if TYPE_CHECKING:
    from broker.admin.list_pages import ListPages
    from broker.admin.managed import Managed

LATELY: Final = 60 * SECOND
"""Microseconds for which what was dropped is said."""
MOST_BRIDGES: Final = 100
"""Rows of bridges in a moment."""
_DROPPED: Final = "dropped "
_BRIDGES: Final = "bridges "
_GATED: Final = ("congested", "window_full", "mailbox_busy", "backlog", "rate")


class Observer:
    """Looks at the broker, and remembers what it saw: rates are differences between two moments."""

    def __init__(self, managed: "Managed", pages: "Mapping[str, ListPages[Any]]") -> None:
        """`pages`: of the lists of addresses and groups."""
        self._managed = managed
        self._pages = pages
        self._sampled_at = 0
        self._before: dict[str, int] = {}
        self._before_us = 0
        self._lately: deque[tuple[int, dict[str, int]]] = deque()
        """When it looked in the last minute, and how many deliveries had been dropped by then, by reason."""

    def forget(self) -> None:
        """Nobody has looked for a while: the next moment has no rates."""
        self._sampled_at = 0
        self._before = {}
        self._lately.clear()

    async def look(self) -> tuple[Moment, int]:
        """The broker now, and the time of the walk in microseconds."""
        managed = self._managed
        broker = managed.broker
        sample = Sample(monotonic_us, self._sampled_at)
        snapshot = await managed.totals_walk.snapshot(visit=sample.see)
        self._sampled_at = sample.began
        addresses = await self._largest("addresses", "bytes") if len(broker.router.addresses) else []
        found = await self._largest("groups", "mqueue") if snapshot.groups else []
        groups = [GroupRow.model_validate_json(row) for row in found]
        bridges = await bridge_rows(managed.bridges)
        counts, now = self._counts(snapshot), monotonic_us()
        counts |= {f"{_BRIDGES}{each.bridge}": each.sent for each in bridges}
        rates, dropped_lately = self._rates(counts, now), self._dropped_lately(counts, now)
        links = links_of(managed)
        moment = Moment(
            **present(managed),
            sessions=len(broker.clients) - links.sessions,
            connected=broker.clients.connected - links.connected,
            waits_for=sample.waits_for,
            congested=sum(each.congested for each in snapshot.listeners.values()),
            window_full=sum(each.window_full for each in snapshot.listeners.values()),
            paced_for=sample.paced_for,
            mqueue_len=snapshot.queued,
            window_len=snapshot.inflight,
            addresses_full=broker.addresses.full,
            rates=rates,
            findings=findings(sample, rates, dict(dropped_lately), groups, broker.addresses.full),
            dropped_lately=dropped_lately,
            away=sample.away(),
            away_count=sample.away_count,
            dropping=sample.dropping(),
            away_len=sample.away_len,
            slow_count=sample.slow_count,
            slow=sample.slow(),
            talkers=sample.talkers(),
            addresses=[AddressRow.model_validate_json(row) for row in addresses],
            groups=groups,
            bridges=bridges[:MOST_BRIDGES],
        )
        return moment, snapshot.took_us

    async def _largest(self, what: str, sort: str) -> list[str]:
        return (await self._pages[what].page(ListQuery(sort, ROWS))).rows

    def _counts(self, snapshot: TotalsSnapshot) -> dict[str, int]:
        totals, sums = self._managed.broker.totals, snapshot.sums
        counts = {
            "received": sums.received,
            "sent": sums.sent,
            "acknowledged": sums.acknowledged,
            "bytes_received": totals.bytes_received,
            "bytes_sent": totals.bytes_sent,
            f"{_DROPPED}group_queue_full": snapshot.groups_dropped,
        }
        counts |= {f"gated {reason}": getattr(sums, f"gated_{reason}") for reason in _GATED}
        for column, count in sums.drops.items():
            reason = f"{_DROPPED}{column.removeprefix('dropped_').rpartition('_qos')[0]}"
            counts[reason] = counts.get(reason, 0) + count
        return counts

    def _dropped_lately(self, counts: dict[str, int], now: int) -> dict[str, int]:
        """How many deliveries have been dropped in the last minute, as far as somebody has looked, by reason."""
        dropped = {name.removeprefix(_DROPPED): count for name, count in counts.items() if name.startswith(_DROPPED)}
        lately = self._lately
        lately.append((now, dropped))
        while lately[0][0] < now - LATELY:
            lately.popleft()
        before = lately[0][1]
        return {name: count - before.get(name, 0) for name, count in dropped.items() if count > before.get(name, 0)}

    def _rates(self, counts: dict[str, int], now: int) -> Rates | None:
        before, seconds = self._before, (now - self._before_us) / SECOND
        self._before, self._before_us = counts, now
        if not before:
            return None
        rates: dict[str, Any] = {"gated": {}, "dropped": {}, "bridges": {}}
        for name, count in counts.items():
            # Deliveries of a mailbox are counted before they are taken, so that a total may go back by a few.
            rate = max(count - before.get(name, 0), 0) / max(seconds, 0.001)
            kind, _, reason = name.partition(" ")
            if not reason:
                rates[kind] = rate
            elif rate:
                rates[kind][reason] = rate
        return Rates(**rates)


def present(managed: "Managed") -> dict[str, Any]:
    """The fields of a Present."""
    return {
        "broker": managed.config.node_name,
        "version": __version__,
        "time_us": wall_us(),
        "uptime_seconds": (monotonic_us() - managed.started_us) // SECOND,
        "not_ready_because": managed.unready(),
    }
