"""The command `compact`: its options."""

import argparse
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from spark_jobs.compaction.slots import DEFAULT, parse_slot
from spark_jobs.errors import ReportError
from spark_jobs.progress import Progress
from spark_jobs.spark import MASTER

if TYPE_CHECKING:
    from spark_jobs.compaction.compact import Compacted, Options

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EXAMPLES: Final = "2026-11-21, 2026-11-21T14:30 or 2026-11-21T14:30:00+01:00"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `compact` to a parser."""
    parser.add_argument("--metrics", required=True, metavar="URI", help="folder of exported metrics: a path or URI")
    parser.add_argument("--store", required=True, metavar="URI", help="folder of the store; created if missing")
    parser.add_argument(
        "--slot",
        metavar="LENGTH",
        help=f"resolution of the timeline, a part of an hour: 10s, 1m; default: the store's, {DEFAULT} for a new one",
    )
    parser.add_argument("--from", dest="start", metavar="TIME", help="start of the range, ISO 8601; only these hours")
    parser.add_argument("--to", dest="end", metavar="TIME", help="end of the range")
    parser.add_argument(
        "--rebuild", action="store_true", help="build the hours of the range again from their raw files"
    )
    parser.add_argument(
        "--accept-loss", action="store_true", help="with --rebuild: also hours of which raw files are no longer there"
    )
    parser.add_argument("--master", metavar="URL", help=MASTER)
    parser.add_argument("--quiet", action="store_true", help="no progress lines, only the summary")


def run(parsed: argparse.Namespace, settings: Mapping[str, str] | None = None) -> "Compacted":
    """Run the command; `settings` are Spark settings that override the built-in ones.

    Raises:
        ReportError: the options, the input, the store or the machine cannot be used.
    """
    from spark_jobs import spark

    spark.require_packages()
    from spark_jobs.compaction.compact import compact

    options = _options(parsed)
    progress = Progress(quiet=parsed.quiet, command="compact")
    with spark.on_demand(parsed.master, progress, settings) as spark_of:
        return compact(options, spark_of, progress)


def _options(parsed: argparse.Namespace) -> "Options":
    from spark_jobs.compaction.compact import Options

    start, end = micros("--from", parsed.start), micros("--to", parsed.end)
    if start is not None and end is not None and start >= end:
        raise ReportError(f"--from {parsed.start} --to {parsed.end}: the range is empty; --from must be before --to")
    if parsed.accept_loss and not parsed.rebuild:
        raise ReportError("--accept-loss: needs --rebuild; without it nothing is lost")
    slot = parse_slot(parsed.slot) if parsed.slot else None
    return Options(
        parsed.metrics, parsed.store, slot, start, end, parse_slot(DEFAULT), parsed.rebuild, parsed.accept_loss
    )


def micros(option: str, text: str | None) -> int | None:
    """Parse a date or time in ISO 8601 into microseconds since 1970; without an offset it is UTC.

    Raises:
        ReportError: the text is invalid.
    """
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
        time = time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError):  # in UTC it may be before the year 1
        raise ReportError(f"{option} {text}: is not a date or time in ISO 8601; expected {_EXAMPLES}") from None
    return (time - _EPOCH) // timedelta(microseconds=1)
