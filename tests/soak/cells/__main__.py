"""`make cells-soak`: kill -9 of a random worker every few seconds under load; nothing may be lost."""

import random
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from tests.soak.cells.round import CellsPlan, run_cells, summary
from tests.support.brokers import SLUICE

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)


@app.command()
def main(
    minutes: Annotated[float, typer.Option(min=0.1, help="How long cells are killed.")] = 5,
    calm: Annotated[float, typer.Option(min=2, help="Seconds without kills before each minute of them.")] = 20,
    workers: Annotated[int, typer.Option(min=2, help="Cells of the broker.")] = 4,
    every: Annotated[float, typer.Option(min=0.5, help="Seconds from one kill to the next.")] = 5,
    rate: Annotated[float, typer.Option(min=1, help="Messages a second, all publishers together.")] = 100,
    seed: Annotated[int | None, typer.Option(min=1, help="Which cells are killed.")] = None,
    python: Annotated[str | None, typer.Option(help="Python of the environment whose Sluice is to be used.")] = None,
) -> None:
    """Soak a broker with several workers."""
    chosen = seed or random.randrange(1, 2**31)
    command = (python, "-I", "-m", "broker") if python else SLUICE
    print(f"seed {chosen}", flush=True)
    plan = CellsPlan(workers, calm, minutes * 60, every, rate, chosen)
    with tempfile.TemporaryDirectory(prefix="sluice-cells-") as folder:
        outcome = run_cells(Path(folder), plan, command)
    for line in (*summary(outcome), *outcome.violations[:30]):
        print(line)
    print(f"{len(outcome.violations)} violations")
    if outcome.violations:
        sys.exit(1)


if __name__ == "__main__":
    app()
