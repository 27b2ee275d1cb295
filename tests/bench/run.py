"""Sluice and the other installed brokers under the same loads: `python tests/bench/run.py --help`.

CPU time of the broker per delivered message is the figure to quote: on a shared machine it drifts far less than
a rate does. Compare ratios of one run, not figures of two.
"""

import json
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

if __name__ == "__main__":
    # As a script this file is found beside the tests, not through them.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.bench import candidates, instructions, machine, program, report
from tests.bench.grids import Grid
from tests.bench.loads import LOADS, Load, crossing
from tests.bench.outputs import writable
from tests.bench.page import page
from tests.bench.rounds import Comparison, Timing, compare

QUICK = Timing(rounds=1, seconds=1.0, warmup=0.3, version=4)
SOON = 0.5
"""Warm-up as a share of the measured time, at most one second."""

OPTIONS = {
    "sluice-before": "--before",
    "sluice-rules": "--rules",
    "sluice-scraped": "--watched",
    "sluice-watched": "--watched",
    "sluice-workers": "--workers",
    "prototype": "--prototype",
    "prototype-interpreted": "--prototype",
}
"""What has to be said for some brokers."""

WIDE = 400
"""Columns; no table is as wide."""


def chosen_loads(names: str, workers: int = 1) -> list[Load]:
    """Return the loads of a comma-separated list of names; a name that ends in * means all that begin so."""
    chosen: list[Load] = []
    known = {load.name: load for load in (*LOADS, *crossing(workers))}
    for name in names.split(","):
        matching = [load for load in known.values() if name.endswith("*") and load.name.startswith(name[:-1])]
        if not matching and name not in known:
            raise typer.BadParameter(f"there is no load {name}; there are: {', '.join(known)}")
        chosen += matching or [known[name]]
    return chosen


def chosen_brokers(names: str | None, sources: candidates.Sources) -> list[str]:
    """Return the brokers of a comma-separated list, or all."""
    known = candidates.names(sources)
    wanted = known if names is None else [name.strip() for name in names.split(",")]
    for name in wanted:
        if name in OPTIONS and name not in known:
            raise typer.BadParameter(f"{name} needs {OPTIONS[name]}")
        if name not in known:
            raise typer.BadParameter(f"there is no broker {name}; there are: {', '.join(known)}")
    return wanted


def main(
    loads: Annotated[str, typer.Option(help="Loads, separated by commas; pairs* means all that begin so.")] = "*",
    brokers: Annotated[str | None, typer.Option(help="Brokers, separated by commas; all that are found.")] = None,
    rounds: Annotated[
        int, typer.Option(min=1, help="How often each measurement is made; even is fair, see README.")
    ] = 4,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long each measurement takes.")] = 3.0,
    quick: Annotated[bool, typer.Option("--quick", help="One round of one second each.")] = False,
    version: Annotated[int, typer.Option(min=4, max=5, help="4 is MQTT 3.1.1, 5 is MQTT 5.0.")] = 4,
    sluice: Annotated[str | None, typer.Option(help="Python of the environment where Sluice is installed.")] = None,
    before: Annotated[
        str | None, typer.Option(help="An earlier Sluice: a revision, which is built, or the Python that has it.")
    ] = None,
    watched: Annotated[
        bool, typer.Option("--watched", help="Also measure Sluice scraped by Prometheus, and with an open dashboard.")
    ] = False,
    rules: Annotated[int, typer.Option(min=0, help="Also measure Sluice with so many rules, and users.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Also measure Sluice with so many; others get threads.")] = 1,
    amqtt: Annotated[str | None, typer.Option(help="Python of an environment that has amqtt.")] = None,
    flashmq: Annotated[str | None, typer.Option(help="FlashMQ's program, if it is not on PATH.")] = None,
    nanomq: Annotated[str | None, typer.Option(help="NanoMQ's program, if it is not on PATH.")] = None,
    emqx: Annotated[str | None, typer.Option(help="EMQX's program, bin/emqx of a release, if not on PATH.")] = None,
    prototype: Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="A file with go(port).")] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write every measurement there.", callback=writable)
    ] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the tables there.", callback=writable)] = None,
    page_file: Annotated[
        Path | None, typer.Option("--page", help="Write a page with bars there.", callback=writable)
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 if Sluice misses a target.")] = False,
) -> None:
    """Measure brokers side by side."""
    chosen = chosen_loads(loads, workers)
    told = {"flashmq": flashmq, "nanomq": nanomq, "emqx": emqx}
    sources = candidates.Sources(sluice, before, amqtt, prototype, rules, told, watched, workers)
    wanted = chosen_brokers(brokers, sources)
    named = named_brokers(sources, wanted if brokers else [])
    wanted += [name for name in named if name not in wanted]
    out, err = Console(), Console(stderr=True)
    usual = Timing(rounds, seconds, min(1.0, SOON * seconds), version)
    timing = replace(QUICK, version=version) if quick else usual
    if not_counted := instructions.why_not():
        err.print(f"note: {escape(not_counted)}")
    else:
        timing = replace(timing, event=instructions.EVENT)
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as scratch:
        found = candidates.find(wanted, sources, Path(scratch))
        if not can_begin(found, named, check, err):
            raise typer.Exit(1)
        with err.status("") as status:
            comparison = compare(chosen, found.candidates, timing, status.update)
            comparison.missing = found.missing
    facts = machine.description()
    show(out, comparison, report.headline(facts, timing))
    write(report.as_json(comparison, facts, timing), json_file, page_file)
    if markdown:
        markdown.write_text(as_markdown(comparison, report.headline(facts, timing)))
    raise typer.Exit(failed(comparison, check, err))


def named_brokers(sources: candidates.Sources, named: list[str]) -> list[str]:
    """Return the brokers that options name: a run without them is not what was asked for."""
    told = [name for name, program in sources.programs.items() if program]
    before = ["sluice-before"] if sources.before else []
    prototype = ["prototype"] if sources.prototype else []
    return list(dict.fromkeys([*named, *before, *prototype, *told]))


def can_begin(found: candidates.Found, named: list[str], check: bool, err: Console) -> bool:
    """Say which brokers are not measured; returns whether there are those that the options ask for."""
    for name, reason in found.missing.items():
        err.print(f"not measured: {name}: {escape(reason)}")
    if check and not {"sluice", "mosquitto"} <= {candidate.name for candidate in found.candidates}:
        err.print("--check needs Sluice and Mosquitto: the targets are ratios of the two")
        return False
    return bool(found.candidates) and not any(name in found.missing for name in named)


def failed(comparison: Comparison, check: bool, err: Console) -> bool:
    """Return whether the run has failed: it has no results, or with `check` it misses a target."""
    if not any(cell.results for cell in comparison.cells.values()):
        err.print("nothing was measured: the notes say why")
        return True
    return check and report.missed_targets(comparison) > 0


def write(data: dict[str, Any], json_file: Path | None, page_file: Path | None) -> None:
    """Write what was measured as JSON, and as a page."""
    if json_file:
        json_file.write_text(json.dumps(data, indent=1) + "\n")
    if page_file:
        page_file.write_text(page(data), encoding="utf-8")


def show_grids(grids: Iterable[Grid]) -> None:
    """Print tables; the terminal wraps lines that are too long."""
    wide = Console(width=WIDE)
    for grid in grids:
        wide.print(grid)


def show(out: Console, comparison: Comparison, headline: str) -> None:
    """Print the tables and the notes about them."""
    out.print(headline, style="dim")
    for candidate in comparison.candidates:
        out.print(f"  {candidate.name}: {candidate.version}", style="dim")
    show_grids(report.grids(comparison))
    for note in report.notes(comparison):
        out.print(f"note: {note}", style="yellow")


def as_markdown(comparison: Comparison, headline: str) -> str:
    """Return everything that is printed, as Markdown."""
    versions = "".join(f"- {candidate.name}: {candidate.version}\n" for candidate in comparison.candidates)
    tables = "\n".join(grid.markdown() for grid in report.grids(comparison))
    remarks = "".join(f"- {note}\n" for note in report.notes(comparison))
    return f"{headline}\n\n{versions}\n{tables}" + (f"\n{remarks}" if remarks else "")


if __name__ == "__main__":
    program.run(main)
