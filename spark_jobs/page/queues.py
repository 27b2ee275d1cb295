"""The sections on waiting: mailboxes, latencies, cost and gain of the gate, head-of-line blocking."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from spark_jobs import formats
from spark_jobs.measures.result import Result, Row
from spark_jobs.metrics import BUCKETS
from spark_jobs.page.distributions import Series, tails
from spark_jobs.page.grids import BROKER, ID, Column, of_runs, share, time, words
from spark_jobs.page.markup import Html, Section, beside, figure, legend, note, small_figure
from spark_jobs.page.words import WORDS

METRICS: Final = {
    "mailbox": ("Mailbox length", "How long do mailboxes get?", "deliveries in the mailbox", "samples"),
    "ack": ("Acknowledgement", "How long until clients acknowledge?", "from first sent to acknowledged", "deliveries"),
    "wait": ("Waiting time", "How long do deliveries wait?", "from routed to first sent", "deliveries"),
}
"""Title, question, axis title, and counted items of each kind of distribution."""
SCOPES: Final = (("calm", "intervals without pressure", "calm"), ("pressed", "intervals under pressure", "pressed"))



def _percentile_scope(row: Row) -> str:
    parts = [f"QoS {row['qos']}"] if row["qos"] != "all" else []
    parts += [formats.scope(row["scope"])] if row["scope"] != "all" or not parts else []
    return ", ".join(parts)


def _percentile(name: str) -> Column:
    return words(name, lambda row: formats.quantity(row[name], row["unit"]))


_PERCENTILES: Final = (
    words("", _percentile_scope), Column("values", "samples"), *map(_percentile, ("p50", "p95", "p99")),
    words("highest", lambda row: formats.at_most(row["max_high"], row["max_low"], row["unit"])),
)  # fmt: skip
_GATE: Final = (
    words("", lambda row: f"QoS {row['qos']}, {formats.scope(row['scope'])}"), Column("offered"), Column("sent"),
    share("sent of offered", "delivery_ratio"), Column("dropped"), Column("gated"), time("delay p50", "delay_p50"),
    time("delay p99", "delay_p99"), time("ack p50", "ack_p50"), time("ack p99", "ack_p99"),
)  # fmt: skip
_REASONS: Final = (
    words("what", lambda row: f"QoS {row['qos']} {row['what']}" if row["qos"] in ("0", "1", "2") else row["what"]),
    words("reason", "reason", formats.reason), Column("deliveries"), share("of offered", "share_of_offered"),
)  # fmt: skip
CAUSES: Final = ("window_full_share", "window_bytes_full_share", "rate_limited_share", "congested_share")
_SHARES: Final = tuple(share(formats.reason(name.removesuffix("_share")), name) for name in CAUSES)
_CAUSES: Final = (Column("clients", "clients"), *_SHARES)
_FULL: Final = (ID, *_SHARES, Column("window", "window_limit"), Column("mqueue max", "mqueue_max"), BROKER)


def distribution_section(results: Sequence[Result], metric: str) -> Section:
    """One metric's distributions: calm and pressed for one run, baseline and run for two."""
    title, question, axis, what = METRICS[metric]
    present = {row["qos"]: row["unit"] for result in results for row in _of(metric, result)}
    if len(present) > 1:
        present.pop("all", None)
    if not present:
        return Section(metric, title, "Nothing was recorded.")
    drawn: list[Html] = []
    keys: dict[str, str] = {}
    for qos, unit in sorted(present.items()):
        series = _series(results, metric, qos)
        keys |= {one.class_: one.name for one in series}
        of = "" if qos == "all" else f"QoS {qos}: "
        if any(any(one.counts[1:]) for one in series):  # otherwise all values are 0
            label = f"{title}, {of or 'all '}share at or above"
            drawn.append(small_figure("", Html(tails(f"{of}share at or above", series, unit, axis, label))))
    how = WORDS["read"]["tails"].format(what=what)
    key = legend(list(keys.items()))
    plots = figure(question, how, beside(*drawn), data=["histograms"], key=key) if drawn else Html("")
    sheet = of_runs(
        results, "percentiles", "Percentiles", _PERCENTILES, partial(_of, metric), id_=f"{metric}-percentiles"
    )
    return Section(metric, title, f"{question} Shares at or above each value, and percentiles.", (plots, sheet))


def _of(metric: str, result: Result) -> list[Row]:
    return [row for row in result.rows_of("percentiles") if row["metric"] == metric and row["samples"]]


def series_of(result: Result, metric: str, qos: str, scope: str, name: str, class_: str) -> Series:
    """A distribution over the whole range as a series of a plot."""
    counts = [0] * BUCKETS
    for row in result.rows_of("histograms"):
        if (row["metric"], row["qos"], row["scope"]) == (metric, qos, scope):
            counts[row["bucket"]] = row["count"]
    return Series(name, class_, counts)


def _series(results: Sequence[Result], metric: str, qos: str) -> list[Series]:
    if len(results) > 1:
        named = [(result, "all", formats.name(result.label), f"r{place}") for place, result in enumerate(results)]
    else:
        named = [(results[0], scope, name, class_) for scope, name, class_ in SCOPES]
    made = [series_of(result, metric, qos, scope, name, class_) for result, scope, name, class_ in named]
    if len(results) == 1 and not all(one.total for one in made):
        made = [series_of(results[0], metric, qos, "all", "all intervals", "r1")]
    return [one for one in made if one.total] or made[:1]


def gate_section(results: Sequence[Result]) -> Section:
    """Cost and gain of the gate, and the reasons of gating and drops."""
    parts = (
        of_runs(results, "gate", "Under pressure and otherwise", _GATE),
        of_runs(results, "reasons", "Gated, dropped and refused, by reason", _REASONS, _given),
    )
    told = "What QoS 0 pays and QoS 1 and 2 gain; what was gated, dropped and refused, and why."
    if not any(parts):
        return Section("gate", "The gate", "Nothing was offered, gated or dropped.")
    return Section("gate", "The gate", told, (note(WORDS["read"]["gate"]), *parts))


def _given(result: Result) -> list[Row]:
    rows = [row for row in result.rows_of("reasons") if row["deliveries"]]
    return sorted(rows, key=lambda r: (r["what"] != "gated", r["what"], r["qos"] or "", -r["deliveries"]))


def head_of_line_section(results: Sequence[Result]) -> Section:
    """The causes of head-of-line blocking, and the clients whose window was full longest."""
    parts = (
        of_runs(results, "head_of_line", "Share of the sessions’ time for each cause of blocking", _CAUSES, _blocked),
        of_runs(results, "head_of_line_sessions", "Longest full windows", _FULL),
    )
    told = "What blocks deliveries, and the longest full windows." if any(parts) else "Nothing waited."
    return Section("head-of-line", "Head-of-line blocking", told, parts)


def _blocked(result: Result) -> list[Row]:
    """All QoS, if deliveries waited or any cause blocked."""
    row = result.maybe("head_of_line", qos="all")
    return [row] if row and (row["samples"] or any(row[name] for name in CAUSES)) else []
