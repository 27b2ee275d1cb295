"""The sections of the page: each takes the runs, one or two, and gives a piece of HTML."""

from collections.abc import Sequence
from typing import Final

from spark_jobs import distributions, words
from spark_jobs.distributions import Bar, Series
from spark_jobs.markup import Html, figure, how, join, legend, meter, name_cell, section, table, tag
from spark_jobs.run import Row, Run
from spark_jobs.timeplots import fairness as fairness_plot
from spark_jobs.timeplots import jain_axis_words, timelines
from spark_jobs.verdict import percentiles

METRICS: Final = {
    "mailbox": ("mailbox length", "deliveries in the mailbox"),
    "ack": ("acknowledgement", "from first sent to acknowledged"),
    "wait": ("waiting", "from routed to first sent"),
}
QOS_NAMES: Final = {"all": "all", "0": "QoS 0", "1": "QoS 1", "2": "QoS 2"}


def timeline_section(runs: Sequence[Run]) -> Html:
    """Deliveries over time."""
    return section(
        "Deliveries over time",
        how(
            "How to read: upwards what was sent per second, downwards, in red, what was dropped, at a scale "
            "of its own. In the grey bands some session was under pressure: its send path congested, its "
            "window full, its rate used up, its mailbox busy, or its QoS 0 gated."
        ),
        timelines(runs),
        id_="timeline",
    )


def fairness_section(runs: Sequence[Run]) -> Html:
    """Jain's index over time and in all."""
    heads = ["", "sessions", "Jain, delivery ratio", "Jain, goodput", "lowest delivery ratio"]
    rows = []
    for run in runs:
        for qos in QOS_NAMES:
            row = run.one("fairness", qos=qos)
            if row["sessions"]:
                name = QOS_NAMES[qos] if len(runs) == 1 else f"{run.label}, {QOS_NAMES[qos]}"
                numbers = [words.index(row["jain_delivery_ratio"]), words.index(row["jain_goodput"])]
                rows.append(
                    [
                        name,
                        words.count(row["sessions"]),
                        *numbers,
                        words.percent(row["lowest_delivery_ratio"]),
                    ]
                )
    return section(
        "Fairness over time",
        how(
            "How to read: at 1 all sessions were sent the same share of what was offered to them; the "
            "lower, the more unequal. The dotted line is the same index of how much each was sent: it is "
            f"also low when sessions just ask for different amounts. {jain_axis_words(runs)}"
        ),
        fairness_plot(runs),
        table(heads, rows),
        id_="fairness",
    )


def series_of(run: Run, metric: str, qos: str, name: str, class_: str) -> Series:
    """A distribution over the whole range as a series of a plot."""
    rows = [row for row in run.rows_of("histograms") if row["metric"] == metric and row["qos"] == qos]
    counts = [row["count"] for row in sorted(rows, key=lambda row: row["bucket"])]
    return Series(name, class_, counts)


def _present(runs: Sequence[Run], metric: str) -> list[str]:
    """The QoS of which some run has values."""
    found = {
        row["qos"]
        for run in runs
        for row in run.rows_of("percentiles")
        if row["metric"] == metric and row["samples"]
    }
    return sorted(found)


def distribution_section(runs: Sequence[Run], metric: str, title: str, meaning: str) -> Html:
    """One metric's distribution: alone by QoS in one plot, for two runs a plot for each QoS."""
    present = _present(runs, metric)
    if not present:
        return section(title, tag("p", "Nothing was recorded."), id_=metric)
    axis_title = METRICS[metric][1]
    unit = "us" if metric != "mailbox" else "deliveries"
    plots: list[Html] = []
    if len(runs) == 1:
        series = [
            series_of(runs[0], metric, qos, QOS_NAMES[qos], f"q{qos}" if qos != "all" else "r1")
            for qos in present
        ]
        entries = [(one.class_, one.name) for one in series] if len(series) > 1 else []
        plots = [
            figure(Html(distributions.shares("share of all values", series, unit, axis_title, title))),
            figure(Html(distributions.tails("share at or above", series, unit, axis_title, title))),
        ]
    else:
        entries = [(f"r{i}", run.label) for i, run in enumerate(runs)]
        for qos in present:
            series = [series_of(run, metric, qos, run.label, f"r{i}") for i, run in enumerate(runs)]
            of = "" if qos == "all" else f"{QOS_NAMES[qos]}: "
            if metric == "mailbox":
                plots.append(
                    figure(Html(distributions.shares("share of all values", series, unit, axis_title, title)))
                )
            plots.append(
                figure(Html(distributions.tails(f"{of}share at or above", series, unit, axis_title, title)))
            )
    return section(
        title,
        how(meaning),
        legend(entries) if entries else "",
        tag("div", *plots, class_="plots"),
        _percentile_table(runs, metric, present),
        id_=metric,
    )


def _percentile_table(runs: Sequence[Run], metric: str, present: Sequence[str]) -> Html:
    heads = ["", "values", "p50", "", "p95", "", "p99", "", "highest"]
    rows = []
    for qos in present:
        for run in runs:
            row = percentiles(run, metric, qos)
            if row is None:
                continue
            parts = [QOS_NAMES[qos]] if qos != "all" else []
            parts += [run.label] if len(runs) > 1 or not parts else []
            cells = [", ".join(parts), words.count(row["samples"])]
            for name in ("p50", "p95", "p99"):
                bound = words.at_most(row[f"{name}_high"], row[f"{name}_low"], row["unit"])
                cells += [words.quantity(row[name], row["unit"]), tag("span", bound, class_="soft")]
            rows.append([*cells, words.at_most(row["max_high"], row["max_low"], row["unit"])])
    return table(heads, rows)


def gate_section(runs: Sequence[Run]) -> Html:
    """QoS 0 gated, and deliveries dropped, by reason."""
    parts: list[Html] = []
    for run in runs:
        rows = [row for row in run.rows_of("reasons") if row["deliveries"]]
        gated = sorted((r for r in rows if r["what"] == "gated"), key=lambda r: -r["deliveries"])
        dropped = sorted(
            (r for r in rows if r["what"] == "dropped"), key=lambda r: (r["qos"], -r["deliveries"])
        )
        if len(runs) > 1:
            parts.append(tag("h3", run.label))
        lines = [_reason_line(row) for row in (*gated, *dropped)]
        if lines:
            heads = ["", "", "deliveries", "share of what was offered", ""]
            parts.append(table(heads, lines, text_columns=(0, 1, 4)))
        else:
            parts.append(tag("p", "No QoS 0 was gated and nothing was dropped."))
    return section(
        "Gated and dropped, by reason",
        how(
            "How to read: gated means queued instead of sent at once, so that QoS 0 does not overtake what "
            "waits; it is delay, not loss. Dropped is loss. A delivery is counted under the first reason "
            "that held."
        ),
        *parts,
        id_="reasons",
    )


def _reason_line(row: Row) -> list[str]:
    what = f"QoS {row['qos']} {row['what']}"
    class_ = "drop" if row["what"] == "dropped" else "q0"
    share = row["share_of_offered"]
    return [
        what,
        words.reason(row["reason"]),
        words.count(row["deliveries"]),
        words.percent(share),
        meter(share, class_),
    ]


def pressure_section(runs: Sequence[Run]) -> Html:
    """QoS 0 throughput inside and outside of pressure."""
    groups = []
    heads = ["", "time", "offered", "sent", "dropped", "delivery ratio", "sent per second"]
    lines = []
    for scope in [row["scope"] for row in runs[0].rows_of("pressure")]:
        bars = []
        for i, run in enumerate(runs):
            row = run.one("pressure", scope=scope)
            rate = row["sent_qos0_per_second"]
            told = words.rate(rate)
            bars.append(Bar(f"r{i}" if len(runs) > 1 else "q0", rate or 0.0, told))
            name = words.scope(scope) if len(runs) == 1 else f"{words.scope(scope)}, {run.label}"
            counts = [words.count(row[f"{column}_qos0"]) for column in ("offered", "sent", "dropped")]
            lines.append(
                [name, words.seconds(row["seconds"]), *counts, words.percent(row["delivery_ratio"]), told]
            )
        groups.append((words.scope(scope), bars))
    label = "QoS 0 deliveries sent per second, inside and outside of pressure"
    plots = [
        figure(Html(distributions.bars(groups[:2], distributions.WIDTH, label))),
        figure(Html(distributions.bars(groups[2:], distributions.WIDTH, label))),
    ]
    entries = [(f"r{i} block", run.label) for i, run in enumerate(runs)] if len(runs) > 1 else []
    return section(
        "QoS 0 inside and outside of pressure",
        how(
            "How to read: QoS 0 deliveries sent per second. On the left of all sessions together, while "
            "some session was under pressure and while none was; on the right of one session, in the "
            "intervals in which it was under pressure itself and in the others, per second of session time."
        ),
        legend(entries) if entries else "",
        tag("div", *plots, class_="plots"),
        table(heads, lines),
        id_="pressure",
    )


def worst_section(runs: Sequence[Run]) -> Html:
    """The sessions with the lowest delivery ratio."""
    heads = [
        "client id",
        "sent of offered",
        "offered",
        "dropped",
        "gated",
        "p99 wait",
        "window full",
        "congested",
        "mqueue max",
    ]
    parts: list[Html] = []
    for run in runs:
        rows = run.rows_of("worst_sessions")
        if len(runs) > 1:
            parts.append(tag("h3", run.label))
        lines = [
            [
                name_cell(row["client_id"]),
                words.percent(row["delivery_ratio"]),
                words.count(row["offered"]),
                words.count(row["dropped"]),
                words.count(row["gated"]),
                words.micros(row["wait_p99_us"]),
                words.percent(row["window_full_share"]),
                words.percent(row["congested_share"]),
                words.count(row["mqueue_max"]),
            ]
            for row in rows
        ]
        parts.append(table(heads, lines) if lines else tag("p", "Nothing was offered to any session."))
    return section(
        "The worst sessions",
        how(
            "The twenty sessions with the lowest delivery ratio, among equals those with more drops first. "
            "Window full and congested are shares of the session’s time; a window that is always full "
            "points to a client that acknowledges late, congestion to one that reads late or to its "
            "network."
        ),
        *parts,
        id_="worst",
    )


def joined(sections: Sequence[Html]) -> Html:
    """All sections, each on its own line."""
    return join(sections, by="\n")
