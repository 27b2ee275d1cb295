"""The options of `report`."""

import argparse
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from spark_jobs.comparison.selection import EXAMPLES, Baseline, parse_baseline, time_of
from spark_jobs.errors import ReportError
from spark_jobs.webhook import require_url
from spark_jobs.windows import AUTO, parse_window

if TYPE_CHECKING:
    from spark_jobs.job import Options, Source

LONGEST_KEY: Final = 64  # bytes, of BLAKE2's key
MOST_INTERVALS: Final = 1_000_000
_TEXTS: Final = ("broker", "client", "timezone", "label", "baseline", "baseline_label", "hash_ids")
"""Options that appear in the report, or are compared with what does."""
_DESCRIPTION: Final = """\
Make the fairness report: OUT/report.html, summary.json and tables/ (Parquet and CSV).

Its input are compacted hours (--store, see `compact`), or the exporter's files (--metrics), which are compacted for
this report only. Every folder may be a path or a URI: /data, hdfs://..., s3a://...

A baseline is a list of parts separated by commas; what it does not name is the same as for the run itself:
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
    report.add_argument(
        "--store-version",
        type=int,
        metavar="N",
        help="the store as it was in this version, `store_version` of summary.json; kept for a day; default: newest",
    )
    report.add_argument("--out", required=True, metavar="URI", help="folder of the report; created if missing")
    report.add_argument(
        "--from", dest="start", metavar="TIME", help="start of the range, ISO 8601; without an offset in --timezone"
    )
    report.add_argument("--to", dest="end", metavar="TIME", help="end of the range; extended to whole hours")
    report.add_argument("--broker", metavar="NAME", help="only this broker's sessions")
    report.add_argument(
        "--client",
        metavar="ID",
        help="add everything about one client, hour by hour; --client=-ID if it begins with a dash",
    )
    report.add_argument(
        "--timezone", default="UTC", metavar="NAME", help="of the page's times, and of --from and --to: Europe/Berlin"
    )
    report.add_argument("--label", metavar="NAME", help="name of the run in the report; default: the folder's name")
    report.add_argument("--baseline", metavar="SELECTION", help="what to compare with, see above")
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
        help="a session is starved after N intervals in a row without a delivery; default: 3",
    )
    report.add_argument(
        "--thresholds", metavar="FILE", help="TOML file of limits for measures; exit status 3 if one is missed"
    )
    _add_hash_key(report)
    report.add_argument(
        "--webhook", metavar="URL", help="POST the findings to it as JSON when the report is complete"
    )
    report.add_argument("--master", metavar="URL", help="Spark master; default: local[*], under spark-submit its own")
    report.add_argument("--quiet", action="store_true", help="no progress lines")


def _add_hash_key(report: argparse.ArgumentParser) -> None:
    key = report.add_mutually_exclusive_group()
    key.add_argument(
        "--hash-ids", metavar="KEY", help="show digests by this key instead of client ids, the same for the same key"
    )
    key.add_argument(
        "--hash-ids-file", metavar="FILE", help="the same; the key is the file's text: it is in no list of processes"
    )


def report_options(parsed: argparse.Namespace) -> "Options":
    """Parse the options.

    Raises:
        ReportError: one of them is invalid; the message says what was expected.
    """
    from spark_jobs.job import STARVED_AFTER, Options, Source

    _require_text(parsed)
    zone = zone_of(parsed.timezone)
    start, end = _time("--from", parsed.start, zone), _time("--to", parsed.end, zone)
    if start is not None and end is not None and start >= end:
        raise ReportError(f"--from {parsed.start} --to {parsed.end}: the range is empty; --from must be before --to")
    if parsed.compare is not None and parsed.baseline is not None:
        raise ReportError("--compare: is short for --baseline metrics=DIR; use one of the two")
    baseline = f"metrics={parsed.compare}" if parsed.compare is not None else parsed.baseline
    if baseline is None and parsed.baseline_label is not None:
        raise ReportError("--baseline-label: needs --baseline or --compare")
    starved_after = STARVED_AFTER if parsed.starved_after is None else parsed.starved_after
    if not 1 <= starved_after <= MOST_INTERVALS:
        raise ReportError(f"--starved-after {starved_after}: expected a whole number from 1 to {MOST_INTERVALS:,}")
    hash_key = _hash_key(parsed)
    if parsed.webhook is not None:
        require_url(parsed.webhook)
    label = parsed.label or parsed.broker or _name_of(parsed.store or parsed.metrics)
    version: int | None = parsed.store_version
    if version is not None and (not 0 <= version < 1 << 63 or parsed.store is None):
        raise ReportError(f"--store-version {version}: expected a version of --store, 0 or higher")
    run = Source(label, parsed.store, parsed.metrics, start, end, parsed.broker, version)
    sources = (run,) if baseline is None else (_baseline(baseline, parsed.baseline_label, run, zone), run)
    window = parse_window(parsed.window)
    return Options(
        sources,
        parsed.out,
        parsed.master,
        window,
        starved_after,
        thresholds=parsed.thresholds,
        hash_key=hash_key,
        client=parsed.client,
        zone=zone,
        webhook=parsed.webhook,
    )


def _hash_key(parsed: argparse.Namespace) -> str | None:
    """The key of digests of client ids; None: they are shown."""
    option = "--hash-ids"
    key: str | None = parsed.hash_ids
    if (file := parsed.hash_ids_file) is not None:
        option = f"--hash-ids-file {file}"
        try:
            key = Path(file).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise ReportError(f"{option}: cannot be read: {error.strerror}") from error
        except UnicodeDecodeError:
            raise ReportError(f"{option}: has bytes that are not UTF-8; expected text in UTF-8") from None
    if key is not None and not 0 < len(key.encode()) <= LONGEST_KEY:
        raise ReportError(f"{option}: the key has {len(key.encode())} bytes; expected 1 to {LONGEST_KEY}")
    return key


def _require_text(parsed: argparse.Namespace) -> None:
    """Raise ReportError for a value with bytes that are not UTF-8, which no client id and no report has."""
    for name in _TEXTS:
        value = getattr(parsed, name)
        try:
            if value is not None:
                value.encode()
        except UnicodeEncodeError:
            option = name.replace("_", "-")
            raise ReportError(f"--{option}: has bytes that are not UTF-8; expected text in UTF-8") from None


def _time(option: str, text: str | None, zone: tzinfo) -> datetime | None:
    """The time of an option; an empty text, as from an unset variable, does not mean everything."""
    if text is None:
        return None
    if not text.strip():
        raise ReportError(f"{option} '{text}': is empty; expected {EXAMPLES}")
    return time_of(option, text, zone)


def zone_of(name: str) -> tzinfo:
    """The time zone of `--timezone`.

    Raises:
        ReportError: it is not known.
    """
    if name == str(UTC):
        return UTC
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, ZoneInfoNotFoundError):
        raise ReportError(f"--timezone {name}: is not known; expected a name such as Europe/Berlin, or UTC") from None


def _baseline(text: str, label: str | None, run: "Source", zone: tzinfo) -> "Source":
    from spark_jobs.job import Source

    named = parse_baseline(text, zone)
    elsewhere = named.store is not None or named.metrics is not None
    source = Source(
        label or _default_label(named, text),
        named.store if elsewhere else run.store,
        named.metrics if elsewhere else run.metrics,
        named.start if named.ranged else run.start,
        named.end if named.ranged else run.end,
        named.broker or run.broker,
        None if elsewhere else run.version,
    )
    if replace(source, label=run.label) == run:
        raise ReportError(f"--baseline {text}: is the run itself; name another range, broker, store or metrics folder")
    return source if source.label != run.label else replace(source, label=f"{source.label} (baseline)")


def _default_label(named: Baseline, text: str) -> str:
    if named.broker is not None and not named.ranged:
        return named.broker
    if named.ranged:
        return text
    return _name_of(named.store or named.metrics or text)


def _name_of(uri: str) -> str:
    """The name of a folder; for a path such as `.`, the real one."""
    name = PurePosixPath(uri).name
    if name in ("", ".", ".."):
        name = Path(uri).absolute().resolve().name
    return (name or uri).encode(errors="backslashreplace").decode()  # bytes of a path may be no text
