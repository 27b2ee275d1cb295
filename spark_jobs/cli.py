"""Command line: `python -m spark_jobs report ...`, `... compact ...` and `... bundle ...`.

On a cluster, the same job runs by spark-submit; the driver needs pyarrow, nothing of Sluice needs to be
installed anywhere:

    python -m spark_jobs bundle --out jobs/
    spark-submit --master ... --py-files jobs/spark_jobs.zip jobs/sluice_report.py --metrics DIR --out DIR

or, from a copy of this package, `spark-submit --master ... spark_jobs/report.py --metrics DIR --out DIR`.

Exit code 0: it is done. 2: the input, the output folder or the machine will not do, and stderr says
what would. 1: the job failed for a reason that this program does not know. 130: interrupted.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Final

from spark_jobs.compaction.command import add_options
from spark_jobs.errors import ReportError, was_interrupted
from spark_jobs.job import make_report
from spark_jobs.progress import Progress
from spark_jobs.report_options import add_report, report_options
from spark_jobs.spark import DEBUG

OK: Final = 0
FAILED: Final = 1
WRONG_INPUT: Final = 2
INTERRUPTED: Final = 130

ADDRESSES: Final = ("metrics", "store", "compare", "out")
"""Options that name a folder."""


def main(arguments: Sequence[str] | None = None, program: str = "python -m spark_jobs") -> int:
    """Run the command line, of which `program` is what was typed to get here; returns the exit code."""
    parser = _parser(program)
    parsed = parser.parse_args(arguments)
    progress = Progress(quiet=parsed.quiet if parsed.command == "report" else True)
    try:
        _require_addresses(parsed)
        if parsed.command == "bundle":
            return _bundle(parsed.out)
        if parsed.command == "compact":
            return _compact(parsed)
        make_report(report_options(parsed), progress)
    except ReportError as error:
        sys.stderr.write(f"error: {error}\n")
        return WRONG_INPUT
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return INTERRUPTED
    except Exception as error:  # the last line of defence: Spark's own errors have no common class
        if was_interrupted(error):
            sys.stderr.write("interrupted\n")
            return INTERRUPTED
        if os.environ.get(DEBUG):
            raise
        lines = [line for line in str(error).splitlines() if line.strip()]
        reason = "; ".join(lines[:3]) or type(error).__name__
        sys.stderr.write(f"error: the job failed: {reason} ({DEBUG}=1 shows more)\n")
        return FAILED
    return OK


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program, description="Batch jobs over the metrics that a Sluice broker exports."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_report(commands)
    compact = commands.add_parser(
        "compact",
        help="bring a store of compacted hours up to date",
        description="Compact raw metrics: one row per session and hour. Only what is new is read.",
    )
    add_options(compact)
    bundle = commands.add_parser(
        "bundle",
        help="pack this package for spark-submit",
        description="Write OUT/spark_jobs.zip (for --py-files) and OUT/sluice_report.py (the main file).",
    )
    bundle.add_argument("--out", required=True, metavar="DIR", help="where the two files go")
    return parser


def _require_addresses(parsed: argparse.Namespace) -> None:
    """Raise ReportError for a folder without a name, as from a variable that is not set: it is not the current one."""
    for option in ADDRESSES:
        address = getattr(parsed, option, None)
        if address is not None and not address.strip():
            raise ReportError(
                f"--{option} '{address}': names no folder; a path or URI would be right, . for this folder"
            )


def _compact(parsed: argparse.Namespace) -> int:
    from spark_jobs.compaction import command

    done = command.run(parsed)
    sys.stdout.write(f"{done.words(parsed.store)}\n")
    return OK


def _bundle(out: str) -> int:
    from spark_jobs.bundle import write_bundle

    for path in write_bundle(out):
        sys.stdout.write(f"{path}\n")
    return OK
