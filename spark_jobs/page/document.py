"""The whole page: the first screen, and the sections, which are folded."""

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
from spark_jobs.page.clients import order_section, publishers_section, starvation_section, worst_section
from spark_jobs.page.differences import changes
from spark_jobs.page.evenness import evenness_section
from spark_jobs.page.finding import CLASSES, Finding, Grade
from spark_jobs.page.findings import findings
from spark_jobs.page.first import people, tiles
from spark_jobs.page.groups import groups_section
from spark_jobs.page.markup import Section
from spark_jobs.page.quality import quality_section
from spark_jobs.page.queues import distribution_section, gate_section, head_of_line_section
from spark_jobs.page.templates import fill_page
from spark_jobs.page.timelines import deliveries_section, fairness_section, latency_section
from spark_jobs.page.words import WORDS

MOST_RUNS: Final = 2
MOST_FINDINGS: Final = 3
"""On the first screen; the others are folded."""
LONGEST_LABEL: Final = 60
OPEN: Final = ("client", "changes", "fairness")
"""The sections that are not folded."""


def render(results: Sequence[Result]) -> str:
    """The page of one run, or of two, the baseline first. Its size does not depend on the number of sessions.

    Raises:
        ValueError: there are more than two runs, or none.
    """
    if not 1 <= len(results) <= MOST_RUNS:
        raise ValueError(f"the page shows one run or two, not {len(results)}")
    result, several = results[-1], len(results) > 1
    about = findings(result)
    found = [*(changes(results[0], result) if several else []), *about]
    first = [each for each in found if each.grade > Grade.GOOD or several][:MOST_FINDINGS]
    sections = _sections(results, about)
    return fill_page(
        "report.html",
        zoom=True,
        title="Fairness report: " + " and ".join(formats.name(r.label, LONGEST_LABEL) for r in results),
        kind=_kind(results),
        headline=verdict.headline(results),
        meta=[_meta(each, several) for each in results],
        tiles=tiles(results),
        people=people(result),
        first=first,
        others=[each for each in found if each not in first],
        classes=CLASSES,
        open=OPEN,
        sections=[section for section in sections if section.id in OPEN or any(section.parts)],
        empty=[section for section in sections if section.id not in OPEN and not any(section.parts)],
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


def _tables(results: Sequence[Result]) -> list[str]:
    """The tables that the page links to."""
    left_out = {"comparison"} if len(results) == 1 else set()
    if CLIENT not in results[-1].tables:
        left_out.add(CLIENT)
    return [name for name in TABLES if name not in left_out]


def _sections(results: Sequence[Result], found: Sequence[Finding]) -> list[Section]:
    return [
        *([client_section(results)] if CLIENT in results[-1].tables else []),
        *([changes_section(results)] if len(results) > 1 else []),
        fairness_section(results, found),
        worst_section(results),
        starvation_section(results),
        publishers_section(results),
        groups_section(results),
        deliveries_section(results),
        latency_section(results),
        evenness_section(results),
        *(distribution_section(results, metric) for metric in ("mailbox", "ack", "wait")),
        gate_section(results),
        head_of_line_section(results),
        order_section(results),
        quality_section(results),
    ]
