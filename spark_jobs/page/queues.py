"""The sections on waiting: mailboxes, latencies, cost and gain of the gate, head-of-line blocking."""

from collections.abc import Sequence
from typing import Final

from spark_jobs import formats
from spark_jobs.measures.result import Result, Row
from spark_jobs.metrics import BUCKETS
from spark_jobs.page import bars, distributions, grids
from spark_jobs.page.bars import Bar, Range
from spark_jobs.page.distributions import Series
from spark_jobs.page.grids import FOLDED, Cell, Column, folded, grid
from spark_jobs.page.markup import Html, both, figure, legend, note, nothing, section, small_figure
from spark_jobs.page.markup import grid as side_by_side
from spark_jobs.page.words import WORDS

METRICS: Final = {
    "mailbox": ("Mailbox length", "deliveries in the mailbox", "samples"),
    "ack": ("Acknowledgement latency", "from first sent to acknowledged", "deliveries"),
    "wait": ("Waiting time", "from routed to first sent", "deliveries"),
}
"""Title, axis title, and counted items of each kind of distribution."""

SCOPES: Final = (("calm", "intervals without pressure", "calm"), ("pressed", "intervals under pressure", "pressed"))
_ALL: Final = (("all", "all intervals", "r1"),)
_READ_BOTH: Final = WORDS["read"]["both"]
_READ_GATE: Final = WORDS["read"]["gate"]
_READ_LINE: Final = WORDS["read"]["line"]


def distribution_section(results: Sequence[Result], metric: str) -> Html:
    """One metric's distributions: calm and pressed for one run, baseline and run for two."""
    title, axis, what = METRICS[metric]
    present = sorted({r["qos"] for result in results for r in result.rows_of("percentiles") if _of(r, metric)})
    if len(present) > 1:
        present = [qos for qos in present if qos != "all"]
    if not present:
        return section(title, nothing("Nothing was recorded."), id_=metric)
    drawn: list[Html] = []
    keys: dict[str, str] = {}
    for qos in present:
        series = _series(results, metric, qos)
        keys |= {one.class_: one.name for one in series}
        unit = _unit(results, metric, qos)
        of = "" if qos == "all" else f"QoS {qos}: "
        label = f"{title}, {of or 'all '}"
        plots = [distributions.shares(f"{of}share of all {what}", series, unit, axis, f"{label}share")]
        if any(any(one.counts[1:]) for one in series):  # otherwise all values are 0
            plots.append(distributions.tails(f"{of}share at or above", series, unit, axis, f"{label}share at or above"))
        drawn += [small_figure("", Html(plot)) for plot in plots]
    how = _READ_BOTH.format(what=what)
    return section(
        title,
        figure(_question(metric), how, side_by_side(*drawn), data=["histograms"], key=legend(list(keys.items()))),
        _percentile_grid(results, metric),
        id_=metric,
    )


def _question(metric: str) -> str:
    return {
        "mailbox": "How long do mailboxes get?",
        "ack": "How long until clients acknowledge?",
        "wait": "How long do deliveries wait?",
    }[metric]


def _of(row: Row, metric: str, qos: str | None = None) -> bool:
    return row["metric"] == metric and row["samples"] and (qos is None or row["qos"] == qos)


def _unit(results: Sequence[Result], metric: str, qos: str) -> str:
    found = (r["unit"] for result in results for r in result.rows_of("percentiles") if _of(r, metric, qos))
    return str(next(found, "us"))


def series_of(result: Result, metric: str, qos: str, scope: str, name: str, class_: str) -> Series:
    """A distribution over the whole range as a series of a plot."""
    rows = [
        row
        for row in result.rows_of("histograms")
        if row["metric"] == metric and row["qos"] == qos and row["scope"] == scope
    ]
    counts = [0] * BUCKETS
    for row in rows:
        counts[row["bucket"]] = row["count"]
    return Series(name, class_, counts)


def _series(results: Sequence[Result], metric: str, qos: str) -> list[Series]:
    if len(results) > 1:
        made = [
            series_of(result, metric, qos, "all", formats.name(result.label), f"r{place}")
            for place, result in enumerate(results)
        ]
    else:
        made = [series_of(results[0], metric, qos, scope, name, class_) for scope, name, class_ in SCOPES]
        if not all(one.total for one in made):
            made = [series_of(results[0], metric, qos, scope, name, class_) for scope, name, class_ in _ALL]
    return [one for one in made if one.total] or made[:1]


def _percentile_grid(results: Sequence[Result], metric: str) -> Html:
    columns = [
        Column("", text=True),
        Column("values"),
        *[
            Column(head, title="within 6 %; the exact value is at most the bound in grey")
            if not bound
            else Column("at most", title="the exact value is at most this, and more than eight ninths of it")
            for head in ("p50", "p95", "p99")
            for bound in (False, True)
        ],
        Column("highest"),
    ]
    lines = []
    for result in results:
        for row in result.rows_of("percentiles"):
            if not _of(row, metric):
                continue
            parts = [formats.name(result.label)] if len(results) > 1 else []
            parts += [f"QoS {row['qos']}"] if row["qos"] != "all" else []
            parts += [formats.scope(row["scope"])] if row["scope"] != "all" or not parts else []
            cells = [Cell(", ".join(parts)), grids.number(row["samples"])]
            for name in ("p50", "p95", "p99"):
                bound = formats.at_most(row[f"{name}_high"], row[f"{name}_low"], row["unit"])
                cells.append(Cell(formats.quantity(row[name], row["unit"]), row[name]))
                cells.append(Cell(bound, row[f"{name}_high"]))
            top = formats.at_most(row["max_high"], row["max_low"], row["unit"])
            lines.append([*cells, Cell(top, row["max_high"])])
    return grid(f"{metric}-percentiles", "Percentiles", columns, lines, ["percentiles"])


def gate_section(results: Sequence[Result]) -> Html:
    """Cost and gain of the gate, and the reasons of gating and drops."""
    ranges: list[Range] = []
    for qos, what in (("0", "QoS 0 delay"), ("1", "QoS 1 ack"), ("2", "QoS 2 ack")):
        for name, class_, row in _gate_rows(results, qos):
            kind, names = ("delay", ("p50", "p99")) if qos == "0" else ("ack", ("p50", "p95", "p99"))
            values = [row[f"{kind}_{p}"] for p in names]
            if all(value is not None for value in values):
                ranges.append(Range(f"{what}, {name}", class_, values))
    drawn: Html | str = nothing("Nothing waited and nothing was acknowledged.")
    if ranges:
        label = "Delay of QoS 0 and acknowledgement of QoS 1 and 2"
        plots = both(lambda width: bars.ranges(ranges, width, label, room=_room(ranges)))
        drawn = figure("Cost for QoS 0, gain for QoS 1 and 2", _READ_GATE, plots, data=["gate"], key=_gate_key(results))
    return section("The gate: cost and gain", drawn, _gate_grid(results), _reason_grid(results), id_="gate")


def _gate_rows(results: Sequence[Result], qos: str) -> list[tuple[str, str, Row]]:
    """Calm and pressed intervals of one run, or pressed ones of two."""
    found = []
    if len(results) > 1:
        for place, result in enumerate(results):
            row = result.maybe("gate", qos=qos, scope="pressed")
            found.append((formats.name(result.label, 12), f"r{place}", row))
    else:
        for scope in ("calm", "pressed"):
            found.append((scope, scope, results[0].maybe("gate", qos=qos, scope=scope)))
    return [(name, class_, row) for name, class_, row in found if row is not None]


def _gate_key(results: Sequence[Result]) -> Html:
    if len(results) > 1:
        return legend([(f"r{i}", f"{formats.name(r.label)}, under pressure") for i, r in enumerate(results)])
    return legend([(class_, name) for _, name, class_ in SCOPES])


def _gate_grid(results: Sequence[Result]) -> Html:
    columns = [
        Column("", text=True),
        Column("offered"),
        Column("sent"),
        Column("sent of offered"),
        Column("dropped"),
        Column("gated"),
        Column("delay p99"),
        Column("ack p50"),
        Column("ack p99"),
    ]
    lines = []
    for result in results:
        for row in result.rows_of("gate"):
            of = f"{formats.name(result.label)}, " if len(results) > 1 else ""
            lines.append(
                [
                    Cell(f"{of}QoS {row['qos']}, {formats.scope(row['scope'])}"),
                    grids.number(row["offered"]),
                    grids.number(row["sent"]),
                    grids.share(row["delivery_ratio"]),
                    grids.number(row["dropped"]),
                    grids.number(row["gated"]),
                    grids.time(row["delay_p99"]),
                    grids.time(row["ack_p50"]),
                    grids.time(row["ack_p99"]),
                ]
            )
    return grid("gate-table", "Under pressure and otherwise", columns, lines, ["gate"]) if lines else Html("")


def _reason_grid(results: Sequence[Result]) -> Html:
    columns = [
        Column("what", text=True),
        Column("reason", text=True),
        *([Column("run", text=True)] if len(results) > 1 else []),
        Column("deliveries"),
        Column("of offered"),
        Column(""),
    ]
    lines = []
    for result in results:
        rows = [row for row in result.rows_of("reasons") if row["deliveries"]]
        most = max((row["share_of_offered"] or 0.0 for row in rows), default=0.0) or 1.0
        for row in sorted(rows, key=lambda r: (r["what"] != "gated", r["what"], r["qos"] or "", -r["deliveries"])):
            of = f"QoS {row['qos']} " if row["qos"] in ("0", "1", "2") else ""
            class_ = "drop" if row["what"] == "dropped" else "q0"
            lines.append(
                [
                    Cell(f"{of}{row['what']}"),
                    Cell(formats.reason(row["reason"])),
                    *([Cell(formats.name(result.label))] if len(results) > 1 else []),
                    grids.number(row["deliveries"]),
                    grids.share(row["share_of_offered"]),
                    Cell(grids.meter((row["share_of_offered"] or 0.0) / most, class_), row["share_of_offered"]),
                ]
            )
    if not lines:
        return nothing("No QoS 0 was gated and nothing was dropped.")
    told = (
        "Gated: queued instead of sent at once, so that QoS 0 does not overtake waiting deliveries; it is delayed, not "
        "lost. Dropped: lost. A delivery counts under the first reason that applies."
    )
    return Html(grid("reasons", "Gated, dropped and refused, by reason", columns, lines, ["reasons"]) + note(told))


def head_of_line_section(results: Sequence[Result]) -> Html:
    """How long deliveries waited, and the causes of head-of-line blocking."""
    ranges: list[Range] = []
    causes: list[Bar] = []
    several = len(results) > 1
    for place, result in enumerate(results):
        class_ = f"r{place}" if several else "r1"
        of = f"{formats.name(result.label, 12)}, " if several else ""
        rows = [row for row in result.rows_of("head_of_line") if row["samples"]]
        causes += _causes(result, of, class_)
        for row in rows:
            values = [row[f"wait_{p}"] for p in ("p50", "p95", "p99")]
            if row["qos"] in ("0", "1", "2") and None not in values:
                ranges.append(Range(f"{of}QoS {row['qos']}", class_ if several else f"q{row['qos']}", values))
    if not ranges and not causes:
        return section("Head-of-line blocking", nothing("Nothing waited."), id_="head-of-line")
    plots = []
    if ranges:
        plot = bars.ranges(ranges, 460, "Waiting before the first transmission, by QoS", room=_room(ranges))
        plots.append(small_figure("waited before first sent", Html(plot)))
    if causes:
        plot = bars.bars(
            causes, 460, "Share of the sessions’ time for each cause of blocking", room=_room(causes)
        )
        plots.append(small_figure("share of the sessions’ time", Html(plot)))
    return section(
        "Head-of-line blocking",
        figure("What blocks deliveries?", _READ_LINE, side_by_side(*plots), data=["head_of_line"]),
        *[_full_grid(result, place, several) for place, result in enumerate(results)],
        id_="head-of-line",
    )


def _causes(result: Result, of: str, class_: str) -> list[Bar]:
    """A bar for each cause with its share of the sessions' time, if deliveries waited or any cause blocked."""
    row = result.maybe("head_of_line", qos="all")
    if row is None:
        return []
    shares = {name: row[f"{name}_share"] for name in ("window_full", "window_bytes_full", "rate_limited", "congested")}
    if not row["samples"] and not any(shares.values()):
        return []
    return [
        Bar(f"{of}{formats.reason(name)}", class_, share, formats.percent(share))
        for name, share in shares.items()
        if share is not None
    ]


def _room(rows: Sequence[Range] | Sequence[Bar]) -> float:
    return 14 + 6.9 * max(len(row.name) for row in rows)


def _full_grid(result: Result, place: int, several: bool) -> Html:
    columns = [
        Column("client id", text=True),
        Column("broker", text=True),
        Column("window full"),
        Column(""),
        Column("full in bytes"),
        Column("rate used up"),
        Column("congested"),
        Column("window"),
        Column("mqueue max"),
    ]
    lines = [
        [
            grids.name(row["client_id"]),
            grids.name(row["broker"]),
            grids.share(row["window_full_share"]),
            Cell(grids.meter(row["window_full_share"], "r1"), row["window_full_share"]),
            grids.share(row["window_bytes_full_share"]),
            grids.share(row["rate_limited_share"]),
            grids.share(row["congested_share"]),
            grids.number(row["window_limit"]),
            grids.number(row["mqueue_max"]),
        ]
        for row in result.rows_of("head_of_line_sessions")
    ]
    if not lines:
        return Html("")
    of = f"{formats.name(result.label)}: " if several else ""
    title = f"{of}longest full windows" if several else "Longest full windows"
    made = grid(f"full-{place}", title, columns, lines, ["head_of_line_sessions"])
    return folded(title, made) if len(lines) > FOLDED or several else made
