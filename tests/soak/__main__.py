"""`make soak`: round after round of many sessions on a bad network, each with another configuration."""

import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
import yaml

from tests.soak.plan import draw
from tests.soak.round import Outcome, run_round
from tests.support.brokers import SLUICE

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)

MIB = 2**20
LOG_LINES = 30
"""Last lines of the broker's log that are shown when a round fails."""


@app.command()
def main(
    minutes: Annotated[float, typer.Option(min=0.1, help="How long in all; the round that has begun ends.")] = 5,
    seed: Annotated[int | None, typer.Option(min=1, help="What everything is drawn from.")] = None,
    sessions: Annotated[int, typer.Option(min=10, help="Clients of a round.")] = 60,
    first: Annotated[int, typer.Option(min=0, help="The round to begin with, to see one again.")] = 0,
    rounds: Annotated[int, typer.Option(min=0, help="How many rounds; 0 = as many as there is time for.")] = 0,
    seconds: Annotated[float, typer.Option(min=1, help="How long things go wrong in a round.")] = 15,
    rate: Annotated[float, typer.Option(min=1, help="Messages a second, all publishers together.")] = 1000,
    python: Annotated[str | None, typer.Option(help="Python of the environment whose Sluice is to be used.")] = None,
) -> None:
    """Soak a broker."""
    chosen = seed or random.randrange(1, 2**31)
    command = (python, "-I", "-m", "broker") if python else SLUICE
    until = time.monotonic() + minutes * 60
    number, failed = first, 0
    print(f"seed {chosen}")
    while time.monotonic() < until and (not rounds or number < first + rounds):
        with tempfile.TemporaryDirectory(prefix="sluice-soak-") as folder:
            outcome = run_round(draw(chosen, number, sessions, seconds, rate), Path(folder), command)
        print(summary(outcome), flush=True)
        if outcome.violations:
            failed += 1
            tell(outcome, f"--seed {chosen} --first {number} --rounds 1 --sessions {sessions} --seconds {seconds:g}")
        number += 1
    print(f"{number - first} rounds, {failed} failed")
    if failed:
        sys.exit(1)


def summary(outcome: Outcome) -> str:
    """Return a line about a round."""
    plan = outcome.plan
    policies = sorted({address["full_policy"] for address in plan.addresses})
    kind = "lossless" if plan.rules.lossless else plan.sections["session"]["mqueue_overflow"]
    happened = sum(outcome.happened.values())
    start, most, end = (size / MIB for size in (outcome.rss_start, outcome.rss_most, outcome.rss_end))
    return (
        f"round {plan.number}: {kind}, addresses {'+'.join(policies) or 'none'}: {outcome.messages:,} published, "
        f"{outcome.received:,} received, {happened} troubles, still after {outcome.settling:.1f} s, broker "
        f"{start:.0f} MiB, at most {most:.0f}, {end:.0f} in the end"
        f"{', FAILED' if outcome.violations else ''}"
    )


def tell(outcome: Outcome, again: str) -> None:
    """Print what has failed, with all that is needed to see it again."""
    plan = outcome.plan
    print(yaml.safe_dump(plan.sections), "flags:", *plan.flags)
    print("the end of the broker's log:")
    print("\n".join(outcome.log.splitlines()[-LOG_LINES:]))
    for violation in outcome.violations:
        print(f"VIOLATION {violation}")
    print(f'again: make soak ARGS="{again}"')


if __name__ == "__main__":
    app()
