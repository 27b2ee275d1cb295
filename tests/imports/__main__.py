"""`make imports`: generated configurations of other brokers, imported and compared with what they permit there."""

import random
import time
from importlib import import_module
from typing import Annotated, Final

import typer

BROKERS: Final = ("emqx", "mosquitto")
"""Modules of this folder; each has `check(pairs, seed)`, which returns how many pairs it has played."""


def main(
    broker: Annotated[str, typer.Option(help="emqx, mosquitto or all.")] = "all",
    pairs: Annotated[int, typer.Option(min=1, help="How many configurations of each broker.")] = 2_000,
    seed: Annotated[int | None, typer.Option(help="The same seed makes the same ones; default: a fresh one.")] = None,
) -> None:
    """Import generated configurations, and compare what the result permits with what the original does."""
    if broker not in (*BROKERS, "all"):
        raise typer.BadParameter(f"write {', '.join(BROKERS)} or all", param_hint="--broker")
    seed = random.randrange(1 << 32) if seed is None else seed
    print(f"seed {seed}", flush=True)
    for name in BROKERS if broker == "all" else (broker,):
        began = time.monotonic()
        played = import_module(f"tests.imports.{name}").check(pairs, seed)
        print(f"{name}: {played} pairs, none more open than the original, {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    typer.run(main)
