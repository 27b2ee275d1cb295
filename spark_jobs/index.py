"""An index of many reports, such as one for each day: what each found, and how the figures have changed.

It reads REPORTS/*/summary.json and writes REPORTS/index.html; the reports themselves are not read.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from math import isfinite
from typing import Any, Final

from spark_jobs import formats
from spark_jobs.errors import ReportError
from spark_jobs.page.index import Entry, render_index
from spark_jobs.progress import Progress
from spark_jobs.publish import PAGE, SUMMARY
from spark_jobs.storage import Storage, StorageError, open_storage

INDEX: Final = "index.html"
FORMAT: Final = 3
"""Of summary.json, the first with grades."""
LONGEST: Final = 1 << 24
"""Bytes of a summary that is read."""
_AGAIN: Final = "make the report again"
_NO_SUMMARY: Final = (
    ReportError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,  # a number or a time beyond what Python or the time zone has
    RecursionError,
)


def make_index(reports: str, progress: Progress) -> int:
    """Write the index of the reports in a folder.

    Returns:
        The number of reports; those that are not complete, or whose summary cannot be shown, are named and left out.

    Raises:
        ReportError: there is no report, or the index cannot be written.
    """
    storage = open_storage(reports)
    entries = sorted(_entries(storage, progress), key=lambda entry: (entry.start, entry.folder))
    if not entries:
        raise ReportError(f"--reports {reports}: no reports; expected {reports}/NAME/{SUMMARY}")
    storage.write(INDEX, render_index(entries).encode())
    return len(entries)


def _entries(storage: Storage, progress: Progress) -> Iterator[Entry]:
    for folder in storage.folders():
        there = [name for name in (SUMMARY, PAGE) if storage.exists(f"{folder}/{name}")]
        if not there:
            continue  # of something else
        for name in {SUMMARY, PAGE}.difference(there):
            progress.warn(f"left out {storage.shown}/{folder}: has no {name}; {_AGAIN}")
        if len(there) == 1:
            continue
        try:
            with storage.open(f"{folder}/{SUMMARY}") as file:
                yield entry_of(folder, json.loads(file.read(LONGEST)))
        except StorageError as error:  # it names the file
            progress.warn(f"left out: {error}")
        except _NO_SUMMARY as error:
            progress.warn(f"left out {storage.shown}/{folder}/{SUMMARY}: {_why(error)}")


def _why(error: Exception) -> str:
    """What is wrong with a summary."""
    match error:
        case ReportError():
            return str(error)
        case json.JSONDecodeError() | UnicodeDecodeError():
            return f"is not JSON in UTF-8 ({error}); {_AGAIN}"
        case KeyError():
            return f"has no {error}; {_AGAIN}"
        case RecursionError():
            return f"is nested too deeply; {_AGAIN}"
        case _:
            return f"has values that `sluice report` does not write; {_AGAIN}"


def entry_of(folder: str, summary: Mapping[str, Any]) -> Entry:
    """The entry of a report by the content of its summary.

    Raises:
        ReportError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError: it is no summary of this
            program.
    """
    if not isinstance(summary["format"], int) or summary["format"] < FORMAT:
        raise ReportError(f"has format {summary['format']!r:.40}; expected {FORMAT} or later: {_AGAIN}")
    run = summary["runs"][-1]
    start, end = (datetime.fromisoformat(run[name]) for name in ("first_interval_start", "last_interval_end"))
    if start.tzinfo is None or end.tzinfo is None:
        raise ReportError(f"has times without an offset; {_AGAIN}")
    for time in (start, end):
        formats.moment(time)  # the time zone may have no such year
    values = {name: None if value is None else float(value) for name, value in _values(run).items()}
    if not all(isfinite(value) for value in (run["clients"], *values.values()) if value is not None):
        raise ReportError(f"has a figure that is not finite; {_AGAIN}")
    return Entry(
        folder,
        start,
        end,
        int(run["clients"]),
        tuple(map(str, run["brokers"])),
        str(summary["grade"] or "note"),
        str(summary["headline"]),
        values,
    )


def _values(run: Mapping[str, Any]) -> dict[str, Any]:
    total, fair = run["totals"]["all"], run["fairness"].get("all", {})
    clients = run["clients"]
    found = {name: total[name] for name in ("delivery_ratio", "dropped_per_second", "sent_per_second")}
    found["jain_delivery_ratio"] = fair.get("jain_delivery_ratio")
    found["starved_share"] = run["starvation"]["clients"] / clients if clients else None
    for name, row in (("ack_qos1_p99", "ack_1_all"), ("ack_qos2_p99", "ack_2_all"), ("wait_qos0_p99", "wait_0_all")):
        found[name] = run["percentiles"].get(row, {}).get("p99")
    return found
