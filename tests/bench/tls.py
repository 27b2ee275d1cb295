"""What TLS costs a broker: Sluice beside Mosquitto, by turns, in one run.

Each figure is a ratio to Mosquitto's, with the highest that Sluice may have:

- the memory of an idle connection, after 64 at a time or all have been opened at once;
- the CPU time of a full handshake (P-256, no resumption), with the TCP connection and CONNECT;
- the CPU time for each delivered message of 64 bytes, and of 16 KiB.

CPU time is that of the broker's processes. Both brokers have the same certificate and ask clients for none. The version
is TLS 1.3, with the cipher that OpenSSL prefers.
"""

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

if __name__ == "__main__":
    # As a script this file is found beside the tests, not through them.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.bench import machine, peers, program
from tests.bench.candidates import find_before, find_sluice
from tests.bench.grids import Grid, rounded
from tests.bench.loads import Load
from tests.bench.peers import Candidate
from tests.bench.report import NOTHING, headline, notes
from tests.bench.rounds import Comparison, Timing, compare
from tests.bench.run import show_grids
from tests.support.brokers import HOST, Listener
from tests.support.certificates import Certificates, make_certificates


@dataclass(frozen=True)
class Figure:
    """A row of the table: one number of a load's results."""

    title: str
    load: Load
    key: str
    most: float
    """The highest ratio of Sluice's to Mosquitto's."""


def figures(connections: int) -> list[Figure]:
    """The figures, in the order of the table."""
    options = f"connect --idle {connections} --burst"
    connect = _load("connect", f"{connections:,} connections, 64 opened at a time", f"{options} 64")
    at_once = _load("storm", f"{connections:,} connections at once", f"{options} {connections}")
    small = _load("small", "10 pairs, 64 B, QoS 0, window 200", "pair --publishers 10 --window 200")
    large = _load("large", "4 pairs, 16 KiB, QoS 0, window 20", "pair --publishers 4 --size 16384 --window 20")
    return [
        Figure("idle connection, KB", connect, "kb_per_connection", 1.8),
        Figure("the same, all opened at once, KB", at_once, "kb_per_connection", 1.8),
        Figure("handshake, µs of CPU", connect, "cpu_us_per_connection", 1.1),
        Figure("64 B message, µs of CPU", small, "cpu_us_per_delivery", 0.15),
        Figure("16 KiB message, µs of CPU", large, "cpu_us_per_delivery", 0.88),
    ]


def _load(name: str, title: str, options: str) -> Load:
    return Load(name, title, ("--mode", *options.split(), "--tls", "1"), None)


def candidates(sluice: str, before: str | None, certificates: Certificates) -> list[Candidate]:
    """The brokers, each with a TLS listener as its only one. Raises LookupError."""
    server = certificates.server
    tls = {"certfile": str(server.certfile), "keyfile": str(server.keyfile)}
    listeners = [{"name": "tcp", "bind": f"{HOST}:0", "tls": tls}]
    found = [find_sluice(sluice, sections=lambda _: {"listeners": listeners})]
    if before is not None:
        found.append(find_before(before, lambda _: {"listeners": listeners}))
    return [*found, peers.find_mosquitto((Listener("tcp", certificates),))]


def ratio(comparison: Comparison, figure: Figure, name: str) -> float | None:
    """A broker's figure as a multiple of Mosquitto's; None if one of them has failed."""
    mine, other = comparison.cell(figure.load, name), comparison.cell(figure.load, "mosquitto")
    if mine is None or other is None or not other.median(figure.key):
        return None
    return mine.median(figure.key) / other.median(figure.key)


def table(comparison: Comparison, wanted: list[Figure]) -> Grid:
    """Return the figures, with Sluice's limits."""
    names = [candidate.name for candidate in comparison.candidates]
    grid = Grid("TLS (ratio to Mosquitto)", ["", *names, "at most"])
    for figure in wanted:
        row = []
        for name in names:
            cell, multiple = comparison.cell(figure.load, name), ratio(comparison, figure, name)
            text = rounded(cell.median(figure.key)) if cell else NOTHING
            row.append(text if multiple is None or name == "mosquitto" else f"{text} ({multiple:.2f}×)")
        missed = (ratio(comparison, figure, "sluice") or 0.0) > figure.most
        grid.add(figure.title, *row, f"{figure.most:.2f}×", bad=missed)
    return grid


def as_json(comparison: Comparison, wanted: list[Figure], facts: dict[str, str], timing: Timing) -> dict[str, Any]:
    """Return everything that was measured."""
    return {
        "machine": facts,
        "timing": vars(timing),
        "brokers": {candidate.name: candidate.version for candidate in comparison.candidates},
        "figures": [
            {
                "title": figure.title,
                "load": figure.load.name,
                "key": figure.key,
                "most": figure.most,
                "ratios": {each.name: ratio(comparison, figure, each.name) for each in comparison.candidates},
            }
            for figure in wanted
        ],
        "results": [
            {"load": load, "broker": name, "failure": cell.failure, "rounds": cell.results}
            for (load, name), cell in comparison.cells.items()
        ],
    }


def main(
    sluice: Annotated[str, typer.Option(help="Python of the environment where Sluice is installed.")] = sys.executable,
    before: Annotated[
        str | None, typer.Option(help="An earlier Sluice: a revision, which is built, or the Python that has it.")
    ] = None,
    connections: Annotated[int, typer.Option(min=1, help="How many are opened, and stay idle.")] = 2_000,
    rounds: Annotated[int, typer.Option(min=1, help="How often each measurement is made.")] = 5,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long messages are measured.")] = 3.0,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write every measurement there.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 if Sluice misses a limit.")] = False,
) -> None:
    """Measure TLS beside Mosquitto."""
    out, err = Console(), Console(stderr=True)
    wanted = figures(connections)
    loads = list(dict.fromkeys(figure.load for figure in wanted))
    timing = Timing(rounds, seconds, min(1.0, seconds / 2), 4)
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as scratch, err.status("") as status:
        try:
            found = candidates(sluice, before, make_certificates(Path(scratch)))
        except LookupError as error:
            err.print(f"not measured: {error}")
            raise typer.Exit(1) from None
        comparison = compare(loads, found, timing, status.update)
    facts = machine.description()
    out.print(headline(facts, timing), style="dim")
    for candidate in found:
        out.print(f"  {candidate.name}: {candidate.version}", style="dim")
    grid = table(comparison, wanted)
    show_grids([grid])
    for note in notes(comparison):
        out.print(note)
    if json_file:
        json_file.write_text(json.dumps(as_json(comparison, wanted, facts, timing), indent=1) + "\n")
    if check and (grid.bad_rows or any(cell.failure for cell in comparison.cells.values())):
        raise typer.Exit(1)


if __name__ == "__main__":
    program.run(main)
