"""The expected findings of the report, counted while the rows are generated."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from session.counters import Counters
from tests.support.spark.fleet.model import Model

FILE: Final = "planted.json"
_GAUGES: Final = ("_len", "_max", "_limit", "mqueue_bytes", "waiting_qos0", "waiting_qos1", "waiting_qos2")


@dataclass
class Run:
    """A run of intervals in which a connected session had deliveries offered or waiting and was sent nothing."""

    start_us: int
    end_us: int
    intervals: int
    offered: int
    waiting: int
    """Deliveries waiting at the end."""


@dataclass
class Found:
    """One session with an episode, and the sums of the episode's rows."""

    kind: str
    broker: str
    client_id: str
    session_started_us: int
    start_us: int
    end_us: int
    rows: int = 0
    inverted_qos0: int = 0
    blocked_rows: int = 0
    sums: dict[str, int] = field(default_factory=dict)
    """Counters that are not 0, and drops by reason."""
    starved: list[Run] = field(default_factory=list)

    def add(self, counters: Counters, start_us: int, end_us: int, connected: bool) -> None:
        """Count one row."""
        self.rows += 1
        self.end_us = end_us
        for name, value in {**vars_of(counters), **(counters.drops or {})}.items():
            self.sums[name] = self.sums.get(name, 0) + value
        uncommon = counters.uncommon
        waiting = uncommon.waiting_qos0 + uncommon.waiting_qos1 + uncommon.waiting_qos2
        before = uncommon.waiting_start_qos0 + uncommon.waiting_start_qos1 + uncommon.waiting_start_qos2
        offered = counters.offered_qos0 + counters.offered_qos1 + counters.offered_qos2
        sent = counters.sent_qos0 + counters.sent_qos1 + counters.sent_qos2
        if connected and not sent and before + offered:
            self._starve(start_us, end_us, offered, waiting)
        if uncommon.waiting_start_qos1 + uncommon.waiting_start_qos2 and uncommon.waiting_qos1 + uncommon.waiting_qos2:
            self.blocked_rows += 1
            past = counters.sent_qos0 - uncommon.waiting_start_qos0 - gated(counters)
            self.inverted_qos0 += max(0, past)

    def _starve(self, start_us: int, end_us: int, offered: int, waiting: int) -> None:
        if self.starved and self.starved[-1].end_us == start_us:
            run = self.starved[-1]
            run.end_us, run.waiting = end_us, waiting
            run.intervals += 1
            run.offered += offered
        else:
            self.starved.append(Run(start_us, end_us, 1, offered, waiting))


@dataclass
class Planted:
    """All planted faults of one broker or of the fleet."""

    sessions: int = 0
    """Sessions that have at least one row."""
    rows: int = 0
    files: int = 0
    totals: dict[str, int] = field(default_factory=dict)
    """The sum of each column of whole numbers over all rows."""
    found: list[Found] = field(default_factory=list)

    def add(self, other: "Planted") -> None:
        """Add another broker's."""
        self.sessions += other.sessions
        self.rows += other.rows
        self.files += other.files
        self.found += other.found
        self.count(other.totals)

    def count(self, sums: dict[str, int]) -> None:
        """Add to the totals."""
        for name, value in sums.items():
            self.totals[name] = self.totals.get(name, 0) + value

    def starved(self, intervals: int = 3) -> dict[tuple[str, str, int], list[Run]]:
        """Sessions (broker, client id, start in us) with runs of at least this many starved intervals, and the runs."""
        chosen = {
            (found.broker, found.client_id, found.session_started_us): [
                run for run in found.starved if run.intervals >= intervals
            ]
            for found in self.found
        }
        return {who: runs for who, runs in chosen.items() if runs}

    def of_kind(self, kind: str) -> list[Found]:
        """The sessions with an episode of that kind."""
        return [found for found in self.found if found.kind == kind]


def vars_of(counters: Counters) -> dict[str, int]:
    """The counters that are not 0, without gauges and histograms."""
    from broker.telemetry.schema import metrics_schema

    values = {name: counters.column(name) for name in metrics_schema().counters}
    return {name: value for name, value in values.items() if value and not name.endswith(_GAUGES)}


def gated(counters: Counters) -> int:
    """QoS 0 that the gate queued, for all reasons."""
    return (
        counters.uncommon.gated_congested
        + counters.uncommon.gated_window_full
        + counters.uncommon.gated_mailbox_busy
        + counters.uncommon.gated_backlog
        + counters.uncommon.gated_rate
    )


def save(planted: Planted, model: Model, root: Path) -> Path:
    """Write `planted.json` to the metrics folder; Spark ignores it outside of the partitions."""
    path = root / FILE
    path.write_text(json.dumps({"model": asdict(model), **asdict(planted)}, indent=1) + "\n")
    return path


def load(root: Path) -> Planted:
    """Read the file of `save`."""
    raw: dict[str, Any] = json.loads((root / FILE).read_text())
    found = [Found(**(each | {"starved": [Run(**run) for run in each["starved"]]})) for each in raw["found"]]
    return Planted(raw["sessions"], raw["rows"], raw["files"], raw["totals"], found)


def model_of(root: Path) -> Model:
    """The model of the metrics below `root`."""
    return Model(**json.loads((root / FILE).read_text())["model"])
