"""Command line: `python -m spark_jobs report ...`, `... compact ...`, `... index ...` and `... bundle ...`.

On a cluster spark-submit runs the same job; the driver needs pyarrow, deltalake and jinja2; Sluice need not be there:

    python -m spark_jobs bundle --out jobs/
    spark-submit --master ... --py-files jobs/spark_jobs.zip jobs/sluice_report.py --metrics DIR --out DIR

or, from a copy of this package, `spark-submit --master ... spark_jobs/report.py --metrics DIR --out DIR`.

Exit code 0: done. 3: done, but a limit is missed (`report --thresholds`), also if the webhook fails then. 2: an option,
the input, the output folder or the machine cannot be used, or the webhook failed after the report was made; stderr says
why. 1: the job failed for another reason. 130: interrupted.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Final

from spark_jobs.compaction.command import add_options
from spark_jobs.errors import ReportError, was_interrupted
from spark_jobs.formats import counted, in_zone
from spark_jobs.job import make_report
from spark_jobs.progress import Progress
from spark_jobs.report_options import add_report, report_options, zone_of
from spark_jobs.spark import DEBUG

OK: Final = 0
FAILED: Final = 1
WRONG_INPUT: Final = 2
BEYOND_LIMITS: Final = 3
INTERRUPTED: Final = 130

FOLDER_OPTIONS: Final = ("metrics", "store", "compare", "out", "reports")
"""Options whose value is a folder."""


def main(arguments: Sequence[str] | None = None, program: str = "python -m spark_jobs") -> int:
    """Run the command line; `program` is its name in help texts. Returns the exit code."""
    parser = _parser(program)
    parsed = parser.parse_args(arguments)
    progress = Progress(quiet=getattr(parsed, "quiet", True) or parsed.command != "report", command=parsed.command)
    try:
        _require_folders(parsed)
        return _COMMANDS[parsed.command](parsed, progress)
    except ReportError as error:
        sys.stderr.write(f"error: {error}\n")
        return WRONG_INPUT
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return INTERRUPTED
    except Exception as error:  # Spark's errors have no common base class
        if was_interrupted(error):
            sys.stderr.write("interrupted\n")
            return INTERRUPTED
        if os.environ.get(DEBUG):
            raise
        lines = [line for line in str(error).splitlines() if line.strip()]
        reason = "; ".join(lines[:3]) or type(error).__name__
        sys.stderr.write(f"error: the job failed: {reason} ({DEBUG}=1 shows more)\n")
        return FAILED


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program, description="Batch jobs over the metrics that a Sluice broker exports."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_report(commands)
    compact = commands.add_parser(
        "compact",
        help="update a store of compacted hours",
        description="Compact raw metrics: one row per session and hour. Only new files are read.",
    )
    add_options(compact)
    index = commands.add_parser(
        "index",
        help="make an index of many reports",
        description="Write REPORTS/index.html: trends, and a row for each REPORTS/NAME/summary.json.",
    )
    index.add_argument("--reports", required=True, metavar="DIR", help="folder of the reports' folders")
    index.add_argument("--timezone", default="UTC", metavar="NAME", help="of the page's times: Europe/Berlin")
    bundle = commands.add_parser(
        "bundle",
        help="pack this package for spark-submit",
        description="Write OUT/spark_jobs.zip (for --py-files) and OUT/sluice_report.py (the main file).",
    )
    bundle.add_argument("--out", required=True, metavar="DIR", help="folder of the two files")
    return parser


def _require_folders(parsed: argparse.Namespace) -> None:
    """Raise ReportError for an empty folder, as from an unset variable: it does not mean the current one."""
    for option in FOLDER_OPTIONS:
        folder = getattr(parsed, option, None)
        if folder is not None and not folder.strip():
            raise ReportError(f"--{option} '{folder}': is empty; expected a path or URI (. is the current folder)")


def _report(parsed: argparse.Namespace, progress: Progress) -> int:
    return OK if make_report(report_options(parsed), progress) else BEYOND_LIMITS


def _compact(parsed: argparse.Namespace, _: Progress) -> int:
    from spark_jobs.compaction import command

    sys.stdout.write(f"{command.run(parsed)}\n")
    return OK


def _index(parsed: argparse.Namespace, progress: Progress) -> int:
    from spark_jobs.index import make_index

    with in_zone(zone_of(parsed.timezone)):
        number = make_index(parsed.reports, progress)
    sys.stdout.write(f"{parsed.reports.rstrip('/')}/index.html: {counted(number, 'report')}\n")
    return OK


def _bundle(parsed: argparse.Namespace, _: Progress) -> int:
    from spark_jobs.bundle import write_bundle

    for path in write_bundle(parsed.out):
        sys.stdout.write(f"{path}\n")
    return OK


_COMMANDS: Final = {"report": _report, "compact": _compact, "index": _index, "bundle": _bundle}
