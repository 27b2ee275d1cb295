"""The whole page: head, verdict, sections."""

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files
from typing import Final

from spark_jobs import formats
from spark_jobs.measures.result import Result
from spark_jobs.page import verdict
from spark_jobs.page.changes import changes_section
from spark_jobs.page.closing import definitions_section, footer, quality_section
from spark_jobs.page.differences import changes
from spark_jobs.page.evenness import evenness_section
from spark_jobs.page.finding import Finding, Grade
from spark_jobs.page.findings import findings
from spark_jobs.page.markup import Html, join, tag
from spark_jobs.page.named_sessions import order_section, starvation_section, worst_section
from spark_jobs.page.publishers import publishers_section
from spark_jobs.page.queues import distribution_section, gate_section, head_of_line_section
from spark_jobs.page.timelines import deliveries_section, fairness_section, latency_section

MOST_RUNS: Final = 2
LONGEST_LABEL: Final = 60
_CLASSES: Final = {Grade.UNFAIR: "bad", Grade.WATCH: "watch", Grade.NOTE: "plain", Grade.GOOD: "good"}


def render(results: Sequence[Result]) -> str:
    """The page of one run, or of two, the baseline first. Its size does not depend on the number of sessions.

    Raises:
        ValueError: there are more than two runs, or none.
    """
    if not 1 <= len(results) <= MOST_RUNS:
        raise ValueError(f"the page shows one run or two, not {len(results)}")
    style, script = _asset("style.css"), _asset("script.js")
    title = "Fairness report: " + " and ".join(formats.name(r.label, LONGEST_LABEL) for r in results)
    # Nothing is loaded, and only this script can run, whatever a client id contains.
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    head = join(
        [
            Html('<meta charset="utf-8">'),
            Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
            Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            Html('<meta name="color-scheme" content="light dark">'),
            tag("title", title),
            Html(f"<style>{style}</style>"),
        ],
        by="\n",
    )
    sections = _sections(results)
    main = tag("main", _header(results), _contents(results), join(sections, by="\n"), footer(results))
    body = f"{main}\n<script>{script}</script>"
    return f'<!doctype html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{body}\n</body>\n</html>\n'


def _asset(name: str) -> str:
    return files("spark_jobs.page").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _header(results: Sequence[Result]) -> Html:
    result = results[-1]
    changed = changes(results[0], result) if len(results) > 1 else []
    return tag(
        "header",
        tag("p", _kind(results), class_="kind"),
        tag("h1", verdict.headline(results)),
        *[tag("p", _meta(result, len(results) > 1), class_="meta") for result in results],
        *(
            [_findings(changed), tag("p", f"Findings about {formats.name(result.label)}", class_="kind")]
            if changed
            else []
        ),
        _findings(findings(result)),
        _tiles(results[0]) if len(results) == 1 else "",
    )


def _findings(found: Sequence[Finding]) -> Html:
    items = [
        tag(
            "li",
            tag("b", finding.subject),
            tag("span", finding.text, *([" ", tag("em", finding.act)] if finding.act else [])),
            class_=_CLASSES[finding.grade],
        )
        for finding in found
    ]
    return tag("ul", *items, class_="verdict")


def _kind(results: Sequence[Result]) -> str:
    names = [formats.name(result.label, LONGEST_LABEL) for result in reversed(results)]
    return f"Sluice fairness report · {' against '.join(names)}"


def _meta(result: Result, named: bool) -> str:
    facts = result.facts
    name = f"{formats.name(result.label, LONGEST_LABEL)}: " if named else ""
    brokers = f" · {formats.counted(len(facts.brokers), 'broker')}" if facts.brokers else ""
    return (
        f"{name}{formats.moment(facts.first)} to {formats.moment(facts.last)} UTC{brokers} · "
        f"{facts.sessions:,} sessions · {facts.rows:,} rows · "
        f"points of {formats.seconds(facts.window_us / 1e6)}"
    )


def _tiles(result: Result) -> Html:
    total = result.maybe("totals", qos="all")
    if total is None:
        return Html("")
    fair = result.maybe("fairness", scope="all", qos="all") or {}
    starved = result.maybe("starvation", length="all") or {}
    pressed = total["pressure_seconds"] / total["seconds"] if total["seconds"] else None
    tiles = [
        (formats.count(starved.get("sessions", 0)), "sessions starved", bool(starved.get("sessions"))),
        (formats.index(fair.get("jain_delivery_ratio")), "Jain’s fairness index", False),
        (formats.short(total["offered"]), "deliveries offered", False),
        (formats.percent(total["delivery_ratio"]), "of them sent", False),
        (formats.short(total["dropped"]), "dropped", False),
        (formats.percent(None if pressed is None else min(1.0, pressed)), "of the time under pressure", False),
    ]
    made = [
        tag("div", tag("b", shown), tag("span", what), class_="tile bad" if bad else "tile")
        for shown, what, bad in tiles
    ]
    return tag("div", *made, class_="tiles")


def _contents(results: Sequence[Result]) -> Html:
    named = (
        *([("changes", "What changed")] if len(results) > 1 else []),
        ("fairness", "Fairness"),
        ("deliveries", "Deliveries"),
        ("latency", "Latency"),
        ("evenness", "Evenness"),
        ("worst", "Poorly served"),
        ("starvation", "Starvation"),
        ("mailbox", "Mailboxes"),
        ("ack", "Acknowledgement"),
        ("wait", "Waiting"),
        ("gate", "Gate"),
        ("head-of-line", "Head-of-line blocking"),
        ("order", "Order"),
        ("publishers", "Publishers"),
        ("quality", "Data quality"),
        ("definitions", "Definitions"),
    )
    links = [tag("li", tag("a", name, href=f"#{id_}")) for id_, name in named]
    return tag("nav", tag("ul", *links), aria_label="Contents")


def _sections(results: Sequence[Result]) -> list[Html]:
    return [
        *([changes_section(results)] if len(results) > 1 else []),
        fairness_section(results),
        deliveries_section(results),
        latency_section(results),
        evenness_section(results),
        worst_section(results),
        starvation_section(results),
        distribution_section(results, "mailbox"),
        distribution_section(results, "ack"),
        distribution_section(results, "wait"),
        gate_section(results),
        head_of_line_section(results),
        order_section(results),
        publishers_section(results),
        quality_section(results),
        definitions_section(),
    ]
