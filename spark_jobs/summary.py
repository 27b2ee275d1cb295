"""The report in numbers for other programs: OUT/summary.json, small, with stable names."""

from collections.abc import Sequence
from typing import Any, Final

from spark_jobs import verdict
from spark_jobs.metrics import SCHEMA
from spark_jobs.run import Run

FORMAT: Final = 1


def summary(runs: Sequence[Run]) -> dict[str, Any]:
    """All runs; `verdict` are the words at the top of the page."""
    one = len(runs) == 1
    return {
        "format": FORMAT,
        "schema": {"name": SCHEMA.name, "version": SCHEMA.version},
        "headline": verdict.headline(runs[0]) if one else verdict.compared_headline(runs[0], runs[1]),
        "verdict": verdict.sentences(runs[0]) if one else verdict.compared_sentences(runs[0], runs[1]),
        "baseline": None if one else runs[0].label,
        "runs": [_run(run) for run in runs],
    }


def _run(run: Run) -> dict[str, Any]:
    books = run.one("books", qos="all")
    return {
        "label": run.label,
        "first_interval_end": run.first.isoformat(),
        "last_interval_end": run.last.isoformat(),
        "window_seconds": run.window_us / 1e6,
        "slot_seconds": run.slot_us / 1e6,
        "rows": run.rows,
        "sessions": run.sessions,
        "files": {
            "read": len(run.survey.good),
            "skipped": len(run.survey.skipped),
            "skipped_by_kind": _kinds(run),
            "out_of_range": run.survey.out_of_range,
            "still_written": run.survey.temporary,
        },
        "books": {"rows": books["rows"], "rows_off": books["rows_off"], "balance": books["rows_off"] == 0},
        "totals": {row["qos"]: _without(row, "run", "qos") for row in run.rows_of("totals")},
        "fairness": {row["qos"]: _without(row, "run", "qos") for row in run.rows_of("fairness")},
        "reasons": [_without(row, "run") for row in run.rows_of("reasons") if row["deliveries"]],
        "percentiles": {
            f"{row['metric']}_{row['qos']}": _without(row, "run", "metric", "qos")
            for row in run.rows_of("percentiles")
            if row["samples"]
        },
        "queues": _without(run.one("queues"), "run"),
        "pressure": {row["scope"]: _without(row, "run", "scope") for row in run.rows_of("pressure")},
    }


def _kinds(run: Run) -> dict[str, int]:
    kinds: dict[str, int] = {}
    for file in run.survey.skipped:
        kinds[file.kind] = kinds.get(file.kind, 0) + 1
    return kinds


def _without(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}
