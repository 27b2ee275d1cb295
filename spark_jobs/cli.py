"""Command line: `python -m spark_jobs report ...` and `python -m spark_jobs bundle ...`.

On a cluster, the same job runs by spark-submit; the driver needs pyarrow, nothing of Sluice needs to be
installed anywhere:

    python -m spark_jobs bundle --out jobs/
    spark-submit --master ... --py-files jobs/spark_jobs.zip jobs/sluice_report.py --metrics DIR --out DIR

or, from a copy of this package, `spark-submit --master ... spark_jobs/report.py --metrics DIR --out DIR`.

Exit code 0: the report is there. 2: the input, the output folder or the machine will not do, and stderr says
what would. 1: the job failed for a reason that this program does not know. 130: interrupted.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from spark_jobs.errors import ReportError
from spark_jobs.job import Options, Source, make_report
from spark_jobs.progress import Progress
from spark_jobs.spark import DEBUG
from spark_jobs.windows import AUTO, parse_window

OK: Final = 0
FAILED: Final = 1
WRONG_INPUT: Final = 2
INTERRUPTED: Final = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = _parser()
    parsed = parser.parse_args(arguments)
    progress = Progress(quiet=parsed.quiet if parsed.command == "report" else True)
    try:
        if parsed.command == "bundle":
            return _bundle(parsed.out)
        make_report(_options(parsed), progress)
    except ReportError as error:
        sys.stderr.write(f"error: {error}\n")
        return WRONG_INPUT
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return INTERRUPTED
    except Exception as error:  # the last line of defence: Spark's own errors have no common class
        if os.environ.get(DEBUG):
            raise
        lines = [line for line in str(error).splitlines() if line.strip()]
        reason = "; ".join(lines[:3]) or type(error).__name__
        sys.stderr.write(f"error: the job failed: {reason} ({DEBUG}=1 shows more)\n")
        return FAILED
    return OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m spark_jobs", description="Batch jobs over the metrics that a Sluice broker exports."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    report = commands.add_parser(
        "report",
        help="make the fairness report",
        description="Make the fairness report: OUT/report.html, summary.json and tables/ (Parquet and CSV).",
    )
    report.add_argument(
        "--metrics", type=Path, required=True, metavar="DIR", help="folder the broker exports to"
    )
    report.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="where the report goes; made if missing"
    )
    report.add_argument(
        "--from", dest="start", metavar="TIME", help="from this interval end on, ISO 8601; UTC if no offset"
    )
    report.add_argument("--to", dest="end", metavar="TIME", help="up to, not including, this interval end")
    report.add_argument(
        "--master", metavar="URL", help="Spark master; default: local[*], under spark-submit its own"
    )
    report.add_argument(
        "--window", default=AUTO, metavar="LENGTH", help="length of a window: 30s, 1m, 1h; default: auto"
    )
    report.add_argument(
        "--label", metavar="NAME", help="name of the run in the report; default: the folder's name"
    )
    report.add_argument("--compare", type=Path, metavar="DIR", help="a baseline to put beside it")
    report.add_argument("--compare-label", metavar="NAME", help="name of the baseline")
    report.add_argument("--quiet", action="store_true", help="no progress lines")
    bundle = commands.add_parser(
        "bundle",
        help="pack this package for spark-submit",
        description="Write OUT/spark_jobs.zip (for --py-files) and OUT/sluice_report.py (the main file).",
    )
    bundle.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the two files go")
    return parser


def _options(parsed: argparse.Namespace) -> Options:
    start, end = _time("--from", parsed.start), _time("--to", parsed.end)
    if start is not None and end is not None and start >= end:
        raise ReportError(
            f"--from {parsed.start} --to {parsed.end}: the range is empty; --from must be before --to"
        )
    if parsed.compare is None and parsed.compare_label is not None:
        raise ReportError("--compare-label: names the baseline, so it needs --compare DIR")
    first = Source(parsed.metrics, parsed.label or _name_of(parsed.metrics))
    sources = [first]
    if parsed.compare is not None:
        label = parsed.compare_label or _name_of(parsed.compare)
        if label == first.label:
            label = f"{label} (baseline)"
        sources = [Source(parsed.compare, label), first]
    return Options(tuple(sources), parsed.out, start, end, parsed.master, parse_window(parsed.window))


def _name_of(folder: Path) -> str:
    return folder.absolute().name or str(folder)


def _time(option: str, text: str | None) -> datetime | None:
    """A date or time in ISO 8601; without an offset it is UTC."""
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        example = "2026-11-21, 2026-11-21T14:30 or 2026-11-21T14:30:00+01:00"
        raise ReportError(
            f"{option} {text}: is no date or time in ISO 8601; right would be {example}"
        ) from None
    return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)


def _bundle(out: Path) -> int:
    from spark_jobs.bundle import write_bundle

    try:
        for path in write_bundle(out):
            sys.stdout.write(f"{path}\n")
    except OSError as error:
        raise ReportError(f"--out {out}: cannot be written to: {error.strerror or error}") from error
    return OK
