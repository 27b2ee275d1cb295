"""The gate's experiment with a real broker: one mixed load, with the gate off and on.

`make demo` runs it and ends with a report that puts both side by side.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

if __name__ == "__main__":
    # As a script this file is found beside the tests, not through them.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.bench import program
from tests.bench.mixed_load import Plan, drive, metrics_sections
from tests.support.brokers import start_sluice

RUNS: tuple[tuple[str, str, list[str]], ...] = (
    ("gate-off", "gate off", ["--no-developer-gate"]),
    ("gate-on", "gate on", []),
)


def experiment(out: Path, plan: Plan, patience: str, console: Console) -> None:
    """Run the load on a fresh broker for each run; its metrics go below `out`."""
    session = {"session": {"overflow_patience": patience}}
    for folder, label, flags in RUNS:
        console.print(f"{label}: {plan.seconds:g} s of mixed load, one reader well, one too slow by turns ...")
        with (
            tempfile.TemporaryDirectory(prefix="sluice-demo-") as scratch,
            start_sluice(Path(scratch), sections=metrics_sections(out / folder) | session, flags=flags) as broker,
        ):
            received = drive(broker.address(), plan)
        console.print(f"  received by QoS 0, 1, 2: {received}")


def report(out: Path) -> None:
    """Make the report on the second run, with the first as its baseline."""
    (off, off_label, _), (on, on_label, _) = RUNS
    command = [sys.executable, "-m", "spark_jobs", "report", "--out", str(out / "report")]
    command += ["--metrics", str(out / on), "--label", on_label]
    command += ["--compare", str(out / off), "--compare-label", off_label]
    subprocess.run(command, check=True)


def main(
    out: Annotated[Path, typer.Option(help="Where metrics and report go; emptied of an earlier demo first.")] = Path(
        "demo"
    ),
    seconds: Annotated[float, typer.Option(min=8, help="How long each of the two runs takes.")] = Plan.seconds,
    patience: Annotated[
        str, typer.Option(help="session.overflow_patience (FC-16); 0s shows what the gate does by itself.")
    ] = "0s",
) -> None:
    """Run the gate's experiment and make its report."""
    console = Console(stderr=True)
    out = out.absolute()
    for folder, _, _ in RUNS:
        for old in (*(out / folder).rglob("*.parquet"), *(out / folder).rglob("*.arrow")):
            old.unlink()
    experiment(out, Plan(seconds=seconds), patience, console)
    report(out)
    console.print(f"report: {out / 'report' / 'report.html'}")


if __name__ == "__main__":
    program.run(main)
