"""`make bridge-soak`: a bridge between two brokers over a bad network, while both are killed; nothing may be lost."""

import asyncio
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from tests.soak.bridge.round import Outcome, run_round
from tests.support.brokers import SLUICE

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)


@app.command()
def main(
    rounds: Annotated[int, typer.Option(min=1, help="Rounds, each with other faults.")] = 5,
    seconds: Annotated[float, typer.Option(min=1, help="How long things go wrong in a round.")] = 30,
    kills: Annotated[int, typer.Option(min=0, help="kill -9 of each broker in a round.")] = 2,
    rate: Annotated[float, typer.Option(min=1, help="Messages a second, both directions together.")] = 500,
    seed: Annotated[int | None, typer.Option(min=1, help="What everything is drawn from.")] = None,
    version: Annotated[str, typer.Option(help="Of the bridge: 5 or 3.1.1.")] = "5",
    python: Annotated[str | None, typer.Option(help="Python of the environment whose Sluice is to be used.")] = None,
) -> None:
    """Soak a bridge."""
    chosen = seed or random.randrange(1, 2**31)
    command: Sequence[str] = (python, "-I", "-m", "broker") if python else SLUICE
    print(f"seed {chosen}")
    failed = 0
    for number in range(rounds):
        with tempfile.TemporaryDirectory(prefix="sluice-bridge-") as folder:
            chance = random.Random(f"{chosen} {number}")
            outcome = asyncio.run(run_round(Path(folder), chance, seconds, kills, rate, version, command))
        print(summary(number, outcome), flush=True)
        for violation in outcome.violations:
            print(f"  {violation}")
        failed += bool(outcome.violations)
    print(f"{rounds} rounds, {failed} failed")
    if failed:
        sys.exit(1)


def summary(number: int, outcome: Outcome) -> str:
    """A line about a round."""
    faults = ", ".join(f"{count} {name}" for name, count in sorted(outcome.happened.items()))
    return (
        f"{number}: {outcome.acknowledged} acknowledged, {outcome.came} came, {outcome.connects} connections; "
        f"{faults}; caught up in {outcome.caught_up:.1f} s, {outcome.rss / 2**20:.0f} MiB at most"
    )


if __name__ == "__main__":
    app()
