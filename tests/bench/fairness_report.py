"""The fairness report's speed beside DuckDB's, on the same files: `python tests/bench/fairness_report.py --help`.

Makes a data set (or takes the one that is there), compacts it and reports on it with Spark, does the same sums with
DuckDB, compares what they found, and says what each took. Exit code 1 if they found different things, or if Spark takes
more processor time than it may. The figure to quote is the ratio of processor times: on a shared machine it drifts far
less than a rate does.
"""

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

if __name__ == "__main__":
    # As a script this file is found beside the tests, not through them.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.bench import program
from tests.bench.machine import description
from tests.support.spark.fleet.model import SECOND, Model


def main(
    data: Annotated[Path, typer.Option(help="The data set; made if missing.")] = Path("build/fairness/data"),
    work: Annotated[Path, typer.Option(help="Stores, reports and logs; emptied.")] = Path("build/fairness/work"),
    sessions: int = 20_000,
    rows: int = 20_000_000,
    brokers: int = 4,
    hours: float = 24,
    interval: Annotated[int, typer.Option(help="Seconds from export to export.")] = 60,
    files: int = 40,
    skew: Annotated[
        float,
        typer.Option(
            help="Share of sessions on the first broker; has as many rows as --rows SESSIONS x INTERVALS."
        ),
    ] = 0.0,
    seed: int = 7,
    scale: Annotated[int, typer.Option(help="Repeat with so many times the sessions and rows; 1: do not.")] = 1,
    master: Annotated[
        str, typer.Option(help="Spark's master; local-cluster[1,2,2048] has a driver apart.")
    ] = "local[*]",
    markdown: Annotated[Path | None, typer.Option(help="Write the figures there too.")] = None,
) -> None:
    """Measure compact and report beside DuckDB."""
    from tests.bench.fairness import tables
    from tests.bench.fairness.steps import run

    def model(times: int) -> Model:
        return Model(
            sessions=sessions * times,
            brokers=brokers,
            length_us=round(hours * 3600) * SECOND,
            interval_us=interval * SECOND,
            rows=None if skew else rows * times,
            skew=skew,
            files=files * times,
            seed=seed,
        )

    def say(words: str) -> None:
        print(words, file=sys.stderr, flush=True)

    shutil.rmtree(work, ignore_errors=True)
    machine = ", ".join(f"{name} {value}" for name, value in description().items())
    small = run(model(1), data.resolve(), work.resolve(), master, say)
    text = f"{machine}; Spark's master {master}.\n\n{tables.of_round(small)}\n"
    differences = list(small.differences)
    too_slow = tables.ratio(small) > tables.most(small)
    if scale > 1:
        large_data, large_work = (path.resolve().with_name(f"{path.name}-x{scale}") for path in (data, work))
        shutil.rmtree(large_work, ignore_errors=True)
        large = run(model(scale), large_data, large_work, master, say)
        text += f"\n{tables.of_round(large)}\n\n{tables.of_scale(small, large, scale)}\n"
        differences += large.differences
    print(text)
    if markdown is not None:
        markdown.write_text(text)
    if differences or too_slow:
        raise typer.Exit(1)


if __name__ == "__main__":
    program.run(main)
