"""Everything that a report leaves in its folder: tables, page, summary, and for two runs a picture."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from spark_jobs.old_page import render
from spark_jobs.picture import compared
from spark_jobs.run import Run
from spark_jobs.summary import summary
from spark_jobs.tables import write_table, write_whole

PAGE: Final = "report.html"
SUMMARY: Final = "summary.json"
PICTURE: Final = "compare.svg"


def publish(runs: Sequence[Run], out: Path) -> None:
    """Write tables/, report.html, summary.json and, for two runs, compare.svg: each whole or not at all."""
    tables = {name: pa.concat_tables([run.tables[name] for run in runs]) for name in runs[0].tables}
    tables["files"] = pa.concat_tables([_files(run) for run in runs])
    for name, table in tables.items():
        write_table(table, out, name)
    _write(out / PAGE, render(runs, sorted(tables)))
    _write(out / SUMMARY, json.dumps(summary(runs), indent=1, ensure_ascii=False) + "\n")
    if len(runs) > 1:
        _write(out / PICTURE, compared(runs[0], runs[1]))


def _write(path: Path, text: str) -> None:
    # A file name may hold bytes that are no UTF-8; they must not keep the report from being written.
    write_whole(path, lambda beside: beside.write_text(text, encoding="utf-8", errors="backslashreplace"))


def _files(run: Run) -> pa.Table:
    """Which files were read and which skipped, and why."""
    survey = run.survey
    lines: list[tuple[str, str, str, int | None]]
    lines = [(str(file.path.relative_to(survey.root)), "read", "", file.rows) for file in survey.good]
    lines += [
        (str(file.path.relative_to(survey.root)), file.kind, file.reason, None) for file in survey.skipped
    ]
    lines.sort(key=lambda line: line[0])
    path, status, reason, rows = zip(*lines, strict=True)
    return pa.table(
        {
            "run": pa.array([run.label] * len(lines), pa.string()),
            "file": pa.array([name.encode(errors="backslashreplace").decode() for name in path], pa.string()),
            "status": pa.array(status, pa.string()),
            "reason": pa.array(reason, pa.string()),
            "rows": pa.array(rows, pa.int64()),
        }
    )
