"""Writes the files of a report: tables, page, summary, and for two runs a picture."""

import json
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final

from spark_jobs import parquet
from spark_jobs.measures.files import CSV_OPTIONS, FOLDER, encoded, safe_text
from spark_jobs.measures.layout import LAYOUTS, STARVED_SESSIONS
from spark_jobs.measures.result import Result
from spark_jobs.measures.sessions import KEY
from spark_jobs.measures.summary import summary
from spark_jobs.page import render
from spark_jobs.page.picture import compared
from spark_jobs.page.verdict import headline, sentences
from spark_jobs.spark import cached
from spark_jobs.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PAGE: Final = "report.html"
SUMMARY: Final = "summary.json"
PICTURE: Final = "compare.svg"
_STARVED: Final = "starved_sessions"
_PROBE: Final = ".writable"


def check_writable(out: Storage) -> None:
    """Make the folder and write to it, before the job starts.

    Raises:
        StorageError: that failed.
    """
    out.write(_PROBE, b"")
    out.remove(_PROBE)


def publish(results: Sequence[Result], out: Storage) -> None:
    """Write tables/, summary.json, report.html and, for two runs, compare.svg, each atomically.

    The page is written last, because it links to the tables.

    Raises:
        StorageError: a file cannot be written; the earlier one is kept.
    """
    written = set()
    for name, data in encoded(results):
        out.write(name, data)
        written.add(name)
    _write_starved([result.starved_sessions for result in results if result.starved_sessions is not None], out)
    stale = {f"{FOLDER}/{name}.{form}" for name in LAYOUTS for form in ("parquet", "csv")} - written
    for name in sorted(stale if len(results) > 1 else stale | {PICTURE}):  # from an earlier report
        out.remove(name)
    told = summary(results, headline(results), sentences(results))
    out.write(SUMMARY, (json.dumps(told, indent=1, ensure_ascii=False) + "\n").encode())
    if len(results) > 1:
        out.write(PICTURE, compared(results).encode())
    out.write(PAGE, render(results).encode())


def _write_starved(frames: "Sequence[DataFrame]", out: Storage) -> None:
    """Write the one table whose size depends on the number of sessions, with Spark, as Parquet and as CSV."""
    if not frames:
        return
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F  # noqa: N812  # its usual name

    texts = [name for name, kind in STARVED_SESSIONS.columns if kind == "text"]
    together = reduce(DataFrame.unionByName, frames).repartition(1)
    rows = together.sortWithinPartitions("run", F.desc("longest_us"), *KEY).persist()
    beside = f"{FOLDER}/_{_STARVED}"
    with cached(rows):
        try:
            rows.write.mode("overwrite").options(**parquet.OPTIONS).parquet(out.uri_of(beside, "parquet"))
            as_text = rows.withColumns({name: safe_text(F.col(name)) for name in texts})
            as_text.write.mode("overwrite").options(**CSV_OPTIONS).csv(out.uri_of(beside, "csv"))
            for form in ("parquet", "csv"):
                (part,) = [
                    entry.name
                    for entry in out.files(f"{beside}/{form}")
                    if entry.name.rpartition("/")[2].startswith("part-")
                ]
                out.remove(f"{FOLDER}/{_STARVED}.{form}")
                out.rename(part, f"{FOLDER}/{_STARVED}.{form}")
        finally:
            out.remove(beside)
