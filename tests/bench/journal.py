"""The cost of acknowledging only what is on disk (FC-27): `python tests/bench/journal.py --help`.

Ten pairs at QoS 1 with kept sessions, as fast as the window allows: CPU time of the broker for each delivery, in memory
and with a journal, and other brokers with what they have of one. Then a tenth of the highest rate: how long a publisher
waits for PUBACK, beside what a sync of the same disk takes, measured before each run. With --check it fails if

- a delivery costs more than 3 times what it costs in memory;
- the 99th percentile of PUBLISH to PUBACK is more than 1.5 times that of the disk.
"""

import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Annotated, Final

import typer
from rich.console import Console

if __name__ == "__main__":
    # As a script this file is found beside the tests, not through them.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.bench import disk, machine, peers, program
from tests.bench.candidates import find_sluice
from tests.bench.disk import Syncs
from tests.bench.generator import LoadError, Result, drive
from tests.bench.grids import Grid, rounded, short
from tests.bench.outputs import writable
from tests.bench.peers import Candidate
from tests.bench.run import show_grids
from tests.support.process import BrokerError

MOST_CPU: Final = 3.0
MOST_LATENCY: Final = 1.5
SHARE: Final = 0.1
"""A share of the highest rate."""

PAIRS: Final = 10
LOAD: Final = ("--mode", "pair", "--publishers", str(PAIRS), "--qos", "1", "--kept", "3600")

WIDE: Final = 200
"""Characters of a failure in the table."""

OTHERS: Final = {"mosquitto": peers.find_mosquitto_saved, "nats": peers.find_nats, "rabbitmq": peers.find_rabbitmq}
"""Brokers that keep messages, by name; each with what looks for it."""

MEMORY: Final = "sluice, in memory"
JOURNAL: Final = "sluice, journal"


@dataclass
class Row:
    """The results of one broker, round by round."""

    fast: list[Result] = field(default_factory=list)
    tenth: list[Result] = field(default_factory=list)
    failure: str = ""

    @property
    def cpu_us(self) -> float:
        """Microseconds of processor time for each delivery, of the median round."""
        return median(float(each["cpu_us_per_delivery"]) for each in self.fast)

    @property
    def rate(self) -> float:
        """Deliveries a second, of the median round."""
        return median(float(each["received_per_s"]) for each in self.fast)

    def acknowledged_us(self, share: str) -> float:
        """Microseconds from PUBLISH to PUBACK at a tenth of the rate, of the median round; `share`: p50 or p99."""
        return median(float(each["ack_qos1"][f"{share}_us"]) for each in self.tenth)


@dataclass
class Outcome:
    """The results of all brokers, and of the disk."""

    rows: dict[str, Row] = field(default_factory=dict)
    syncs: list[Syncs] = field(default_factory=list)

    def sync_us(self, share: float) -> float:
        """Microseconds of the disk's own sync, of the median probe."""
        return median(each.percentile(share) for each in self.syncs) * 1e6

    def missed(self) -> list[str]:
        """The limits that Sluice exceeds."""
        memory, journal = self.rows[MEMORY], self.rows[JOURNAL]
        missed = []
        if journal.cpu_us > MOST_CPU * memory.cpu_us:
            missed.append(f"a delivery costs {journal.cpu_us / memory.cpu_us:.2f} times what it costs in memory")
        if journal.acknowledged_us("p99") > MOST_LATENCY * self.sync_us(0.99):
            times = journal.acknowledged_us("p99") / self.sync_us(0.99)
            missed.append(f"p99 to PUBACK is {times:.2f} times the disk's own")
        return missed


@dataclass(frozen=True)
class Timing:
    """How long and how often; `folder` is on the disk that is measured."""

    rounds: int
    seconds: float
    folder: Path


def chosen_others(names: str) -> list[str]:
    """Return the brokers of a comma-separated list; it may be empty."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    for name in wanted:
        if name not in OTHERS:
            raise typer.BadParameter(f"there is no other broker {name}; there are: {', '.join(OTHERS)}")
    return wanted


def candidates(python: str, wanted: list[str], report: Callable[[str], None]) -> list[Candidate]:
    """Sluice without and with its journal, and the wanted peers that are installed."""
    found = [
        find_sluice(python, MEMORY),
        find_sluice(python, JOURNAL, lambda folder: {"persistence": {"directory": str(folder / "journal")}}),
    ]
    for name in wanted:
        try:
            found.append(OTHERS[name]())
        except LookupError as error:
            report(f"not measured: {name}: {error}")
    return found


def compare(brokers: list[Candidate], timing: Timing, report: Callable[[str], None]) -> Outcome:
    """Measure all brokers, round after round."""
    outcome = Outcome({broker.name: Row() for broker in brokers})
    for number in range(timing.rounds):
        for broker in brokers:
            report(f"round {number + 1} of {timing.rounds}: {broker.version}")
            row = outcome.rows[broker.name]
            outcome.syncs.append(_measure_disk(timing))
            if row.failure:
                continue
            try:
                row.fast.append(_drive(broker, timing, ()))
                rate = SHARE * row.rate / PAIRS
                row.tenth.append(_drive(broker, timing, ("--rate", f"{rate:.3f}")))
            except (LoadError, BrokerError, TimeoutError) as error:
                row.failure = str(error)
    outcome.syncs.append(_measure_disk(timing))
    return outcome


def _measure_disk(timing: Timing) -> Syncs:
    """From the broker's core: where another one is told that the disk is done, a sync takes longer."""
    with machine.pinned(machine.cores().broker):
        return disk.measure(timing.folder, timing.seconds / 4)


def _drive(broker: Candidate, timing: Timing, options: tuple[str, ...]) -> Result:
    times = ("--seconds", str(timing.seconds), "--warmup", "1")
    places = machine.cores()
    with tempfile.TemporaryDirectory(prefix="sluice-bench-", dir=timing.folder) as folder:
        with machine.pinned(places.broker):
            running = broker.start(Path(folder), True)
        try:
            with machine.pinned(places.generator):
                return drive(running, [*LOAD, *options, *times])
        finally:
            running.stop()


def grids(outcome: Outcome, brokers: list[Candidate]) -> list[Grid]:
    """The figures as tables."""
    columns = ["broker", "µs of CPU", "÷ in memory", "deliveries / s", "PUBACK p50, ms", "p99, ms", "p99 ÷ disk's"]
    grid = Grid("10 pairs, QoS 1, 64 B, kept sessions; PUBLISH to PUBACK at a tenth of the rate", columns)
    memory = outcome.rows[MEMORY]
    for broker in brokers:
        row = outcome.rows[broker.name]
        if row.failure:
            grid.add(broker.version, " ".join(row.failure.split())[:WIDE], "", "", "", "", "", bad=True)
            continue
        p50, p99 = row.acknowledged_us("p50"), row.acknowledged_us("p99")
        grid.add(
            f"{broker.version}: {broker.name}",
            rounded(row.cpu_us),
            rounded(row.cpu_us / memory.cpu_us),
            short(row.rate),
            rounded(p50 / 1000),
            rounded(p99 / 1000),
            rounded(p99 / outcome.sync_us(0.99)),
        )
    columns = ["syncs / s", "p50, ms", "p99, ms", "p99 at a random moment"]
    own = Grid("The disk's own sync: 8 KiB of a file, overwritten", columns)
    rate = median(each.rate for each in outcome.syncs)
    moment = median(each.of_the_time(0.99) for each in outcome.syncs) * 1000
    own.add(short(rate), rounded(outcome.sync_us(0.5) / 1000), rounded(outcome.sync_us(0.99) / 1000), rounded(moment))
    return [grid, own]


def main(
    rounds: Annotated[int, typer.Option(min=1, help="How often each measurement is made.")] = 3,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long each measurement takes.")] = 5.0,
    others: Annotated[str, typer.Option(help="Other brokers: mosquitto, nats, rabbitmq; separated by commas.")] = "",
    folder: Annotated[Path, typer.Option(exists=True, help="Where the journal is; not a tmpfs.")] = Path("/var/tmp"),
    sluice: Annotated[str, typer.Option(help="The Python that runs the broker.")] = sys.executable,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write every measurement there.", callback=writable)
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 if a limit is exceeded.")] = False,
) -> None:
    """Measure what a journal costs, and what its acknowledgements wait for."""
    out, err = Console(), Console(stderr=True)
    brokers = candidates(sluice, chosen_others(others), err.print)
    with err.status("") as status:
        outcome = compare(brokers, Timing(rounds, seconds, folder), status.update)
    out.print(machine.description(), style="dim")
    show_grids(grids(outcome, brokers))
    if json_file:
        rows = {name: vars(row) for name, row in outcome.rows.items()}
        syncs = [{"p50": own.percentile(0.5), "p99": own.percentile(0.99), "rate": own.rate} for own in outcome.syncs]
        json_file.write_text(json.dumps({"rows": rows, "syncs": syncs}, indent=1) + "\n")
    missed = outcome.missed()
    for each in missed:
        out.print(f"missed: {each}", style="red")
    if check and missed:
        raise typer.Exit(1)


if __name__ == "__main__":
    program.run(main)
