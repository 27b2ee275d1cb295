"""The verdict of a report: the headline, and the findings as sentences.

Plain text without markup: the page and summary.json both show it.
"""

from collections.abc import Sequence
from typing import Final

from spark_jobs import formats
from spark_jobs.measures.result import Result
from spark_jobs.page.differences import changes, what_changed
from spark_jobs.page.findings import ALIKE, LESS, findings, is_few
from spark_jobs.page.trouble import Trouble, because, poorly_served, starvation

_DISTURBING: Final = ("Publisher", "Reconnects", "Group")
"""Findings that are the headline if no client was served badly."""


def headline(results: Sequence[Result]) -> str:
    """One sentence: which clients were treated unfairly, since when and why; for two runs, what changed."""
    return _headline_of(results[0]) if len(results) == 1 else what_changed(results[0], results[1])


def sentences(results: Sequence[Result]) -> list[str]:
    """The findings as sentences: for two runs the changes first; then those about the last run, most severe first."""
    result = results[-1]
    if len(results) == 1:
        return [f"{finding.subject}: {finding.text}" for finding in findings(result)]
    of = formats.name(result.label)
    named = [f"{of}, {formats.inside(finding.subject)}: {finding.text}" for finding in findings(result)]
    return [*[f"{change.subject}: {change.text}" for change in changes(results[0], result)], *named]


def _headline_of(result: Result) -> str:
    total = result.maybe("totals", qos="all")
    if total is None or not total["offered"]:
        told = next((each.text for each in findings(result) if each.subject == "Group"), "")
        return told or "Nothing was offered to any client."
    starved = starvation(result)
    if starved is not None:
        were = "were" if starved.several else "was"
        of = f"{starved.number:,} of {formats.counted(result.facts.clients, 'client')} {were} starved"
        nearly = "Nearly all clients were served well: " if is_few(result) else ""
        return f"{nearly}{of}{starved.since}{_mostly(starved)}."
    poor = poorly_served(result)
    if poor is not None:
        were = f"{formats.counted(poor.number, 'client')} {'were' if poor.several else 'was'}"
        nearly = "Nearly all clients were served well: " if is_few(result) else ""
        return f"{nearly}{were} sent less than {LESS} of what was due{poor.since}{_mostly(poor)}."
    if disturbed := next((each.text for each in findings(result) if each.subject in _DISTURBING), ""):
        return disturbed
    row = result.maybe("fairness", scope="all", qos="all")
    if row is None or row["jain_delivery_ratio"] is None:
        if total["missed"] and not total["due"]:
            return "Nothing was due to any client: those that deliveries were offered to were away."
        return "None of the offered deliveries was sent."
    if row["jain_delivery_ratio"] < ALIKE:
        return f"Clients were treated unequally: Jain’s index is {formats.index(row['jain_delivery_ratio'])}."
    return (
        "No client was treated unfairly: each was sent at least "
        f"{formats.percent(min(1.0, row['lowest_delivery_ratio'] or 0.0))} of what was due to it, "
        "and none was starved."
    )


def _mostly(trouble: Trouble) -> str:
    if not trouble.why:
        return ""
    one, several, _ = because(trouble.why)
    return f", mostly because {several}" if trouble.several else f", because {one}"
