"""The metrics of /metrics: counted at scrape time, for the broker, listeners and bridges, never for each client.

Names and units follow Prometheus's conventions. `listener` is that of a session's last connection: what
is counted before the next one stays with it. That of a bridge's session is `$bridge/` and the bridge's name.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, product
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder

from broker import __version__
from broker.admin.bridge_metrics import bridge_metrics
from broker.admin.bridges import bridge_rows
from broker.admin.process_metrics import Process, process_metrics
from broker.disconnects import reason_name
from broker.listener_sums import ListenerSums
from broker.runtime.clock import SECOND
from broker.telemetry.slices import Slices
from broker.telemetry.totals_walk import TotalsSnapshot, TotalsWalk
from protocol import reason_codes
from session.counters import DROP_REASONS

if TYPE_CHECKING:
    from broker.totals import Distribution, Sums, Totals

BOUNDS: Final = tuple(1 << power for power in range(6, 30, 2))
"""Upper bounds of the buckets of a time, in microseconds: 64 us to 268 s, each four times the one before."""

EOF: Final = b"# EOF\n"
"""The end of OpenMetrics text."""

_QOS: Final = ("0", "1", "2")
_LOGINS: Final = (reason_codes.BAD_USER_NAME_OR_PASSWORD, reason_codes.NOT_AUTHORIZED)
"""Reasons of refused logins, which are counted from the start."""
_GATED: Final = ("congested", "window_full", "mailbox_busy", "backlog", "rate")


@dataclass(frozen=True)
class _Counted:
    """One counter of `Sums`, in its metric."""

    attribute: str
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Counter:
    name: str
    help: str
    labels: tuple[str, ...]
    """Besides `listener`."""
    counted: tuple[_Counted, ...]


def _by_qos(name: str, text: str, attribute: str, levels: tuple[str, ...] = _QOS) -> _Counter:
    return _Counter(name, text, ("qos",), tuple(_Counted(f"{attribute}_qos{qos}", (qos,)) for qos in levels))


def _one(name: str, text: str, attribute: str) -> _Counter:
    return _Counter(name, text, (), (_Counted(attribute),))


_COUNTERS: Final = (
    _by_qos("sluice_publish_received", "PUBLISHes accepted from clients.", "received"),
    _one("sluice_publish_received_bytes", "Payload bytes of PUBLISHes accepted from clients.", "received_bytes"),
    _by_qos("sluice_deliveries_offered", "Deliveries that the router has offered to sessions.", "offered"),
    _by_qos("sluice_deliveries_sent", "Deliveries sent for the first time.", "sent"),
    _one("sluice_deliveries_sent_bytes", "Payload bytes of deliveries sent for the first time.", "sent_bytes"),
    _by_qos("sluice_deliveries_acknowledged", "Deliveries completed by their clients.", "acknowledged", ("1", "2")),
    _by_qos("sluice_deliveries_superseded", "Deliveries whose places newer ones have taken (FC-37).", "superseded"),
    _Counter(
        "sluice_deliveries_gated",
        "QoS 0 deliveries that were queued, by the first reason that held (FC-3).",
        ("reason",),
        tuple(_Counted(f"gated_{reason}", (reason,)) for reason in _GATED),
    ),
    _Counter(
        "sluice_packets_resent",
        "PUBLISHes and PUBRELs that were sent again (FC-8).",
        ("packet",),
        (_Counted("resent_publish", ("publish",)), _Counted("resent_pubrel", ("pubrel",))),
    ),
    _one("sluice_deliveries_returned", "Deliveries that groups took back from members (FC-13).", "shared_returned"),
    _one("sluice_slow_consumers", "Reports of slow consumers (FC-14).", "slow_consumer"),
    _one("sluice_stalled_windows", "Reports of stalled windows (FC-14).", "stalled_window"),
    _Counter(
        "sluice_publish_held",
        "PUBLISHes from clients that were not routed at once: full addresses (FC-24), QoS 2 packet ids (FC-22).",
        ("outcome",),
        (
            _Counted("publish_refused", ("refused",)),
            _Counted("publish_parked", ("parked",)),
            _Counted("publish_paged", ("paged",)),
            _Counted("publish_discarded", ("discarded",)),
            _Counted("awaiting_rel_refused", ("awaiting_rel",)),
        ),
    ),
    _one("sluice_awaiting_rel_expired", "QoS 2 packet ids that were forgotten (FC-22).", "awaiting_rel_expired"),
    _one("sluice_receive_maximum_exceeded", "PUBLISHes past the Receive Maximum (FC-20).", "receive_maximum_exceeded"),
)

_GAUGES: Final[tuple[tuple[str, str, Callable[[ListenerSums], int]], ...]] = (
    ("sluice_sessions_congested", "Sessions whose send path is congested.", lambda each: each.congested),
    ("sluice_sessions_window_full", "Sessions whose window is full.", lambda each: each.window_full),
    ("sluice_window_deliveries", "Deliveries sent and not acknowledged.", lambda each: each.inflight),
    ("sluice_mqueue_deliveries", "Deliveries that wait in the mqueues of sessions.", lambda each: each.queued),
    ("sluice_mqueue_bytes", "Payload bytes that wait in the mqueues of sessions.", lambda each: each.queued_bytes),
    ("sluice_subscriptions", "Subscriptions that are not shared.", lambda each: each.subscriptions),
    ("sluice_shared_subscriptions", "Shared subscriptions of sessions.", lambda each: each.shared),
)

_TIMES: Final = (
    ("sluice_delivery_wait_seconds", "Time from routed to sent; sums are within 6 %.", "wait", _QOS),
    ("sluice_acknowledgement_seconds", "Time from sent to acknowledged; sums are within 6 %.", "ack", ("1", "2")),
)


class Scrape:
    """The metric families of one scrape; a registry, as far as the encoder needs one."""

    def __init__(self) -> None:
        self.family: Metric | None = None

    def collect(self) -> Iterator[Metric]:
        """The one family that is being encoded."""
        assert self.family is not None  # set before the encoder is called
        yield self.family


class Prometheus:
    """Answers scrapes."""

    def __init__(self, process: Process, walk: TotalsWalk) -> None:
        self._process = process
        self._broker = process.broker
        self._walk = walk
        self._system = ProcessCollector(registry=CollectorRegistry(auto_describe=False))

    async def scrape(self, accept: str) -> tuple[bytes, str]:
        """The metrics as text, and its content type, of those that the header `accept` names."""
        snapshot = await self._walk.snapshot(distributions=True)
        bridges = await bridge_rows(self._process.bridges)
        for listener in self._process.config.listeners:
            snapshot.of(listener.name)  # from the start: `rate` and `increase` do not see the first value of a series
        for bridge in self._process.bridges.all.values():
            snapshot.of(bridge.settings.local_id)
        # In a thread: to count open descriptors it lists them, which takes 1 ms for each thousand connections.
        system = await asyncio.get_running_loop().run_in_executor(None, lambda: list(self._system.collect()))
        encode, content_type = choose_encoder(accept)
        slices = Slices()
        text = bytearray()
        scrape = Scrape()
        for family in chain(self._families(snapshot), bridge_metrics(bridges), system):
            scrape.family = family
            text += encode(scrape).removesuffix(EOF)
            await slices.breathe()
        if "openmetrics" in content_type:
            text += EOF
        return bytes(text), content_type

    def _families(self, snapshot: TotalsSnapshot) -> Iterator[Metric]:
        yield InfoMetricFamily("sluice_build", "The broker's version.", {"version": __version__})
        yield from process_metrics(self._process)
        yield _sessions(snapshot)
        for counter in _COUNTERS:
            yield _counter(counter, snapshot)
        yield _dropped(snapshot)
        for name, text, value in _GAUGES:
            family = GaugeMetricFamily(name, text, labels=("listener",))
            for listener, each in snapshot.listeners.items():
                family.add_metric((listener,), value(each))
            yield family
        for name, text, attribute, levels in _TIMES:
            yield _times(name, text, attribute, levels, snapshot)
        yield _quotas(self._broker.totals)
        yield _refused(self._broker.totals, snapshot.listeners)
        yield _disconnects(self._broker.totals)
        yield admin_refused(self._broker.totals)
        yield from self._of_broker(snapshot)

    def _of_broker(self, snapshot: TotalsSnapshot) -> Iterator[Metric]:
        broker = self._broker
        totals, addresses = broker.totals, broker.addresses
        for name, text, count in (
            ("sluice_connections_opened", "Connections opened, by clients and by bridges.", totals.sockets),
            ("sluice_connects_received", "CONNECTs received.", totals.connects),
            ("sluice_packets_received", "Packets received.", totals.packets_received),
            ("sluice_received_bytes", "Bytes received on all listeners.", totals.bytes_received),
            ("sluice_sent_bytes", "Bytes sent on all listeners.", totals.bytes_sent),
            ("sluice_sessions_expired", "Sessions that have expired.", totals.expired),
            ("sluice_groups_dropped", "Deliveries that overflowed the queue of a group.", snapshot.groups_dropped),
            ("sluice_addresses_parked", "PUBLISHes parked at full addresses (FC-25).", addresses.parked_total),
            ("sluice_addresses_paged", "PUBLISHes paged at full addresses (FC-26).", addresses.paged_total),
            ("sluice_addresses_refused", "PUBLISHes refused at full addresses (FC-26).", addresses.refused_total),
            ("sluice_addresses_dropped", "PUBLISHes dropped at full addresses (FC-26).", addresses.dropped_total),
        ):
            yield CounterMetricFamily(name, text, int(count))
        for name, text, count in (
            ("sluice_connections", "Open connections, also those that have not sent CONNECT.", len(broker.connections)),
            ("sluice_retained_messages", "Retained messages.", len(broker.retained)),
            ("sluice_groups", "Groups of shared subscriptions.", snapshot.groups),
            ("sluice_groups_mqueue_deliveries", "Deliveries in the queues of groups.", snapshot.groups_queued),
            ("sluice_addresses_full", "Addresses that are full (FC-24).", addresses.full),
        ):
            yield GaugeMetricFamily(name, text, int(count))


def _sessions(snapshot: TotalsSnapshot) -> Metric:
    family = GaugeMetricFamily("sluice_sessions", "Sessions, connected or not.", labels=("listener", "connected"))
    for listener, each in snapshot.listeners.items():
        family.add_metric((listener, "true"), each.connected)
        family.add_metric((listener, "false"), each.sessions - each.connected)
    return family


def _quotas(totals: "Totals") -> Metric:
    family = CounterMetricFamily(
        "sluice_quota_reached", "How often a limit of a quota was reached (FC-31), or the memory's.", labels=("quota",)
    )
    for key, count in totals.quotas_reached.items():
        family.add_metric((key,), count)
    return family


def _refused(totals: "Totals", listeners: Iterable[str]) -> Metric:
    family = CounterMetricFamily(
        "sluice_clients_refused",
        "Clients whose CONNECT was refused, or that were closed for an error in what they sent.",
        labels=("listener", "reason"),
    )
    for listener in {**dict.fromkeys(listeners), **totals.clients_refused}:
        counts = dict.fromkeys(_LOGINS, 0) | totals.clients_refused.get(listener, {})
        for code, count in counts.items():
            family.add_metric((listener, reason_codes.name(code)), count)
    return family


def _disconnects(totals: "Totals") -> Metric:
    family = CounterMetricFamily(
        "sluice_disconnects",
        "Clients and bridges that had a session and were disconnected, by either side.",
        labels=("reason",),
    )
    for reason, count in totals.disconnects.counts.items():
        family.add_metric((reason_name(reason),), count)
    return family


def admin_refused(totals: "Totals") -> Metric:
    """Requests refused for their token."""
    family = CounterMetricFamily(
        "sluice_admin_refused",
        "Requests to the admin API refused for their token: missing, unknown, or without the role.",
        labels=("reason",),
    )
    for reason, count in totals.admin_refused.items():
        family.add_metric((reason,), count)
    return family


def _counter(counter: _Counter, snapshot: TotalsSnapshot) -> Metric:
    family = CounterMetricFamily(counter.name, counter.help, labels=("listener", *counter.labels))
    for listener, each in snapshot.listeners.items():
        for one in counter.counted:
            # A session's interval may begin below zero: deliveries of its mailbox are counted before they are taken.
            family.add_metric((listener, *one.labels), max(getattr(each.sums, one.attribute), 0))
    return family


def _dropped(snapshot: TotalsSnapshot) -> Metric:
    labels = ("listener", "reason", "qos", "connected")
    text = "Deliveries given up (FC-5), of sessions whose client was connected then, or away."
    family = CounterMetricFamily("sluice_deliveries_dropped", text, labels=labels)
    for listener, each in snapshot.listeners.items():
        sums = each.sums
        for reason, qos in product(DROP_REASONS, _QOS):  # also those that are 0: `rate` does not see a first value
            column = f"dropped_{reason}_qos{qos}"
            away = sums.drops_away.get(column, 0)
            family.add_metric((listener, reason, qos, "true"), sums.drops.get(column, 0) - away)
            family.add_metric((listener, reason, qos, "false"), away)
    return family


def _times(name: str, text: str, attribute: str, levels: tuple[str, ...], snapshot: TotalsSnapshot) -> Metric:
    family = HistogramMetricFamily(name, text, labels=("listener", "qos"))
    for listener, each in snapshot.listeners.items():
        for qos in levels:
            buckets, total = _buckets(_distribution(each.sums, f"{attribute}_qos{qos}"))
            family.add_metric((listener, qos), buckets, total)
    return family


def _distribution(sums: "Sums", name: str) -> "Distribution":
    found: Distribution = getattr(sums, name)
    return found


def _buckets(counts: "Distribution") -> tuple[list[tuple[str, float]], float]:
    """Cumulative buckets in seconds, and the sum of all values as far as it is known: by the middle of each bucket."""
    below = [0] * (len(BOUNDS) + 1)
    total = 0.0
    for bucket, count in enumerate(counts):
        if not count:
            continue
        low, width = _range(bucket)
        total += (low + width / 2) * count
        below[next((place for place, bound in enumerate(BOUNDS) if low < bound), len(BOUNDS))] += count
    found: list[tuple[str, float]] = []
    so_far = 0
    for bound, count in zip((*(f"{bound / SECOND:g}" for bound in BOUNDS), "+Inf"), below, strict=True):
        so_far += count
        found.append((bound, so_far))
    return found, total / SECOND


def _range(bucket: int) -> tuple[int, int]:
    """The lowest value of a bucket of `session.histogram`, and its width, in microseconds."""
    if bucket < 16:
        return bucket, 1
    octave = (bucket >> 3) - 1
    return (bucket - (octave << 3)) << octave, 1 << octave
