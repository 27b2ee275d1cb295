"""`make fuzz`: look for inputs that break a target."""

import random
from pathlib import Path
from typing import Annotated

import typer

from tests.fuzz.quiet import be_quiet
from tests.fuzz.run import run
from tests.fuzz.target import read_seed
from tests.fuzz.targets import TARGETS

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)


@app.command()
def main(
    seconds: Annotated[float, typer.Option(min=1, help="How long in all; the targets share it.")] = 60,
    only: Annotated[str, typer.Option("--target", help=f"One of {', '.join(TARGETS)}; all.")] = "",
    seed: Annotated[int | None, typer.Option(min=1, help="The first inputs are the same for the same seed.")] = None,
    replay: Annotated[Path | None, typer.Option(help="Show what one input does, and do nothing else.")] = None,
) -> None:
    """Fuzz what clients, proxies and operators send or write."""
    be_quiet()
    if replay is not None:
        _replay(replay, only or replay.resolve().parent.name)
        return
    chosen = [TARGETS[only]] if only in TARGETS else [] if only else list(TARGETS.values())
    if not chosen:
        raise typer.BadParameter(f"there are: {', '.join(TARGETS)}")
    found = [run(target, seconds / len(chosen), seed or random.randrange(1, 2**31)) for target in chosen]
    if any(found):
        raise typer.Exit(1)


def _replay(path: Path, name: str) -> None:
    if name not in TARGETS:
        raise typer.BadParameter(f"--target says whose input it is: {', '.join(TARGETS)}")
    target = TARGETS[name]
    for line in target.trace(read_seed(target, path)):
        print(line)
    print("It holds.")


if __name__ == "__main__":
    app()
