"""Runs the loads: all brokers in turn, round after round, so that other load on the machine disturbs all of them.

Every other round has the opposite order: of two brokers the first was seen to measure slower, whichever it was.
"""

import statistics
import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.generator import LoadError, Result, drive
from tests.bench.loads import Load
from tests.bench.machine import cores, pinned
from tests.bench.peers import Candidate
from tests.support.process import BrokerError


@dataclass
class Cell:
    """The results of one broker under one load, round by round."""

    results: list[Result] = field(default_factory=list)
    failure: str = ""

    def median(self, *path: str) -> float:
        """Return the median over the rounds of a number in blast's results; `path` are its keys."""
        return statistics.median(self._values(path))

    def spread(self, *path: str) -> tuple[float, float]:
        """Return the lowest and the highest of what `median` is of."""
        values = self._values(path)
        return min(values), max(values)

    def _values(self, path: Sequence[str]) -> list[float]:
        return [_at(result, path) for result in self.results]


def _at(result: Result, path: Sequence[str]) -> float:
    value: Any = result
    for key in path:
        value = value[key]
    return float(value)


@dataclass
class Comparison:
    """All cells, by load and broker name."""

    loads: Sequence[Load]
    candidates: Sequence[Candidate]
    cells: dict[tuple[str, str], Cell] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    """Why brokers that were asked for are not among the candidates."""

    def cell(self, load: Load, candidate: str) -> Cell | None:
        """Return a cell that has results, else None."""
        cell = self.cells.get((load.name, candidate))
        return cell if cell and cell.results else None

    def ratio(self, load: Load, candidate: str, to: str) -> float | None:
        """Return the CPU time for each delivery of `candidate`, as a multiple of that of `to`."""
        mine, other = self.cell(load, candidate), self.cell(load, to)
        if mine is None or other is None:
            return None
        key = load.unit.cpu
        below = other.median(key)
        return mine.median(key) / below if below else None


@dataclass(frozen=True)
class Timing:
    """How long and how often."""

    rounds: int
    seconds: float
    warmup: float
    version: int
    event: str = ""
    """What perf counts beside; empty: nothing."""


def compare(
    loads: Sequence[Load],
    candidates: Sequence[Candidate],
    timing: Timing,
    report: Callable[[str], None],
) -> Comparison:
    """Measure every load with every broker; a broker that fails at a load is not tried again with it."""
    comparison = Comparison(loads, candidates)
    for number in range(timing.rounds):
        for load in loads:
            for candidate in in_order(candidates, number):
                cell = comparison.cells.setdefault((load.name, candidate.name), Cell())
                report(f"round {number + 1} of {timing.rounds}: {load.title}: {candidate.version}")
                if not cell.failure:
                    _measure(load, candidate, timing, cell)
    return comparison


def in_order(candidates: Sequence[Candidate], number: int) -> list[Candidate]:
    """Return the brokers in the order of a round: A B, then B A."""
    return list(reversed(candidates)) if number % 2 else list(candidates)


def _measure(load: Load, candidate: Candidate, timing: Timing, cell: Cell) -> None:
    times = ["--seconds", str(timing.seconds), "--warmup", str(timing.warmup), "--version", str(timing.version)]
    places = cores()
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        try:
            start = candidate.start_tls if load.tls else candidate.start
            if start is None:
                cell.failure = "is not measured over TLS"
                return
            # Several threads or processes get all cores, beside the generator; what they cost is the sum.
            with pinned(places.broker) if candidate.threads == 1 else nullcontext():
                broker = start(Path(folder), True)
        except (BrokerError, TimeoutError) as error:
            cell.failure = f"did not start: {error}"
            return
        try:
            with pinned(places.generator):
                arguments = [*times, *load.arguments, *candidate.arguments]
                result = drive(broker, arguments, timing.event if load.unit.counted else "")
            if result[load.unit.cpu]:
                cell.results.append(result)
            else:
                cell.failure = f"nothing came in the measured {timing.seconds:g} s"
        except LoadError as error:
            cell.failure = str(error)
        finally:
            broker.stop()
