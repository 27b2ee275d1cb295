"""`make simulation`: run cells with crashes and broken links, seed after seed, or one seed with its trace."""

import time
from typing import Annotated

import typer

from tests.simulation.world import World

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)


@app.command()
def main(
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds.")] = 1_000,
    first: Annotated[int, typer.Option(help="The first of them.")] = 0,
    seed: Annotated[int | None, typer.Option(help="This one alone, with its trace.")] = None,
) -> None:
    """Say which seeds fail, and why."""
    if seed is not None:
        world = World(seed, trace=True)
        wrong = world.run()
        print(*world.trace or (), world.knobs, *wrong, sep="\n")
        raise typer.Exit(bool(wrong))
    began = shown = time.monotonic()
    failed = 0
    for each in range(first, first + seeds):
        wrong = World(each).run()
        if wrong:
            failed += 1
            print(f"seed {each}: {wrong[0]}" + (f" (and {len(wrong) - 1} more)" if wrong[1:] else ""), flush=True)
        if time.monotonic() - shown > 10:
            shown = time.monotonic()
            print(f"{each - first + 1} seeds, {(each - first + 1) / (shown - began):.1f} a second", flush=True)
    print(f"{seeds} seeds in {time.monotonic() - began:.1f} s, {failed} failed")
    raise typer.Exit(failed > 0)


if __name__ == "__main__":
    app()
