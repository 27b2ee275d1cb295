"""`make ledger`: where millions of QoS 1 and 2 deliveries end, while everything goes wrong that may."""

import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from tests.ledger.disk import own_disk
from tests.ledger.plan import DELIVERIES, draw
from tests.ledger.round import Outcome, Round
from tests.support.brokers import SLUICE

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)


@app.command()
def main(
    deliveries: Annotated[int, typer.Option(min=1, help="How many to account for.")] = 10_000_000,
    seed: Annotated[int | None, typer.Option(min=1, help="What everything is drawn from.")] = None,
    first: Annotated[int, typer.Option(min=0, help="The round to begin with, to see one again.")] = 0,
    size: Annotated[int, typer.Option(min=1_000, help="Deliveries of a round.")] = DELIVERIES,
    sluice: Annotated[str | None, typer.Option(help="Python of the environment whose Sluice is to be used.")] = None,
) -> None:
    """Account for every delivery of a broker."""
    chosen = seed or random.randrange(1, 2**31)
    command = (sluice, "-I", "-m", "broker") if sluice else SLUICE
    began = time.monotonic()
    ends: Counter[str] = Counter()
    happened: Counter[str] = Counter()
    number, wrong, done = first, 0, 0
    print(f"seed {chosen}", flush=True)
    while done < deliveries:
        outcome, words = play(chosen, number, min(size, deliveries - done), command)
        ends += outcome.ends
        happened += outcome.happened
        done += outcome.deliveries
        wrong += len(outcome.wrong)
        rate = outcome.deliveries / outcome.seconds
        print(f"round {number}: {outcome.deliveries:,} deliveries, {rate:,.0f}/s: {words}", flush=True)
        for each in outcome.wrong:
            print(f"  WRONG {each}", flush=True)
        if outcome.wrong:
            again = f"--seed {chosen} --first {number} --size {size} --deliveries {size}"
            print(f'  again: make ledger ARGS="{again}"', flush=True)
        number += 1
    print(f"{done:,} deliveries in {number - first} rounds, {time.monotonic() - began:,.0f} s")
    for end, count in ends.most_common():
        print(f"{count:12,}  {end}")
    print("; ".join(f"{count} times {what}" for what, count in sorted(happened.items())))
    print(f"unaccounted: {done - ends.total():,}")
    sys.exit(bool(wrong))


def play(seed: int, number: int, deliveries: int, command: tuple[str, ...]) -> tuple[Outcome, str]:
    """One round; and what is special about it."""
    with tempfile.TemporaryDirectory(prefix="sluice-ledger-") as name, own_disk(Path(name) / "disk") as disk:
        plan = draw(seed, number, deliveries, disk.can_fill)
        return Round(plan, Path(name), disk, command).play(), plan.words()


if __name__ == "__main__":
    app()
