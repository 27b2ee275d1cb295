"""`make fairness`: the same cases on Sluice and the other brokers, by paho-mqtt, and one page with bars."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from tests.bench import machine, program
from tests.bench.generator import LoadError
from tests.bench.outputs import writable
from tests.bench.run import show_grids
from tests.fairness.brokers import Contender, find, finders
from tests.fairness.cases import CASES, Case
from tests.fairness.measure import measure
from tests.fairness.page import Figures, Results, drawn, grids, page
from tests.support.process import BrokerError

PICTURED = "loud"


def chosen(names: str | None, known: Sequence[str], what: str) -> list[str]:
    """Return the names of a comma-separated list, or all."""
    wanted = list(known) if names is None else [name.strip() for name in names.split(",")]
    for name in wanted:
        if name not in known:
            raise typer.BadParameter(f"there is no {what} {name}; there are: {', '.join(known)}")
    return wanted


def headline(seconds: float, busy: tuple[float, float]) -> str:
    """Say where it was measured, by which command, and how busy the machine was."""
    facts = machine.description()
    return (
        f"{facts['cpu']}, {facts['cores']} cores, {facts['memory']}, kernel {facts['kernel']}, "
        f"Python {facts['python']}; load average {busy[0]:.1f} before, {busy[1]:.1f} after. "
        f"Clients: paho-mqtt {version('paho-mqtt')}, MQTT 3.1.1, QoS 1; the broker has one core, they have the other. "
        f"They publish for {seconds:g} s. Command: make fairness ARGS='{' '.join(sys.argv[1:])}'"
    )


def figures_of(contender: Contender, case: Case, seconds: float) -> Figures | str:
    """Measure a case, and what the others get without those who disturb; or say why there are no figures."""
    try:
        run = measure(contender.start, case, seconds)
        alone = measure(contender.start, case.undisturbed(), seconds) if case.alone else None
        return Figures.of(run, alone)
    except (LoadError, BrokerError, TimeoutError, OSError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


@dataclass(frozen=True)
class Files:
    """Where to write what was measured; None: nowhere."""

    page: Path | None
    picture: Path | None
    json: Path | None

    def write(self, head: str, results: Results, contenders: Sequence[Contender], missing: dict[str, str]) -> None:
        """Write what there is so far."""
        if self.page:
            self.page.write_text(page(results, CASES, contenders, missing, [head]), encoding="utf-8")
        if self.picture and PICTURED in results:
            self.picture.write_text(drawn(results[PICTURED], CASES[PICTURED].title), encoding="utf-8")
        if self.json:
            data = {
                case: {name: each if isinstance(each, str) else each.as_json() for name, each in of_brokers.items()}
                for case, of_brokers in results.items()
            }
            self.json.write_text(json.dumps({"headline": head, "cases": data}, indent=1) + "\n")


def main(
    brokers: Annotated[str | None, typer.Option(help="Brokers, separated by commas; all that are found.")] = None,
    cases: Annotated[str | None, typer.Option(help="Cases, separated by commas; all.")] = None,
    seconds: Annotated[float, typer.Option(min=1, help="How long publishers publish in each case.")] = 20.0,
    page_file: Annotated[
        Path | None, typer.Option("--page", help="Write the page with bars there.", callback=writable)
    ] = None,
    picture_file: Annotated[
        Path | None, typer.Option("--picture", help="Write the case `loud` as SVG there.", callback=writable)
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write all figures there.", callback=writable)
    ] = None,
    sluice: Annotated[str, typer.Option(help="Python of the environment where Sluice is installed.")] = sys.executable,
    flashmq: Annotated[str | None, typer.Option(help="FlashMQ's program, if it is not on PATH.")] = None,
    nanomq: Annotated[str | None, typer.Option(help="NanoMQ's program, if it is not on PATH.")] = None,
    emqx: Annotated[str | None, typer.Option(help="EMQX's program, bin/emqx of a release, if not on PATH.")] = None,
) -> None:
    """Measure how brokers treat publishers and subscribers under overload, by clients that are not ours."""
    err = Console(stderr=True)
    wanted = chosen(cases, list(CASES), "case")
    told = {"flashmq": flashmq, "nanomq": nanomq, "emqx": emqx}
    known = finders(sluice, told)
    contenders, missing = find(chosen(brokers, list(known), "broker"), known)
    for name, reason in missing.items():
        err.print(f"not measured: {name}: {escape(reason)}")
    named = [name for name in missing if brokers or told.get(name)]
    if named or not contenders:
        err.print("nothing was measured: what was asked for is not there")
        raise typer.Exit(1)
    files = Files(page_file, picture_file, json_file)
    results: dict[str, dict[str, Figures | str]] = {}
    before = os.getloadavg()[0]
    with err.status("") as status:
        for name in wanted:
            of_brokers = results[name] = {}
            for contender in contenders:
                status.update(f"{name}: {contender.name}")
                of_brokers[contender.name] = figures_of(contender, CASES[name], seconds)
            show_grids(grids({name: of_brokers}, CASES))
            # After each case: a run that is ended has what it had.
            head = headline(seconds, (before, os.getloadavg()[0]))
            files.write(head, results, contenders, missing)
    print(head)


if __name__ == "__main__":
    program.run(main)
