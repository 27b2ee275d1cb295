"""Computes all measures of one run: from the compacted rows of a selection to a `Result`."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from itertools import count
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.errors import ReportError
from spark_jobs.measures import (
    blocking,
    client,
    fairness,
    gate,
    groups,
    hours,
    lorenz,
    percentiles,
    quality,
    reasons,
    reconnects,
    starvation,
    sums,
    timeline,
    top,
    totals,
    worst_hours,
)
from spark_jobs.measures.evenness import Evenness
from spark_jobs.measures.files import STARVED
from spark_jobs.measures.frames import Finding, StoreFrames
from spark_jobs.measures.layout import CLIENT, LAYOUTS, STARVED_SESSIONS
from spark_jobs.measures.result import Facts, Result, Row, of_layout, table
from spark_jobs.measures.sessions import per_client, there
from spark_jobs.measures.starvation import MOST_WORST, STARVED_AFTER
from spark_jobs.measures.sums import Sums
from spark_jobs.measures.why import shares, why_starved
from spark_jobs.progress import Progress
from spark_jobs.store.schema import HOUR_US
from spark_jobs.store.taken import hour_name


def measure(
    frames: StoreFrames,
    label: str,
    progress: Progress,
    *,
    window_us: int | None = None,
    starved_after: int = STARVED_AFTER,
    client_id: str | None = None,
) -> Result:
    """Compute every table of `layout.LAYOUTS` except `comparison`.

    Args:
        frames: the compacted rows.
        label: name of the run in the report.
        progress: prints each stage.
        window_us: length of the timeline's windows, a whole number of slots; None: chosen. Runs that are
            compared should share one, see `timeline.choose_window`.
        starved_after: a session is starved after this many intervals in a row without a delivery.
        client_id: also make the table `client`, about this one; None: about none.

    Raises:
        ReportError: there are no rows.
    """
    with progress.stage(f"{label}: adding up the hours") as stage:
        found = sums.sums_of(_collected(sums.by_hour(frames.sessions)))
        if not found.hours:
            raise ReportError(f"{label}: no rows in the requested range. {frames.there}".strip())
        whole = found.whole
        stage.note = f"{whole['rows']:,} rows, {whole.sessions:,} session hours, {len(found.hours):,} hours"
    tables = _shared(frames)
    with progress.stage(f"{label}: adding up the timeline"):
        window_us = window_us or timeline.choose_window(whole["first_us"], whole["last_us"], frames.slot_us)
        by_window = timeline.by_window(frames.timeline, frames.slot_us, window_us, whole["first_us"])
        windows = timeline.windows_of(_collected(by_window))
        tables["timeline"] = timeline.timeline(windows, window_us)
    with progress.stage(f"{label}: clients") as stage:
        of_clients, starved, counts, brokers = _of_clients(frames, found, starved_after)
        tables |= of_clients | {"queues": totals.queues(found.whole, *tables["queues"])}
        findings = (*frames.findings, *lost(frames, found, progress))
        tables["quality"] = quality.quality(counts, whole, frames.files, findings)
        tables["files"] = quality.files_table(frames.files)
        stage.note = f"{counts['clients']:,} clients, {starved.num_rows:,} starved"
    made = _as_arrow(tables, starved, label)
    if client_id is not None:
        own = _collected(client.of_client(frames.sessions, client_id))
        made[client.NAME] = of_layout(CLIENT, label, client.client_hours(own))
    facts = Facts(
        label=label,
        clients=counts["clients"],
        brokers=tuple(sorted(brokers)),
        window_us=window_us,
        starved_after=starved_after,
        **_facts(frames, found),
    )
    return Result(facts, made, windows)


def _of_clients(
    frames: StoreFrames, found: Sums, starved_after: int
) -> tuple[dict[str, list[Row]], pa.Table, Row, Collection[str]]:
    """The tables about clients, all starved ones, numbers of clients by kind, and the brokers."""
    clients = per_client(frames.sessions).persist()
    pieces = starvation.with_runs(frames.starvation).persist()
    try:
        [counts] = _collected(clients.agg(*[column.alias(name) for name, column in _counts().items()]))
        scopes = _scopes(clients)
        starved = starvation.starved_sessions(pieces, clients, starved_after).toArrow()
        reconnecting = reconnects.reconnecting(_collected(reconnects.by_client(frames.sessions)))
        tables = {
            **_of_sums(found, counts),
            **_fairness(clients, found, counts, scopes),
            **_named(frames, clients, found, counts["lost"]),
            **_starvation(pieces, starved, starved_after, found.covered_us),
            "reconnecting_clients": reconnecting,
            "hours": _hours(frames, found, pieces, starved_after),
        }
    finally:
        clients.unpersist()
        pieces.unpersist()
    return tables, starved, counts, scopes["broker"]


def _shared(frames: StoreFrames) -> dict[str, list[Row]]:
    """The tables about groups of shared subscriptions; of `queues` their part."""
    if frames.groups is None:
        return {"groups": [], "group_members": [], "queues": [{"groups": 0, "groups_lost": 0}]}
    members = groups.by_member(frames.groups).persist()
    try:
        of_groups = groups.by_group(members)
        first = groups.first_groups(of_groups)
        shown = _collected(first)
        listed = groups.member_rows(_collected(groups.first_members(members, first)), shown)
        whole = _collected(groups.totals(of_groups))
    finally:
        members.unpersist()
    return {"groups": [groups.group_row(row) for row in shown], "group_members": listed, "queues": whole}


def _as_arrow(tables: Mapping[str, list[Row]], starved: pa.Table, label: str) -> dict[str, pa.Table]:
    made = {name: table(name, label, tables[name]) for name in LAYOUTS if name in tables}
    listed = starved.add_column(0, "run", pa.array([label] * starved.num_rows, pa.string()))
    return made | {STARVED: listed.select(STARVED_SESSIONS.schema.names).cast(STARVED_SESSIONS.schema)}


def _facts(frames: StoreFrames, found: Sums) -> dict[str, Any]:
    """What `Facts` has of the input."""
    whole = found.whole
    return {
        "rows": whole["rows"],
        "hours": len(found.hours),
        "first_us": whole["first_us"],
        "last_us": whole["last_us"],
        "slot_us": frames.slot_us,
        "interval_us": found.interval_us,
        "watermarks": dict(sorted(frames.watermarks.items())),
        "version": frames.version,
        "files": dict(sorted(Counter(file.status for file in frames.files).items())),
        "asked_from_us": frames.asked_from_us,
        "asked_to_us": frames.asked_to_us,
        "broker": frames.broker,
    }


def _collected(frame: DataFrame) -> list[Row]:
    return [row.asDict() for row in frame.collect()]


def lost(frames: StoreFrames, found: Sums, progress: Progress) -> Iterator[Finding]:
    """Hours with missing rows in the store."""
    if frames.broker is not None:  # ledgers do not have the number of rows by broker
        return
    there = {hour: part["rows"] for hour, part in found.hours.items()}
    short = [hour for hour, rows in sorted(frames.hour_rows.items()) if there.get(hour, 0) != rows]
    if short:
        end = next(hour for hour in count(short[0] + HOUR_US, HOUR_US) if hour not in short)
        first, last = hour_name(short[0]), hour_name(end)
        text = (
            "Hours with missing rows in the store: build them again from their raw files, the first ones with "
            f"`sluice compact --rebuild --from {first} --to {last} ...`."
        )
        progress.warn(f"{len(short)} hours. {text}")
        yield Finding("damaged_hours", len(short), f"{first}..{last}", text)


def _counts() -> dict[str, Any]:
    """Sums over clients: those that can be served, those of several kinds, and what `totals` needs."""
    kinds = {name: F.col(name) > 0 for name in blocking.REPORTS}
    kinds |= {"window_full": top.window_full(), "inverted": F.col("inverted_qos0") > 0}
    counts = {name: F.count_if(which) for name, which in kinds.items()}
    lost = F.sum(F.col("dropped") - F.col("away_dropped"))
    served = {"clients": F.count_if(there()), "lost": lost, **totals.of_clients()}
    return {**served, **counts, **quality.session_findings()}


def _scopes(clients: DataFrame) -> dict[str, list[str]]:
    """The names of brokers, listeners and client id prefixes, largest first."""
    found: dict[str, list[str]] = {scope: [] for scope in fairness.GROUPED_BY}
    for row in sorted(_collected(fairness.largest_groups(clients)), key=lambda row: row["place"]):
        found[row["scope"]].append(row["name"])
    return found


def _of_sums(found: Sums, counts: Mapping[str, int]) -> dict[str, list[Row]]:
    """The tables that only need sums."""
    whole, of_range = found.whole, totals.totals(found, counts)
    return {
        "totals": of_range,
        "books": totals.books(whole),
        "reasons": reasons.reasons(whole),
        "percentiles": percentiles.percentiles(whole),
        "histograms": percentiles.histograms(whole),
        "gate": gate.gate(whole, {row["qos"]: row["missed"] for row in of_range}),
    }


def _fairness(
    clients: DataFrame, found: Sums, counts: Mapping[str, int], scopes: Mapping[str, list[str]]
) -> dict[str, list[Row]]:
    shown = {scope: names[: fairness.MOST_NAMES] for scope, names in scopes.items()}
    even = _collected(fairness.by_scope(clients, found.interval_us, shown))
    return {
        "fairness": fairness.fairness(even, shown),
        "lorenz": lorenz.lorenz(_collected(lorenz.points(clients, found.interval_us))),
        "head_of_line": blocking.head_of_line(found.whole, counts),
        "stalled": blocking.stalled(found.whole, counts),
        "inversion": blocking.inversion(found.whole, counts),
    }


def _starvation(
    pieces: DataFrame, starved: pa.Table, starved_after: int, covered_us: int
) -> dict[str, list[Row]]:
    listed = [name for name, _ in LAYOUTS["starved_worst"].columns]
    worst = []
    for row in starved.slice(0, MOST_WORST).to_pylist():
        named = {name: value for name, value in row.items() if name in listed}
        worst.append(named | shares(row) | {"why": why_starved(row)})
    by_length = _collected(starvation.by_length(pieces, starved_after))
    return {"starvation": starvation.starvation(by_length, starved_after, covered_us), "starved_worst": worst}


def _hours(frames: StoreFrames, found: Sums, pieces: DataFrame, starved_after: int) -> list[Row]:
    rows = _collected(fairness.by_hour(frames.sessions, found.interval_us))
    even = {(row["hour_us"], row["what"]): Evenness.of(row) for row in rows}
    starved = _collected(starvation.by_hour(pieces, starved_after))
    return hours.hours(found, even, fairness.shares(rows), {row["hour_us"]: row["clients"] for row in starved})


def _named(frames: StoreFrames, clients: DataFrame, found: Sums, lost: int) -> dict[str, list[Row]]:
    """The tables that list the first clients in some order."""
    first = top.by_table(_collected(top.first_of_each(clients)))
    received = totals.received(found.whole)
    worst = first[top.WORST]
    points = _collected(worst_hours.by_point(frames.sessions, worst, len(found.hours))) if worst else []
    times = worst_hours.hours_of(points, worst)
    return {
        "worst_sessions": [
            {**top.worst_session(row), **worst_hours.latencies(times, rank)} for rank, row in enumerate(worst, 1)
        ],
        "worst_hours": worst_hours.worst_hours(times, worst),
        "away_clients": [top.away_client(row) for row in first[top.AWAY]],
        "dropped_clients": [top.dropped_client(row, lost) for row in first[top.DROPPED]],
        "inverted_sessions": [top.inverted_session(row) for row in first[top.INVERTED]],
        "head_of_line_sessions": [top.head_of_line_session(row) for row in first[top.HEAD_OF_LINE]],
        "stalled_sessions": [top.stalled_session(row) for row in first[top.STALLED]],
        "paced_for_sessions": [top.paced_for_session(row) for row in first[top.PACED_FOR]],
        "publishers": [
            top.publisher(row, received["messages"], received["bytes"]) for row in first[top.PUBLISHERS]
        ],
    }
