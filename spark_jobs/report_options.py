"""The options of `report`: what a user may write, and what it comes to."""

import argparse
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from spark_jobs.comparison.selection import Baseline, parse_baseline, time_of
from spark_jobs.errors import ReportError
from spark_jobs.windows import AUTO, parse_window

if TYPE_CHECKING:
    from spark_jobs.job import Options, Source

_DESCRIPTION: Final = """\
Make the fairness report: OUT/report.html, summary.json and tables/ (Parquet and CSV).

It is made from compacted hours (--store, see `compact`); with --metrics instead, straight from the exporter's files,
which are compacted for this report alone. Every folder may be an address of Hadoop: /data, hdfs://..., s3a://...

A baseline is words joined by commas, and what they do not name is as of the run itself:
  --baseline 2026-11-01..2026-11-08     an earlier week of the same store, such as before an update of the broker
  --baseline broker=eu-1                another broker
  --baseline store=/data/old            another store; metrics=DIR for the exporter's files
"""


def add_report(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    report = commands.add_parser(
        "report",
        help="make the fairness report",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    source = report.add_mutually_exclusive_group(required=True)
    source.add_argument("--store", metavar="URI", help="folder of the compacted hours")
    source.add_argument("--metrics", metavar="URI", help="folder the broker exports to, instead of --store")
    report.add_argument("--out", required=True, metavar="URI", help="where the report goes; made if missing")
    report.add_argument(
        "--from", dest="start", metavar="TIME", help="from this hour on, ISO 8601; UTC if no offset"
    )
    report.add_argument("--to", dest="end", metavar="TIME", help="up to this time; hours are reported on as wholes")
    report.add_argument("--broker", metavar="NAME", help="only this broker's sessions")
    report.add_argument("--label", metavar="NAME", help="name of the run in the report; default: the folder's name")
    report.add_argument("--baseline", metavar="SELECTION", help="what to put beside it, see above")
    report.add_argument("--baseline-label", metavar="NAME", help="name of the baseline in the report")
    report.add_argument("--compare", metavar="DIR", help="short for --baseline metrics=DIR")
    report.add_argument("--compare-label", dest="baseline_label", metavar="NAME", help=argparse.SUPPRESS)
    report.add_argument(
        "--window",
        default=AUTO,
        metavar="LENGTH",
        help="length of a window of the timeline: 30s, 1h; default: auto",
    )
    report.add_argument(
        "--starved-after",
        type=int,
        default=None,
        metavar="N",
        help="intervals in a row without a delivery that make a session starved; default: 3",
    )
    report.add_argument("--master", metavar="URL", help="Spark master; default: local[*], under spark-submit its own")
    report.add_argument("--quiet", action="store_true", help="no progress lines")


def report_options(parsed: argparse.Namespace) -> "Options":
    """What the options come to.

    Raises:
        ReportError: one of them will not do; the message says what would.
    """
    from spark_jobs.job import STARVED_AFTER, Options, Source

    start, end = time_of("--from", parsed.start or ""), time_of("--to", parsed.end or "")
    if start is not None and end is not None and start >= end:
        raise ReportError(f"--from {parsed.start} --to {parsed.end}: the range is empty; --from must be before --to")
    if parsed.compare is not None and parsed.baseline is not None:
        raise ReportError("--compare: is short for --baseline metrics=DIR; give one of the two")
    words = f"metrics={parsed.compare}" if parsed.compare is not None else parsed.baseline
    if words is None and parsed.baseline_label is not None:
        raise ReportError("--baseline-label: names the baseline, so it needs --baseline or --compare")
    starved_after = STARVED_AFTER if parsed.starved_after is None else parsed.starved_after
    if starved_after < 1:
        raise ReportError(f"--starved-after {starved_after}: must be a whole number from 1 on")
    label = parsed.label or parsed.broker or _name_of(parsed.store or parsed.metrics)
    run = Source(label, parsed.store, parsed.metrics, start, end, parsed.broker)
    sources = (run,) if words is None else (_baseline(words, parsed.baseline_label, run), run)
    return Options(sources, parsed.out, parsed.master, parse_window(parsed.window), starved_after)


def _baseline(words: str, label: str | None, run: "Source") -> "Source":
    from spark_jobs.job import Source

    named = parse_baseline(words)
    elsewhere = named.store is not None or named.metrics is not None
    source = Source(
        label or _default_label(named, words),
        named.store if elsewhere else run.store,
        named.metrics if elsewhere else run.metrics,
        named.start if named.ranged else run.start,
        named.end if named.ranged else run.end,
        named.broker or run.broker,
    )
    if replace(source, label=run.label) == run:
        raise ReportError(f"--baseline {words}: is the run itself; name another range, broker, store or metrics folder")
    return source if source.label != run.label else replace(source, label=f"{source.label} (baseline)")


def _default_label(named: Baseline, words: str) -> str:
    if named.broker is not None and not named.ranged:
        return named.broker
    if named.ranged:
        return words
    return _name_of(named.store or named.metrics or words)


def _name_of(address: str) -> str:
    """A folder's name by its address; of a folder such as `.`, its real one."""
    name = PurePosixPath(address).name
    if name in ("", ".", ".."):
        name = Path(address).absolute().resolve().name
    return name or address
