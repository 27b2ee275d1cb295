"""The page: one HTML file with everything in it, for one run or for two side by side."""

from collections.abc import Sequence
from importlib.resources import files
from typing import Final

from spark_jobs import verdict, words
from spark_jobs.markup import Html, join, safe, table, tag
from spark_jobs.quality import definitions_section, footer, quality_section
from spark_jobs.run import Row, Run
from spark_jobs.sections import (
    distribution_section,
    fairness_section,
    gate_section,
    joined,
    pressure_section,
    timeline_section,
    worst_section,
)

_BARS: Final = (
    "On the right the same by powers of ten, so that rare long ones show: each step down is ten times rarer."
)
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_TAILS: Final = (
    "each step down is ten times rarer, and the further to the right a line goes, the longer the longest."
)


def render(runs: Sequence[Run], tables: Sequence[str]) -> str:
    """The whole page as text; `tables` are the names of the result tables it links to."""
    title = "Fairness report: " + " and ".join(words.name(run.label) for run in runs)
    style = files("spark_jobs").joinpath("style.css").read_text(encoding="utf-8")
    head = join(
        [
            Html('<meta charset="utf-8">'),
            Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            # Nothing is loaded and nothing runs, whatever a client id might hold.
            Html(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
            tag("title", title),
            Html(f"<style>\n{style}</style>"),
        ],
        by="\n",
    )
    body = tag("main", _header(runs), joined(_sections(runs)), footer(tables))
    return f'<!doctype html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{body}\n</body>\n</html>\n'


def _header(runs: Sequence[Run]) -> Html:
    if len(runs) == 1:
        headline, sentences = verdict.headline(runs[0]), verdict.sentences(runs[0])
        summary = _tiles(runs[0])
    else:
        headline = verdict.compared_headline(runs[0], runs[1])
        sentences = verdict.compared_sentences(runs[0], runs[1])
        summary = _side_by_side(runs[0], runs[1])
    return tag(
        "header",
        tag("p", "Sluice fairness report", class_="kind"),
        tag("h1", headline),
        tag("ul", *[tag("li", sentence) for sentence in sentences], class_="verdict"),
        *[tag("p", _meta(run, len(runs) > 1), class_="meta") for run in runs],
        summary,
    )


def _meta(run: Run, named: bool) -> str:
    name = f"{run.label}: " if named else ""
    return (
        f"{name}{words.moment(run.first)} to {words.moment(run.last)} UTC · "
        f"{run.sessions:,} sessions · {run.rows:,} rows · "
        f"windows of {words.seconds(run.window_us / 1e6)}"
    )


def _tiles(run: Run) -> Html:
    total = run.one("totals", qos="all")
    gated = sum(row["deliveries"] for row in run.rows_of("reasons") if row["what"] == "gated")
    fair = run.one("fairness", qos="all")["jain_delivery_ratio"]
    pressed = total["pressure_seconds"] / total["seconds"] if total["seconds"] else None
    tiles = [
        (words.short(total["offered"]), "deliveries offered", False),
        (words.percent(total["delivery_ratio"]), "sent of what was offered", False),
        (words.short(total["dropped"]), "dropped", bool(total["dropped"])),
        (words.index(fair), "Jain’s fairness index", False),
        (words.short(gated), "QoS 0 gated", False),
        (words.percent(pressed), "of the time under pressure", False),
    ]
    return tag(
        "div",
        *[
            tag("div", tag("b", n), tag("span", what), class_="tile bad" if bad else "tile")
            for n, what, bad in tiles
        ],
        class_="tiles",
    )


def _side_by_side(before: Run, after: Run) -> Html:
    """The figures of two runs beside each other."""
    lines = []
    for qos in ("0", "1", "2"):
        a, b = (run.one("totals", qos=qos)["delivery_ratio"] for run in (before, after))
        lines.append([f"QoS {qos} sent of offered", words.percent(a), words.percent(b), words.change(a, b)])
    a, b = (run.one("fairness", qos="all")["jain_delivery_ratio"] for run in (before, after))
    lines.append(["Jain’s index, delivery ratio", words.index(a), words.index(b), words.change(a, b)])
    for column, name in (("mailbox_max", "longest mailbox"), ("mqueue_max", "longest mqueue")):
        a, b = (run.one("queues")[column] for run in (before, after))
        lines.append([name, words.count(a), words.count(b), words.change(a, b)])
    for metric, qos, name in (
        ("mailbox", "all", "mailbox length"),
        ("ack", "1", "QoS 1 acknowledgement"),
        ("ack", "2", "QoS 2 acknowledgement"),
    ):
        rows = [verdict.percentiles(run, metric, qos) for run in (before, after)]
        for p in ("p50", "p95", "p99"):
            shown = [words.DASH if row is None else words.quantity(row[p], row["unit"]) for row in rows]
            lines.append([f"{name}, {p}", *shown, _percentile_change(rows[0], rows[1], p)])
    for scope, name in (("pressure_windows", "under pressure"), ("other_windows", "otherwise")):
        rates = [run.one("pressure", scope=scope)["sent_qos0_per_second"] for run in (before, after)]
        lines.append([f"QoS 0 sent, {name}", *map(words.rate, rates), words.change(rates[0], rates[1])])
    dropped = [run.one("totals", qos="all")["dropped"] for run in (before, after)]
    lines.append(["dropped in all", *map(words.count, dropped), words.change(dropped[0], dropped[1])])
    note = tag(
        "p",
        "One run each: a few per cent are noise. ≈ is a percentile in the same bucket of the histogram.",
        class_="note",
    )
    return join(
        [
            tag("div", table(["", safe(before.label), safe(after.label), "change"], lines), class_="beside"),
            note,
        ]
    )


def _percentile_change(before: Row | None, after: Row | None, name: str) -> str:
    if before is None or after is None:
        return words.DASH
    if verdict.trend(before, after, name) == "same":
        return "≈"
    return words.change(before[name], after[name])


def _sections(runs: Sequence[Run]) -> list[Html]:
    one = len(runs) == 1
    seen = "How to read: the share of samples that saw the mailbox this long. "
    mailbox = (
        seen + _BARS if one else seen + "On the right, the share that saw it at least this long: " + _TAILS
    )
    times = "How to read: the share of deliveries that took this long. " + _BARS
    if not one:
        times = "How to read: the share of deliveries that took at least this long; " + _TAILS
    return [
        timeline_section(runs),
        distribution_section(runs, "mailbox", "Mailbox length", mailbox),
        distribution_section(runs, "ack", "Acknowledgement latency, QoS 1 and 2", times),
        pressure_section(runs),
        fairness_section(runs),
        distribution_section(runs, "wait", "Waiting time, from routed to first sent", times),
        gate_section(runs),
        worst_section(runs),
        quality_section(runs),
        definitions_section(),
    ]
