"""`make logins`: the whole table of logins, all clients side by side."""

import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import typer

from tests.clients.logins.place import Place, missing, place
from tests.clients.logins.running import Agents, run
from tests.clients.logins.table import CLIENTS, Cell, all_cells


def _run_client(cells: list[Cell], shared: Place) -> dict[Cell, str]:
    """The cells of one client, one after another; what has failed, and why."""
    failed = {}
    with Agents() as agents:
        for cell in cells:
            try:
                run(cell, shared, agents)
            except AssertionError as error:
                failed[cell] = str(error)
                print(f"{cell.name}: {error}", flush=True)
    return failed


def main(
    cells: Annotated[str, typer.Option(help="Only those whose names hold such a part, as wss-haproxy,jwt.")] = "",
    workers: Annotated[int, typer.Option(min=1, help="Processes of Sluice.")] = 1,
) -> None:
    """Each client logs in, subscribes and publishes by each method, over each transport and proxy; or is refused."""
    began = time.monotonic()
    parts = cells.split(",")
    wanted = [cell for cell in all_cells() if any(part in cell.name for part in parts)]
    absent = Counter(why for cell in wanted if (why := missing(cell)))
    there = [cell for cell in wanted if not missing(cell)]
    if not there:
        raise typer.BadParameter(f"no cell that can be run holds {cells!r} in its name, such as {all_cells()[0].name}")
    with tempfile.TemporaryDirectory(prefix="sluice-logins-") as folder, place(Path(folder), workers) as shared:
        by_client = [[cell for cell in there if cell.client == client] for client in CLIENTS]
        with ThreadPoolExecutor(len(CLIENTS)) as pool:
            failed = [cell for each in pool.map(lambda own: _run_client(own, shared), by_client) for cell in each]
    for why, count in absent.items():
        print(f"{count} left out: {why}")
    counted = Counter(cell.client for cell in there)
    print(", ".join(f"{client} {count}" for client, count in counted.items()))
    print(f"{len(there)} logins and as many refusals, {len(failed)} failed, {time.monotonic() - began:.0f} s")
    raise typer.Exit(1 if failed else 0)


if __name__ == "__main__":
    typer.run(main)
