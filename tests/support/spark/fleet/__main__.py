"""`python -m tests.support.spark.fleet --help`: writes the metrics of a fleet, of any size."""

import re
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from tests.support.spark.fleet.generate import generate
from tests.support.spark.fleet.model import SECOND, Model, ModelError

UNITS = {"s": 1, "m": 60, "h": 3600}


def duration(text: str) -> int:
    """Microseconds of a duration such as 10s, 1m or 24h."""
    match = re.fullmatch(r"([0-9.]+)([smh])", text)
    if match is None:
        raise typer.BadParameter(f"{text} is not a duration; expected 10s, 1m or 24h")
    return round(float(match[1]) * UNITS[match[2]] * SECOND)


def main(
    out: Annotated[Path, typer.Option(help="The metrics folder; created if missing.")],
    sessions: Annotated[int, typer.Option(help="Over all brokers.")] = 1000,
    brokers: int = 4,
    hours: Annotated[float, typer.Option(help="Hours that the metrics cover.")] = 24,
    interval: Annotated[str, typer.Option(help="Time between two exports: 10s, 1m.")] = "60s",
    rows: Annotated[int | None, typer.Option(help="Approximate number of rows; default: all possible ones.")] = None,
    files: Annotated[int | None, typer.Option(help="Default: one per broker and quarter of an hour.")] = None,
    seed: int = 7,
    unfair: Annotated[float, typer.Option(help="Share of sessions with a planted fault.")] = 0.02,
    visitors: Annotated[float, typer.Option(help="Share of sessions that start later, and end.")] = 0.02,
    busiest: Annotated[float, typer.Option(help="Deliveries of a broker's busiest session in one row.")] = 2000,
    exponent: Annotated[float, typer.Option(help="Of Zipf's law.")] = 0.9,
    start: Annotated[str, typer.Option(help="Start, ISO 8601, UTC.")] = "2026-11-20T00:00:00",
    processes: Annotated[int | None, typer.Option(help="Default: the number of processors.")] = None,
) -> None:
    """Write the metrics of a fleet with planted faults, and OUT/planted.json, which lists them."""
    moment = datetime.fromisoformat(start).replace(tzinfo=UTC)
    model = Model(
        sessions=sessions,
        brokers=brokers,
        start_us=int(moment.timestamp()) * SECOND,
        length_us=round(hours * 3600) * SECOND,
        interval_us=duration(interval),
        rows=rows,
        files=files,
        seed=seed,
        unfair=unfair,
        visitors=visitors,
        busiest=busiest,
        exponent=exponent,
    )
    began = time.monotonic()

    def progress(done: int) -> None:
        seconds = time.monotonic() - began
        print(f"{done:12,} rows  {seconds:6.1f} s  {done / max(seconds, 0.001):9,.0f} rows/s", file=sys.stderr)

    try:
        planted = generate(model, out, processes, progress)
    except ModelError as error:
        raise typer.BadParameter(str(error)) from None
    kinds: dict[str, int] = {}
    for found in planted.found:
        kinds[found.kind] = kinds.get(found.kind, 0) + 1
    told = ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "nothing"
    print(f"{planted.rows:,} rows of {planted.sessions:,} sessions in {planted.files:,} files; planted: {told}")


if __name__ == "__main__":
    typer.run(main)
