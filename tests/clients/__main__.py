"""`make matrix`: runs every installed client through all cases, and prints a table of the results."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tests.clients.cases import Case, Peers, Surroundings, all_cases, listeners, run, why_not
from tests.clients.catalogue import CLIENTS, Client
from tests.support.brokers import broker_under_test, start_broker
from tests.support.certificates import make_certificates

MOST_SAID = 4_000
"""Characters of the broker's log that are shown with a failure."""


@dataclass
class Cell:
    """The results of one client and case: how often it was tried, and what failed."""

    tried: int = 0
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        if not self.tried:
            return "-"
        if not self.failures:
            return "ok" if self.tried == 1 else f"ok {self.tried}"
        return f"[red]{len(self.failures)} of {self.tried}[/red]"


Cells = dict[tuple[str, str], Cell]


@contextmanager
def _surroundings(workers: int) -> Iterator[Surroundings]:
    with tempfile.TemporaryDirectory(prefix="sluice-matrix-") as name:
        folder = Path(name)
        certificates = make_certificates(folder)
        with start_broker(folder, listeners(certificates), workers) as broker, Peers() as peers:
            yield Surroundings(broker, certificates, peers)


def put_through(
    client: Client, cases: Sequence[Case], rounds: int, workers: int, cells: Cells, console: Console
) -> None:
    """Run a client through its cases, with a broker of its own."""
    with _surroundings(workers) as around:
        for case in cases:
            cell = cells[client.name, case.name] = Cell()
            if why_not(client, case):
                continue
            for number in range(rounds if case.count else 1):
                cell.tried += 1
                said = len(around.broker.stderr)
                try:
                    run(client, case, around)
                    around.broker.assert_healthy()
                except AssertionError as error:
                    cell.failures.append(str(error))
                    console.print(f"{client.name} {case.name}, round {number + 1}: {error}", style="red", markup=False)
                    console.print(_clipped(around.broker.stderr[said:]), markup=False)
            console.print(f"{client.name} {case.name}: {cell}")


def _clipped(said: str) -> str:
    """The broker's log meanwhile, without the beginning of a long text."""
    return said if len(said) < MOST_SAID else f"... {said[-MOST_SAID:]}"


def show(clients: Sequence[Client], cases: Sequence[Case], cells: Cells, console: Console) -> None:
    """Print the table, and each failure once."""
    table = Table("case", *(client.name for client in clients), title=f"{broker_under_test()} and its clients")
    for case in cases:
        table.add_row(case.name, *(str(cells.get((client.name, case.name), "")) for client in clients))
    console.print(table)
    for (name, case_name), cell in cells.items():
        for failure in dict.fromkeys(cell.failures):
            times = cell.failures.count(failure)
            console.print(f"{name} {case_name}: {failure}{f' ({times} times)' * (times > 1)}", markup=False)


def _chosen(names: str) -> list[Client]:
    wanted = [name.strip() for name in names.split(",")] if names else list(CLIENTS)
    if unknown := [name for name in wanted if name not in CLIENTS]:
        raise typer.BadParameter(f"no such client: {', '.join(unknown)}; there are {', '.join(CLIENTS)}")
    return [CLIENTS[name] for name in wanted]


def main(
    clients: Annotated[str, typer.Option(help=f"Which, separated by commas: {', '.join(CLIENTS)}.")] = "",
    cases: Annotated[str, typer.Option(help="Only those whose names hold one of these parts, as `burst,will`.")] = "",
    rounds: Annotated[int, typer.Option(min=1, help="How often each burst is repeated.")] = 1,
    workers: Annotated[int, typer.Option(min=1, help="Processes of Sluice.")] = 1,
) -> None:
    """Run unmodified clients with their defaults through the whole matrix, on a broker with its defaults."""
    console = Console(width=None if Console().is_terminal else 200)
    parts = cases.split(",") if cases else [""]
    wanted = [case for case in all_cases() if any(part in case.name for part in parts)]
    if not wanted:
        raise typer.BadParameter(f"no case's name holds {cases!r}, as in {next(all_cases()).name}")
    there, cells = [], Cells()
    absent: list[str] = []
    for client in _chosen(clients):
        if missing := client.missing():
            absent.append(f"{client.name} is left out: {missing}")
            continue
        there.append(client)
        put_through(client, wanted, rounds, workers, cells, console)
    show(there, wanted, cells, console)
    for line in absent:
        console.print(line, markup=False)
    failed = sum(1 for cell in cells.values() if cell.failures)
    tried = sum(1 for cell in cells.values() if cell.tried)
    console.print(f"{tried} cases, {failed} failed, {len(absent)} clients missing")
    raise typer.Exit(1 if failed or not tried else 0)


if __name__ == "__main__":
    typer.run(main)
