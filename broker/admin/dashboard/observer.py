"""Makes the moments of the dashboard, from the broker's totals."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from broker import __version__
from broker.admin.dashboard.moment import Moment, Rates
from broker.admin.dashboard.sample import ROWS, Sample
from broker.admin.listing import ListQuery
from broker.admin.rows import AddressRow, GroupRow
from broker.runtime.clock import SECOND, monotonic_us, wall_us
from broker.telemetry.totals_walk import TotalsSnapshot

if TYPE_CHECKING:
    from broker.admin.list_pages import ListPages
    from broker.admin.managed import Managed

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

    def forget(self) -> None:
        """Nobody has looked for a while: the next moment has no rates."""
        self._sampled_at = 0
        self._before = {}

    async def look(self) -> tuple[Moment, int]:
        """The broker now, and the time of the walk in microseconds."""
        managed = self._managed
        broker = managed.broker
        sample = Sample(monotonic_us, self._sampled_at)
        snapshot = await managed.totals_walk.snapshot(visit=sample.see)
        self._sampled_at = sample.began
        addresses = await self._largest("addresses", "bytes") if len(broker.router.addresses) else []
        groups = await self._largest("groups", "mqueue") if snapshot.groups else []
        moment = Moment(
            **present(managed),
            sessions=len(broker.clients),
            connected=broker.clients.online,
            waits_for=sample.waits_for,
            congested=sum(each.congested for each in snapshot.listeners.values()),
            window_full=sum(each.window_full for each in snapshot.listeners.values()),
            paced_for=sample.paced_for,
            mqueue_len=snapshot.queued,
            window_len=snapshot.inflight,
            addresses_full=broker.addresses.full,
            rates=self._rates(self._counts(snapshot), monotonic_us()),
            slow_count=sample.slow_count,
            slow=sample.slow(),
            talkers=sample.talkers(),
            addresses=[AddressRow.model_validate_json(row) for row in addresses],
            groups=[GroupRow.model_validate_json(row) for row in groups],
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
            "dropped group_queue_full": snapshot.groups_dropped,
        }
        counts |= {f"gated {reason}": getattr(sums, f"gated_{reason}") for reason in _GATED}
        for column, count in sums.drops.items():
            reason = f"dropped {column.removeprefix('dropped_').rpartition('_qos')[0]}"
            counts[reason] = counts.get(reason, 0) + count
        return counts

    def _rates(self, counts: dict[str, int], now: int) -> Rates | None:
        before, seconds = self._before, (now - self._before_us) / SECOND
        self._before, self._before_us = counts, now
        if not before:
            return None
        rates: dict[str, Any] = {"gated": {}, "dropped": {}}
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
