"""`make rules`: generated rule sets through one broker, each decision against the reference."""

import random
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from tests.rules.batch import play, sections
from tests.rules.generated import rule_set
from tests.support.brokers import start_sluice

AT_ONCE = 25
"""Sets that the broker has at the same time."""


def play_all(folder: Path, sets: int, seed: int, workers: int = 1) -> int:
    """Play that many sets through one broker; returns the number of decisions. AssertionError says what differs."""
    rng = random.Random(seed)
    decisions = 0
    with start_sluice(folder, (), sections(folder), workers=workers) as broker:
        for first in range(0, sets, AT_ONCE):
            batch = [rule_set(number, rng) for number in range(first, min(sets, first + AT_ONCE))]
            decisions += play(broker, folder / "rules", batch, rng)
            broker.assert_healthy()
    return decisions


def main(
    sets: Annotated[int, typer.Option(min=1, help="How many rule sets.")] = 1_000,
    seed: Annotated[int | None, typer.Option(help="The same seed makes the same sets; default: a fresh one.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes of Sluice.")] = 1,
) -> None:
    """Play generated rule sets, each before and after a change under load, and compare what the broker decides."""
    seed = random.randrange(1 << 32) if seed is None else seed
    print(f"seed {seed}", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sluice-rules-") as folder:
        decisions = play_all(Path(folder), sets, seed, workers)
    print(f"{sets} rule sets, {decisions} decisions as in the reference, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    typer.run(main)
