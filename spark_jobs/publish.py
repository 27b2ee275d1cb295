"""Writes the files of a report: tables, page, summary, and for two runs a picture."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from spark_jobs.measures.files import FOLDER, TABLES, encoded
from spark_jobs.measures.result import Result
from spark_jobs.measures.summary import summary
from spark_jobs.openmetrics import open_metrics
from spark_jobs.page import render
from spark_jobs.page.findings import findings
from spark_jobs.page.picture import compared
from spark_jobs.page.verdict import headline, sentences
from spark_jobs.storage import Storage, StorageError
from spark_jobs.thresholds import Checked

PAGE: Final = "report.html"
SUMMARY: Final = "summary.json"
PICTURE: Final = "compare.svg"
METRICS: Final = "metrics.prom"
_PROBE: Final = ".writable"


@contextmanager
def writable(out: Storage) -> Iterator[None]:
    """Make the folder and write to it, before the job starts; if the job fails, a new folder without files is removed.

    Raises:
        StorageError: it cannot be written to.
    """
    is_new = not out.exists()
    out.write(_PROBE, b"")
    out.remove(_PROBE)
    try:
        yield
    except BaseException:
        with suppress(StorageError):
            if is_new and not out.folders() and not any(out.files()):
                out.remove("")
        raise


def publish(results: Sequence[Result], out: Storage, checked: Sequence[Checked] = ()) -> dict[str, Any]:
    """Write tables/, summary.json, metrics.prom, report.html and, for two runs, compare.svg, each atomically.

    The page is written last, because it links to the tables; an earlier one is removed first, so that a report of which
    a part cannot be written is not complete.

    Returns:
        The content of summary.json.

    Raises:
        StorageError: a file cannot be written; the earlier one is kept, except the page.
    """
    out.remove(PAGE)
    written = set()
    for name, data in encoded(results):
        out.write(name, data)
        written.add(name)
    stale = {f"{FOLDER}/{name}.{form}" for name in TABLES for form in ("parquet", "csv")} - written
    for name in sorted(stale if len(results) > 1 else stale | {PICTURE}):  # from an earlier report
        out.remove(name)
    found = [finding.to_json() for finding in findings(results[-1])]
    told = summary(results, headline(results), sentences(results), found, [each.to_json() for each in checked])
    out.write(SUMMARY, (json.dumps(told, indent=1, ensure_ascii=False) + "\n").encode())
    out.write(METRICS, open_metrics(results, checked).encode())
    if len(results) > 1:
        out.write(PICTURE, compared(results).encode())
    out.write(PAGE, render(results).encode())
    return told
