"""`make model`: hold the session to the model for many random steps."""

import random
import time
from typing import Annotated

import typer

from tests.model.drive import Disagreement, drive, drive_groups, drive_kept, drive_kept_groups

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)


@app.command()
def main(
    steps: Annotated[int, typer.Option(min=1, help="How many steps in all.")] = 100_000,
    seed: Annotated[int | None, typer.Option(help="The same seed makes the same steps; default: a fresh one.")] = None,
    groups: Annotated[bool, typer.Option("--groups", help="Shared groups, not single sessions.")] = False,
    kept: Annotated[bool, typer.Option("--kept", help="On a journal, with restarts among the steps.")] = False,
) -> None:
    """Drive the model and the session with the same random events, and compare them after each."""
    seed = random.randrange(1 << 32) if seed is None else seed
    print(f"seed {seed}", flush=True)
    began = time.monotonic()
    shown = began

    def progress(done: int) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - shown > 5 or done == steps:
            shown = now
            print(f"{done} steps, {done / (now - began):.0f} a second", flush=True)

    try:
        if kept:
            (drive_kept_groups if groups else drive_kept)(steps, random.Random(seed), progress)
        else:
            (drive_groups if groups else drive)(steps, random.Random(seed), progress)
    except Disagreement as found:
        print(f"{found.story}\n\nThey disagree in step {found.step} of seed {seed}: {found}")
        raise typer.Exit(1) from found


if __name__ == "__main__":
    app()
