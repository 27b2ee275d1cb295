"""The metrics of /metrics about the process, its journal and its files: counted at scrape time."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from broker.broker import Broker
from broker.runtime.clock import SECOND, monotonic_us
from broker.runtime.loop_delay import LoopDelay
from broker.storage.journal import Journal
from config.models import Config

if TYPE_CHECKING:
    from broker.bridge.bridges import Bridges
    from broker.telemetry.exporter import Exporter


class Process(Protocol):
    """A running broker."""

    broker: Broker
    config: Config
    bridges: "Bridges"
    loop_delay: LoopDelay
    reload_failed: bool
    exporter: "Exporter | None"

    def unready(self) -> list[str]:
        """Why clients should not be sent to this broker now; empty if they should."""

    def expiry(self) -> list[tuple[str, float]]:
        """Whose certificates there are, a listener's or `admin`, and the Unix time until which each is valid."""

    def files_not_read(self) -> int:
        """How many files, or certificates with their keys, are followed and cannot be used now."""


def process_metrics(process: Process) -> Iterator[Metric]:
    """All of them."""
    broker = process.broker
    yield GaugeMetricFamily("sluice_ready", "Whether clients may connect.", not process.unready())
    reached = broker.quotas.watermark.reached
    yield GaugeMetricFamily("sluice_memory_high", "Whether memory is above the watermark (FC-32).", reached)
    yield GaugeMetricFamily(
        "sluice_event_loop_delay_seconds",
        "The longest delay of the event loop in the last minute, or half a minute.",
        process.loop_delay.longest(monotonic_us()) / SECOND,
    )
    yield GaugeMetricFamily(
        "sluice_reload_failed",
        "Whether the last reload was refused: nothing has changed.",
        process.reload_failed,
    )
    unread = process.files_not_read()
    yield GaugeMetricFamily("sluice_files_not_read", "Files that are followed and cannot be used.", unread)
    yield certificates(process.expiry())
    if process.exporter is not None:
        yield from _export(process.exporter)
    if broker.journal is not None:
        yield from _journal(broker.journal)


def certificates(expiry: list[tuple[str, float]]) -> Metric:
    """Until when they are valid."""
    family = GaugeMetricFamily(
        "sluice_certificate_expiry_timestamp_seconds",
        "Unix time until which the certificate of a listener, or of the admin API, is valid.",
        labels=("listener",),
    )
    for listener, not_after in expiry:
        family.add_metric((listener,), not_after)
    return family


def _export(exporter: "Exporter") -> Iterator[Metric]:
    text = "How often metrics were lost on their way to the disk, could not be filed, or not be deleted when old."
    yield CounterMetricFamily("sluice_export_failures", text, exporter.failures)
    text = "Unix time of the last complete export of metrics."
    yield GaugeMetricFamily("sluice_export_success_timestamp_seconds", text, exporter.exported_us / SECOND)
    yield GaugeMetricFamily("sluice_export_interval_seconds", "metrics.interval.", exporter.interval)


def _journal(journal: Journal) -> Iterator[Metric]:
    commits = journal.commits
    yield GaugeMetricFamily("sluice_journal_bytes", "Bytes of the journal (FC-27).", commits.size)
    yield GaugeMetricFamily("sluice_journal_live_bytes", "Bytes that compaction would keep.", journal.live_bytes())
    text = "persistence.max_bytes (FC-29)."
    yield GaugeMetricFamily("sluice_journal_max_bytes", text, commits.max_bytes or math.inf)
    text = "Bytes of messages that the disk has room for (FC-29)."
    yield GaugeMetricFamily("sluice_journal_disk_room_bytes", text, commits.reserve.room())
    yield CounterMetricFamily("sluice_journal_commits", "Commits of the journal (FC-28).", commits.committed)
    yield GaugeMetricFamily("sluice_journal_full", "Whether it has no room (FC-29).", not commits.has_room())
