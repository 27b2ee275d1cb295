"""The report for other programs: OUT/summary.json, small, with stable names.

Format 3, described by summary_schema.json. `findings` are those at the top of the page, each with its grade
(good, note, watch, unfair), what to do about it, and the section of MEASURES.md that defines it; `grade` is the worst
of them. `thresholds` are the limits that were set. The figures are those of the result tables (`measures.layout`), with
the same names. Tables that name sessions or grow with time (timeline, hours, curves, the worst) are in OUT/tables only.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from spark_jobs.measures.result import Result, Row
from spark_jobs.metrics import SCHEMA

FORMAT: Final = 3


def summary(
    results: Sequence[Result],
    headline: str,
    verdict: Sequence[str],
    findings: Sequence[Mapping[str, str]] = (),
    thresholds: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The content of summary.json.

    Args:
        results: one run; or the baseline and the run, the run with its table `comparison`.
        headline, verdict: the texts at the top of the page.
        findings: those about the last run, most severe first.
        thresholds: the limits, with the values of the last run.
    """
    return {
        "format": FORMAT,
        "schema": {"name": SCHEMA.name, "version": SCHEMA.version},
        "headline": headline,
        "verdict": list(verdict),
        "grade": findings[0]["grade"] if findings else None,
        "findings": list(findings),
        "thresholds": list(thresholds),
        "baseline": results[0].label if len(results) > 1 else None,
        "runs": [_run(result) for result in results],
        "comparison": _by(results[-1], "comparison", "measure") if len(results) > 1 else {},
    }


def _run(result: Result) -> dict[str, Any]:
    facts = result.facts
    books = result.one("books", qos="all")
    return {
        "label": facts.label,
        "first_interval_start": facts.first.isoformat(),
        "last_interval_end": facts.last.isoformat(),
        "asked": {"from_us": facts.asked_from_us, "to_us": facts.asked_to_us, "broker": facts.broker},
        "brokers": list(facts.brokers),
        "watermarks_us": dict(facts.watermarks),
        "store_version": facts.version,
        "window_seconds": facts.window_us / 1e6,
        "slot_seconds": facts.slot_us / 1e6,
        "interval_seconds": facts.interval_us / 1e6,
        "rows": facts.rows,
        "clients": facts.clients,
        "hours": facts.hours,
        "files": dict(facts.files),
        "books": {"rows": books["rows"], "rows_off": books["rows_off"], "balance": books["rows_off"] == 0},
        "totals": _by(result, "totals", "qos"),
        "fairness": {
            row["qos"]: _without(row, "scope", "name", "qos")
            for row in result.rows_of("fairness")
            if row["scope"] == "all"
        },
        "starvation": {
            "after_intervals": facts.starved_after,
            **_without(result.one("starvation", length="all"), "length", "least_intervals", "most_intervals"),
        },
        "inversion": _without(result.one("inversion")),
        "stalled": _by(result, "stalled", "kind"),
        "head_of_line": _by(result, "head_of_line", "qos"),
        "gate": {
            f"qos{row['qos']}_{row['scope']}": _without(row, "qos", "scope") for row in result.rows_of("gate")
        },
        "reasons": [_without(row) for row in result.rows_of("reasons") if row["deliveries"]],
        "percentiles": {
            f"{row['metric']}_{row['qos']}_{row['scope']}": _without(row, "metric", "qos", "scope")
            for row in result.rows_of("percentiles")
            if row["samples"]
        },
        "queues": _without(result.one("queues")),
        "quality": {row["kind"]: row["count"] for row in result.rows_of("quality")},
    }


def _by(result: Result, table: str, key: str) -> dict[str, Row]:
    return {row[key]: _without(row, key) for row in result.rows_of(table)}


def _without(row: Row, *names: str) -> Row:
    return {name: value for name, value in row.items() if name not in ("run", *names)}
