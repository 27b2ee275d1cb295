"""The whole page: head, verdict, sections."""

from collections.abc import Sequence
from typing import Final

from spark_jobs import formats
from spark_jobs.measures.client import NAME as CLIENT
from spark_jobs.measures.files import TABLES
from spark_jobs.measures.result import Result
from spark_jobs.metrics import SCHEMA
from spark_jobs.page import verdict
from spark_jobs.page.changes import changes_section
from spark_jobs.page.client import client_section
from spark_jobs.page.closing import quality_section
from spark_jobs.page.differences import changes
from spark_jobs.page.evenness import evenness_section
from spark_jobs.page.finding import Grade
from spark_jobs.page.findings import findings, is_few
from spark_jobs.page.markup import Html
from spark_jobs.page.named_sessions import order_section, starvation_section, worst_section
from spark_jobs.page.publishers import publishers_section
from spark_jobs.page.queues import distribution_section, gate_section, head_of_line_section
from spark_jobs.page.templates import fill_page
from spark_jobs.page.timelines import deliveries_section, fairness_section, latency_section
from spark_jobs.page.words import WORDS

MOST_RUNS: Final = 2
LONGEST_LABEL: Final = 60
CLASSES: Final = {Grade.UNFAIR: "bad", Grade.WATCH: "watch", Grade.NOTE: "plain", Grade.GOOD: "good"}


def render(results: Sequence[Result]) -> str:
    """The page of one run, or of two, the baseline first. Its size does not depend on the number of sessions.

    Raises:
        ValueError: there are more than two runs, or none.
    """
    if not 1 <= len(results) <= MOST_RUNS:
        raise ValueError(f"the page shows one run or two, not {len(results)}")
    result, several = results[-1], len(results) > 1
    return fill_page(
        "report.html",
        zoom=True,
        title="Fairness report: " + " and ".join(formats.name(r.label, LONGEST_LABEL) for r in results),
        kind=_kind(results),
        headline=verdict.headline(results),
        meta=[_meta(each, several) for each in results],
        changed=changes(results[0], result) if several else [],
        about=formats.name(result.label),
        found=findings(result),
        classes=CLASSES,
        tiles=[] if several else _tiles(result),
        contents=_contents(results),
        sections=_sections(results),
        definitions=WORDS["definitions"],
        definition_ids={name: f"definition-{place}" for place, name in enumerate(WORDS["definitions"], 1)},
        tables=_tables(results),
        schema=f"{SCHEMA.name} version {SCHEMA.version}",
        zone=formats.zone_name(),
    )


def _kind(results: Sequence[Result]) -> str:
    names = [formats.name(result.label, LONGEST_LABEL) for result in reversed(results)]
    return f"Sluice fairness report · {' against '.join(names)}"


def _meta(result: Result, named: bool) -> str:
    facts = result.facts
    name = f"{formats.name(result.label, LONGEST_LABEL)}: " if named else ""
    brokers = f" · {formats.counted(len(facts.brokers), 'broker')}" if facts.brokers else ""
    return (
        f"{name}{formats.moment(facts.first)} to {formats.moment(facts.last)} {formats.zone_name()}{brokers} · "
        f"{facts.clients:,} clients · {facts.rows:,} rows · "
        f"points of {formats.seconds(facts.window_us / 1e6)}"
    )


def _tiles(result: Result) -> list[tuple[str, str, bool]]:
    """Figures of the run: as shown, what they are, and whether they are bad."""
    total = result.maybe("totals", qos="all")
    if total is None:
        return []
    fair = result.maybe("fairness", scope="all", qos="all") or {}
    starved = result.maybe("starvation", length="all") or {}
    number = starved.get("clients", 0)
    return [
        (formats.count(number), "clients starved", bool(number) and not is_few(result)),
        (formats.index(fair.get("jain_delivery_ratio")), "Jain’s fairness index", False),
        (formats.short(total["offered"]), "deliveries offered", False),
        (formats.percent(total["delivery_ratio"]), "sent of what was due", False),
        (formats.short(total["dropped"]), "dropped", False),
        (formats.percent(total["pressure_share"]), "of the sessions’ time under pressure", False),
    ]


def _contents(results: Sequence[Result]) -> list[tuple[str, str]]:
    """Id and name of each section."""
    return [
        *([("client", "One client")] if CLIENT in results[-1].tables else []),
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
    ]


def _tables(results: Sequence[Result]) -> list[str]:
    """The tables that the page links to."""
    left_out = {"comparison"} if len(results) == 1 else set()
    if CLIENT not in results[-1].tables:
        left_out.add(CLIENT)
    return [name for name in TABLES if name not in left_out]


def _sections(results: Sequence[Result]) -> list[Html]:
    return [
        *([client_section(results)] if CLIENT in results[-1].tables else []),
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
    ]
