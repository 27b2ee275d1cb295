"""The command `compact`: its options."""

import argparse
import re
import time
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from spark_jobs.compaction.slots import parse_slot
from spark_jobs.errors import ReportError
from spark_jobs.progress import Progress
from spark_jobs.spark import MASTER

if TYPE_CHECKING:
    from spark_jobs.compaction.compact import Options

_HOUR_US: Final = 3_600_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EXAMPLES: Final = "2026-11-21, 2026-11-21T14:30 or 2026-11-21T14:30:00+01:00"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `compact` to a parser."""
    parser.add_argument("--metrics", metavar="URI", help="folder of exported metrics: a path or URI")
    parser.add_argument("--store", required=True, metavar="URI", help="folder of the store; created if missing")
    parser.add_argument(
        "--slot",
        metavar="LENGTH",
        help="resolution of the timeline, a part of an hour: 10s, 1m; default: the store's, for a new one the metrics'",
    )
    parser.add_argument("--from", dest="start", metavar="TIME", help="start of the range, ISO 8601; only these hours")
    parser.add_argument("--to", dest="end", metavar="TIME", help="end of the range")
    parser.add_argument(
        "--rebuild", action="store_true", help="build the hours of the range again from their raw files"
    )
    parser.add_argument(
        "--accept-loss", action="store_true", help="with --rebuild: also hours of which raw files are no longer there"
    )
    parser.add_argument(
        "--keep", metavar="LENGTH", help="then drop the hours that are older: 90d, 2160h; default: all are kept"
    )
    parser.add_argument(
        "--drop", action="store_true", help="only drop the hours from --from to --to, without --metrics"
    )
    parser.add_argument(
        "--forget",
        metavar="CLIENT",
        help="only erase this client id from all hours and all versions, without --metrics; its rows up to now are "
        "never taken in again",
    )
    parser.add_argument("--master", metavar="URL", help=MASTER)
    parser.add_argument("--quiet", action="store_true", help="no progress lines, only the summary")


def run(parsed: argparse.Namespace, settings: Mapping[str, str] | None = None) -> str:
    """Run the command; `settings` are Spark settings that override the built-in ones. Returns the result in one line.

    Raises:
        ReportError: the options, the input, the store or the machine cannot be used.
    """
    from spark_jobs import spark

    spark.require_packages()
    from spark_jobs.compaction import erasure
    from spark_jobs.compaction.compact import compact

    progress = Progress(quiet=parsed.quiet, command="compact")
    if parsed.forget is not None:
        _require_only(parsed, "--forget", ())
        return erasure.forget(parsed.store, _client(parsed.forget), progress).summary(parsed.store)
    if parsed.drop:
        _require_only(parsed, "--drop", ("start", "end"))
        return erasure.drop(parsed.store, *_whole_hours(parsed), progress).summary(parsed.store)
    options = _options(parsed)
    with spark.beside(parsed.master, progress, settings) as spark_of:
        return compact(options, spark_of, progress).summary(parsed.store)


def _require_only(parsed: argparse.Namespace, option: str, used: Collection[str]) -> None:
    """Raise ReportError if there is an option that this one does not use."""
    for name in ("metrics", "slot", "start", "end", "rebuild", "accept_loss", "keep", "drop", "master"):
        if name not in used and f"--{name}" != option and getattr(parsed, name) not in (None, False):
            other = {"start": "from", "end": "to"}.get(name, name.replace("_", "-"))
            raise ReportError(f"{option}: does nothing else, and reads no metrics; leave --{other} out")


def _client(text: str) -> str:
    from spark_jobs.compaction.footers import is_text

    if not text:
        raise ReportError("--forget '': is empty; expected a client id")
    if not is_text(text):
        raise ReportError("--forget: has bytes that are not UTF-8; expected text in UTF-8")
    return text


def _whole_hours(parsed: argparse.Namespace) -> tuple[int, int]:
    start, end = _range(parsed)
    if start is None or end is None:
        raise ReportError("--drop: needs --from and --to: which hours?")
    for option, text, moment in (("--from", parsed.start, start), ("--to", parsed.end, end)):
        if moment % _HOUR_US:
            raise ReportError(f"{option} {text}: is within an hour; --drop drops whole hours: 2026-11-21T14:00")
    return start, end


def _keep_from(text: str) -> int:
    """The start of the first hour that is not older than a length of time."""
    match = re.fullmatch(r"([1-9]\d{0,5})([hd])", text)
    if match is None:
        raise ReportError(f"--keep {text}: expected a whole number with h or d, such as 2160h or 90d")
    kept = int(match[1]) * _HOUR_US * (24 if match[2] == "d" else 1)
    return max(0, int(time.time() * 1_000_000) - kept) // _HOUR_US * _HOUR_US


def _options(parsed: argparse.Namespace) -> "Options":
    from spark_jobs.compaction.compact import Options

    if parsed.metrics is None:
        raise ReportError("--metrics: is missing; expected the folder of the broker's metrics (or --drop, or --forget)")
    start, end = _range(parsed)
    if parsed.accept_loss and not parsed.rebuild:
        raise ReportError("--accept-loss: needs --rebuild; without it nothing is lost")
    slot = parse_slot(parsed.slot) if parsed.slot else None
    keep_from = _keep_from(parsed.keep) if parsed.keep is not None else None
    return Options(
        parsed.metrics,
        parsed.store,
        slot,
        start,
        end,
        parsed.rebuild,
        parsed.accept_loss,
        keep_from,
    )


def _range(parsed: argparse.Namespace) -> tuple[int | None, int | None]:
    start, end = micros("--from", parsed.start), micros("--to", parsed.end)
    if start is not None and end is not None and start >= end:
        raise ReportError(f"--from {parsed.start} --to {parsed.end}: the range is empty; --from must be before --to")
    return start, end


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
