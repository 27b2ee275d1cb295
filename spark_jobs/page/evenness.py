"""The section on evenness: Lorenz curves, and indices over clients, brokers, listeners and client id prefixes."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from spark_jobs import formats
from spark_jobs.measures.fairness import WELL_SERVED
from spark_jobs.measures.result import Result, Row
from spark_jobs.page.grids import P99, Column, index, moment, of_run, of_runs, share, words
from spark_jobs.page.lorenz import Curve, lorenz
from spark_jobs.page.markup import Html, Section, figure, legend, name_of
from spark_jobs.page.words import WORDS

_SCOPES: Final = {
    "all": "All clients, by QoS",
    "broker": "By broker",
    "listener": "By listener",
    "client_prefix": "By client id prefix (the client id’s first part)",
}
_MOST: Final = 400  # rows of a run; the CSV has all


def _scope(row: Row) -> str:
    if row["scope"] == "all":
        return "all" if row["qos"] == "all" else f"QoS {row['qos']}"
    return name_of(row["name"], 32) if row["name"] else "(none)"


_INDICES: Final = (
    words("", _scope), Column("clients"),
    index("Jain, delivery ratio", "jain_delivery_ratio", title="1: the delivery ratio of all clients is the same"),
    share("lowest delivery ratio", "lowest_delivery_ratio"),
    Column("poorly served", "poorly_served", title=f"clients sent less than {WELL_SERVED:.0%} of what was due"),
    index("Jain, goodput", "jain_goodput", title="also low if the demand of clients differs"),
    index("min/mean goodput", "maxmin_goodput", title="lowest goodput / mean: 1 = all equal"),
    index("Gini, goodput", "gini_goodput", title="0 = all equal"),
)  # fmt: skip
_HOURS: Final = (
    words("hour", "hour_us", moment), Column("clients"), index("Jain, delivery ratio", "jain_delivery_ratio"),
    index("Gini, goodput", "gini_goodput"), Column("starved", "starved_sessions"), Column("dropped"), *P99,
)  # fmt: skip


def evenness_section(results: Sequence[Result]) -> Section:
    """Lorenz curves of goodput and tables of the indices."""
    sheets = [
        of_runs(results, "fairness", title, _INDICES, partial(_of_scope, scope), id_=f"scope-{scope}", shown=_MOST)
        for scope, title in _SCOPES.items()
    ]
    hours = of_runs(results, "hours", "Hour by hour", _HOURS, lambda r: r.rows_of("hours")[-_MOST:], shown=_MOST)
    told = "Lorenz curves; fairness by QoS, broker, listener and client id prefix, and hour by hour."
    parts = (_curves(results), *sheets, hours)
    return Section("evenness", "Evenness", told if any(parts) else "Nothing was sent to any client.", parts)


def _of_scope(scope: str, result: Result) -> list[Row]:
    """All clients by QoS; others over all QoS."""
    rows = [row for row in result.rows_of("fairness") if row["scope"] == scope and row["clients"]]
    if scope == "all":
        return sorted(rows, key=lambda row: row["qos"] != "all")
    return [row for row in rows if row["qos"] == "all"]


def _curves(results: Sequence[Result]) -> Html:
    """Goodput, beside what was offered in the last run."""
    several = len(results) > 1
    curves = [Curve("asked", "offered", _points(results[-1], "offered"))]
    for place, result in enumerate(results):
        gini = formats.index((result.maybe("fairness", scope="all", qos="all") or {}).get("gini_goodput"))
        told = f"{of_run(result, results)}sent, Gini’s coefficient {gini}"
        curves.append(Curve(f"r{place}" if several else "r1", told, _points(result, "goodput")))
    curves = [curve for curve in curves if curve.points]
    if not curves:
        return Html("")
    key = legend([(curve.class_, curve.name) for curve in curves])
    drawn = lorenz(curves, "all goodput", "Lorenz curve of goodput")
    return figure("How is goodput distributed?", WORDS["read"]["evenness"], drawn, data=["lorenz"], key=key)


def _points(result: Result, what: str) -> list[tuple[float, float]]:
    rows = [row for row in result.rows_of("lorenz") if row["what"] == what and row["share"] is not None]
    return sorted((row["share_clients"], row["share"]) for row in rows)
