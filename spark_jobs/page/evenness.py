"""The section on evenness: Lorenz curves, and indices over clients, brokers, listeners and client id prefixes."""

from collections.abc import Sequence
from typing import Final

from spark_jobs import formats
from spark_jobs.measures.fairness import WELL_SERVED
from spark_jobs.measures.result import Result
from spark_jobs.page import grids
from spark_jobs.page.grids import FOLDED, Cell, Column, folded, grid
from spark_jobs.page.lorenz import Curve, lorenz
from spark_jobs.page.markup import Html, figure, join, legend, name_of, nothing, section, small_figure, tag
from spark_jobs.page.markup import grid as side_by_side
from spark_jobs.page.words import WORDS

_WHAT: Final = {"goodput": "goodput", "delivery_ratio": "delivery ratio"}
_ALL_OF: Final = {"goodput": "all goodput", "delivery_ratio": "the sum of delivery ratios"}
_SCOPES: Final = {
    "all": "All clients, by QoS",
    "broker": "By broker",
    "listener": "By listener",
    "client_prefix": "By client id prefix (the client id’s first part)",
}
_QOS_ORDER: Final = ("all", "0", "1", "2")
_READ: Final = WORDS["read"]["evenness"]
_INDICES: Final = (
    Column("clients"),
    Column("Jain, delivery ratio", title="1: the delivery ratio of all clients is the same"),
    Column("lowest delivery ratio"),
    Column("poorly served", title=f"clients sent less than {WELL_SERVED:.0%} of what was due"),
    Column("Jain, goodput", title="also low if the demand of clients differs"),
    Column("min/mean goodput", title="lowest goodput / mean: 1 = all equal"),
    Column("Gini, goodput", title="0 = all equal"),
)


def evenness_section(results: Sequence[Result]) -> Html:
    """Lorenz curves and tables of the indices."""
    plots = [plot for what in _WHAT if (plot := _plot(results, what))]
    drawn: list[str] = [nothing("Nothing was sent to any client.")]
    if plots:
        drawn = [figure("How is it distributed?", _READ, side_by_side(*plots), data=["lorenz"], key=_key(results))]
    return section("Evenness", *drawn, _scopes(results), _hours(results), id_="evenness")


def _plot(results: Sequence[Result], what: str) -> Html | None:
    curves = []
    told = []
    for place, result in enumerate(results):
        points = _points(result, what)
        if not points:
            continue
        several = len(results) > 1
        curves.append(Curve(result.label, f"r{place}" if several else "r1", points))
        row = result.maybe("fairness", scope="all", qos="all") or {}
        gini = formats.index(row.get(f"gini_{what}"))
        told.append(f"{formats.name(result.label, 24)} {gini}" if several else gini)
    if not curves:
        return None
    asked = _points(results[-1], "offered") if what == "goodput" else []
    if asked:
        curves.insert(0, Curve("offered", "asked", asked))
    title = join([tag("strong", _WHAT[what].capitalize()), f" · Gini {', '.join(told)}"])
    return small_figure(title, Html(lorenz(curves, _ALL_OF[what], f"Lorenz curve of {_WHAT[what]}")))


def _points(result: Result, what: str) -> list[tuple[float, float]]:
    rows = [row for row in result.rows_of("lorenz") if row["what"] == what and row["share"] is not None]
    return sorted((row["share_clients"], row["share"]) for row in rows)


def _key(results: Sequence[Result]) -> Html:
    if len(results) == 1:
        return legend([("r1", "sent"), ("asked", "offered")])
    named = [(f"r{place}", formats.name(result.label)) for place, result in enumerate(results)]
    return legend([*named, ("asked", "offered")])


def _scopes(results: Sequence[Result]) -> Html:
    """All by QoS, then brokers, listeners and client id prefixes over all QoS; of two runs each beside the other."""
    lines: dict[str, list[tuple[str, list[Cell]]]] = {scope: [] for scope in _SCOPES}
    for result in results:
        run = [Cell(formats.name(result.label))] if len(results) > 1 else []
        for row in result.rows_of("fairness"):
            if row["clients"] and (row["scope"] == "all" or row["qos"] == "all"):
                line = [
                    Cell(_scope(row["scope"], row["name"], row["qos"])),
                    *run,
                    grids.number(row["clients"]),
                    grids.index(row["jain_delivery_ratio"]),
                    grids.share(row["lowest_delivery_ratio"]),
                    grids.number(row["poorly_served"]),
                    grids.index(row["jain_goodput"]),
                    grids.index(row["maxmin_goodput"]),
                    grids.index(row["gini_goodput"]),
                ]
                place = len(lines[row["scope"]]) if len(results) == 1 else 0
                key = _QOS_ORDER.index(row["qos"]) if row["scope"] == "all" else place
                lines[row["scope"]].append((f"{key:06}{row['name']}", line))
    made = []
    for scope, found in lines.items():
        found.sort(key=lambda item: item[0])
        if found:
            columns = [Column("", text=True), *([Column("run", text=True)] if len(results) > 1 else []), *_INDICES]
            title = _SCOPES[scope]
            sheet = grid(f"scope-{scope}", title, columns, [line for _, line in found], ["fairness"])
            made.append(folded(f"{title} ({len(found)})", sheet) if len(found) > FOLDED else sheet)
    return join(made)


def _scope(scope: str, name: str, qos: str) -> Html:
    if scope == "all":
        return tag("span", "all" if qos == "all" else f"QoS {qos}")
    return name_of(name, 32) if name else tag("span", "(none)")


def _hours(results: Sequence[Result]) -> Html:
    """Fairness and latency hour by hour."""
    columns = [
        Column("hour", text=True),
        *([Column("run", text=True)] if len(results) > 1 else []),
        Column("clients"),
        Column("Jain, delivery ratio"),
        Column("Gini, goodput"),
        Column("starved"),
        Column("dropped"),
        Column("QoS 1 ack p99"),
        Column("QoS 2 ack p99"),
        Column("QoS 0 wait p99"),
    ]
    lines = []
    for result in results:
        run = [Cell(formats.name(result.label))] if len(results) > 1 else []
        for row in result.rows_of("hours"):
            lines.append(
                [
                    grids.moment(row["hour_us"]),
                    *run,
                    grids.number(row["clients"]),
                    grids.index(row["jain_delivery_ratio"]),
                    grids.index(row["gini_goodput"]),
                    grids.number(row["starved_sessions"]),
                    grids.number(row["dropped"]),
                    grids.time(row["ack_qos1_p99"]),
                    grids.time(row["ack_qos2_p99"]),
                    grids.time(row["wait_qos0_p99"]),
                ]
            )
    shown = lines[-400:]  # of a long range the last hours; the CSV has all
    if not shown:
        return Html("")
    return folded("Hour by hour", grid("hours", "Hour by hour", columns, shown, ["hours"]))
