"""Computes all measures of one run: from the compacted rows of a selection to a `Result`."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.arrays import Groups, Ints, ints
from spark_jobs.errors import ReportError
from spark_jobs.measures import (
    blocking,
    client,
    fairness,
    gate,
    hours,
    lorenz,
    percentiles,
    quality,
    reasons,
    reconnects,
    starvation,
    timeline,
    top,
    totals,
    worst_hours,
)
from spark_jobs.measures.evenness import Evenness
from spark_jobs.measures.files import STARVED
from spark_jobs.measures.frames import Finding, StoreFrames
from spark_jobs.measures.layout import CLIENT, LAYOUTS, STARVED_SESSIONS
from spark_jobs.measures.numbers import ratio
from spark_jobs.measures.result import Facts, Result, Row, of_layout, table
from spark_jobs.measures.sessions import CLIENT as CLIENT_KEY
from spark_jobs.measures.sessions import CLOCKS, of_hours, per_client, there
from spark_jobs.measures.starvation import MOST_WORST, STARVED_AFTER
from spark_jobs.measures.sums import HourSums, Sums, added, sums_of
from spark_jobs.measures.why import shares, why_starved
from spark_jobs.metrics import DROP_REASONS
from spark_jobs.progress import Progress
from spark_jobs.store.schema import HOUR_US
from spark_jobs.store.taken import hour_name

_MOST_HOURS: Final = 500_000
"""Rows of session hours that are merged to clients at once."""
Demand = tuple[Ints, Ints, Ints]
_DEMAND: Final = ("due", "sent", "connected_us")


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
    with progress.stage(f"{label}: reading the session hours") as stage:
        read = read_sessions(frames)
        sums = read.sums
        if not sums.hours:
            raise ReportError(f"{label}: no rows in the requested range. {frames.there}".strip())
        whole = sums.whole
        stage.note = f"{whole['rows']:,} rows, {whole.sessions:,} session hours, {len(sums.hours):,} hours"
    with progress.stage(f"{label}: measures") as stage:
        tables: dict[str, list[Row]] = {}
        window_us = window_us or timeline.choose_window(whole["first_us"], whole["last_us"], frames.slot_us)
        windows = timeline.by_window(
            frames.timeline.parts(timeline.COLUMNS), frames.slot_us, window_us, whole["first_us"]
        )
        tables["timeline"] = timeline.timeline(windows, window_us)
        kept = _Kept(frames, sums, read.clients, read.demand, starved_after)
        tables |= _of_sums(sums, read.clients) | _fairness(kept) | _starvation(kept) | _named(kept)
        tables["hours"] = hours.hours(
            sums, kept.evenness, kept.shares, starvation.per_hour(kept.pieces, starved_after)
        )
        findings = (*frames.findings, *lost(frames, sums, progress))
        tables["quality"] = quality.quality(kept.counts, whole, frames.files, findings)
        tables["reconnecting_clients"] = read.reconnecting
        tables["files"] = quality.files_table(frames.files)
        facts = _facts(frames, label, kept, window_us)
        stage.note = f"{kept.counts['clients']:,} clients, {tables['starvation'][0]['clients']:,} starved"
    all_tables = _as_arrow(tables, label) | {STARVED: kept.all_starved(label)}
    if client_id is not None:
        hours_of_client = client.client_hours(frames.sessions.parts(), client_id)
        all_tables[client.NAME] = of_layout(CLIENT, label, hours_of_client)
    return Result(facts, all_tables, windows)


@dataclass(frozen=True)
class _Read:
    """What one pass over the session hours gives.

    Attributes:
        sums: of every hour.
        clients: one row per client, see `sessions.per_client`.
        demand: hour -> due, sent and connected_us of its clients.
        reconnecting: the rows of that table.
    """

    sums: Sums
    clients: pa.Table
    demand: Mapping[int, Demand]
    reconnecting: list[Row]


def read_sessions(frames: StoreFrames) -> _Read:
    """Read all session hours once."""
    sums: dict[int, list[HourSums]] = defaultdict(list)
    demand: list[pa.Table] = []
    waiting: list[pa.Table] = []
    for part in frames.sessions.parts():
        for hour_us, found in sums_of(part).items():
            sums[hour_us].append(found)
        narrow = of_hours(part)
        demand.append(narrow.select([*reconnects.COLUMNS, "due", "sent"]))
        waiting.append(narrow.drop_columns("session_started_us"))
        if sum(each.num_rows for each in waiting) > _MOST_HOURS:
            waiting = [per_client(pa.concat_tables(waiting))]
    return _Read(
        Sums({hour_us: added(sums[hour_us]) for hour_us in sorted(sums)}),
        per_client(pa.concat_tables(waiting)) if waiting else pa.table({}),
        _by_hour(pa.concat_tables(demand)),
        reconnects.reconnecting(pa.concat_tables(demand)),
    )


def _by_hour(demand: pa.Table) -> dict[int, Demand]:
    """Hour -> due, sent and connected_us of each client, over its sessions."""
    clients = Groups(demand, ("hour_us", *CLIENT_KEY))
    flow = np.stack([clients.sum(ints(demand, name)) for name in _DEMAND])
    hours, starts = np.unique(ints(pa.table(clients.keys()), "hour_us"), return_index=True)
    parts = np.split(flow, starts, axis=1)[1:]
    return {hour: (due, sent, us) for hour, (due, sent, us) in zip(hours.tolist(), parts, strict=True)}


def lost(frames: StoreFrames, sums: Sums, progress: Progress) -> Iterator[Finding]:
    """Hours with missing rows in the store."""
    if frames.broker is not None:  # ledgers do not have the number of rows by broker
        return
    there = {hour: part["rows"] for hour, part in sums.hours.items()}
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


@dataclass(frozen=True)
class _Kept:
    """What several tables use: sums, clients, demand by hour (see `_Read`), and facts about them."""

    frames: StoreFrames
    sums: Sums
    clients: pa.Table
    demand: Mapping[int, Demand]
    starved_after: int

    @property
    def interval_us(self) -> int:
        """The usual interval: the mean length."""
        return max(1, self.sums.whole["duration_us"] // max(1, self.sums.whole["rows"]))

    @cached_property
    def counts(self) -> Row:
        """The numbers of clients, of those that can be served, and of several kinds; the brokers' names."""
        kinds = {name: ints(self.clients, name) > 0 for name in blocking.REPORTS}
        kinds |= {"window_full": top.window_full(self.clients), "inverted": ints(self.clients, "inverted_qos0") > 0}
        return {
            "clients": int(there(self.clients).sum()),
            "brokers": sorted(set(self.clients["broker"].to_pylist())),
            **{kind: int(which.sum()) for kind, which in kinds.items()},
            **quality.session_findings(self.clients),
        }

    @cached_property
    def shares(self) -> Mapping[int, float | None]:
        """Hour -> delivery ratio of its clients together."""
        return {
            hour_us: ratio(int(np.minimum(sent, due).sum()), int(due.sum()))
            for hour_us, (due, sent, _) in self.demand.items()
        }

    @cached_property
    def evenness(self) -> Mapping[tuple[int, str], Evenness]:
        """Hour and compared quantity -> evenness over the hour's clients."""
        return {
            (hour_us, what): Evenness.of(values)
            for hour_us, flow in self.demand.items()
            for what, (_, values) in fairness.values_of(*flow, self.interval_us).items()
        }

    @cached_property
    def pieces(self) -> pa.Table:
        """Runs of starvation split at hours, see `starvation.with_runs`."""
        return starvation.with_runs(pa.concat_tables(self.frames.starvation.parts()))

    @cached_property
    def starved(self) -> pa.Table:
        """One row per starved client."""
        return starvation.starved_sessions(starvation.runs_of(self.pieces), self.starved_after)

    def all_starved(self, label: str) -> pa.Table:
        """The table of all starved clients."""
        known = self.clients.select([*CLIENT_KEY, "begun", "listener", "client_prefix"])
        order = self.starved.append_column("place", pa.array(range(self.starved.num_rows), pa.int64()))
        joined = order.join(known, list(CLIENT_KEY), join_type="inner").sort_by("place")
        run = pa.array([label] * joined.num_rows, pa.string())
        columns = [run, *[joined[name] for name, _ in STARVED_SESSIONS.columns]]
        return pa.table(columns, schema=STARVED_SESSIONS.schema)


def _of_sums(sums: Sums, clients: pa.Table) -> dict[str, list[Row]]:
    """The tables that mostly need sums."""
    whole, of_range = sums.whole, totals.totals(sums, clients)
    return {
        "totals": of_range,
        "books": totals.books(whole),
        "queues": totals.queues(whole),
        "reasons": reasons.reasons(whole),
        "percentiles": percentiles.percentiles(whole),
        "histograms": percentiles.histograms(whole),
        "gate": gate.gate(whole, {row["qos"]: row["missed"] for row in of_range}),
    }


def _fairness(kept: _Kept) -> dict[str, list[Row]]:
    whole, counts = kept.sums.whole, kept.counts
    groups = fairness.largest_groups(kept.clients)
    return {
        "fairness": fairness.fairness(kept.clients, kept.interval_us, groups),
        "lorenz": lorenz.lorenz(kept.clients, kept.interval_us),
        "head_of_line": blocking.head_of_line(whole, counts),
        "stalled": blocking.stalled(whole, counts),
        "inversion": blocking.inversion(whole, counts),
    }


def _starvation(kept: _Kept) -> dict[str, list[Row]]:
    worst = kept.starved.slice(0, MOST_WORST).to_pylist()
    times = ("duration_us", "connected_us", *[f"{clock}_us" for clock in CLOCKS])
    gauges = ("window_limit", "max_inflight", "mqueue_max")
    names = ("begun", "listener", "client_prefix", *gauges, "paced_for_us", *times, "offered", "due", "sent")
    few = pa.array([row["client_id"] for row in worst], pa.string())
    own = kept.clients.filter(pc.is_in(kept.clients["client_id"], few))
    known = {
        tuple(row[name] for name in CLIENT_KEY): row
        for row in own.select([*CLIENT_KEY, *names, *[f"dropped_{reason}" for reason in DROP_REASONS]]).to_pylist()
    }
    listed = [name for name, _ in LAYOUTS["starved_worst"].columns]
    rows = []
    for starved in worst:
        row = known[tuple(starved[name] for name in CLIENT_KEY)]
        row = {**row, "offered_in_range": row["offered"], "sent_in_range": row["sent"], **starved}
        named = {name: value for name, value in row.items() if name in listed}
        rows.append(named | shares(row) | {"why": why_starved(row)})
    return {
        "starvation": starvation.starvation(
            starvation.runs_of(kept.pieces), kept.starved_after, kept.sums.covered_us
        ),
        "starved_worst": rows,
    }


def _named(kept: _Kept) -> dict[str, list[Row]]:
    """The tables that list the first sessions in some order."""
    first = top.first_of_each(kept.clients)
    received = totals.received(kept.sums.whole)
    worst = first[top.WORST]
    lost = int((ints(kept.clients, "dropped") - ints(kept.clients, "away_dropped")).sum())
    times = worst_hours.hours_of(kept.frames.sessions.parts(worst_hours.COLUMNS), worst, len(kept.sums.hours))
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


def _facts(frames: StoreFrames, label: str, kept: _Kept, window_us: int) -> Facts:
    whole = kept.sums.whole
    return Facts(
        label=label,
        rows=whole["rows"],
        clients=kept.counts["clients"],
        brokers=tuple(kept.counts["brokers"]),
        hours=len(kept.sums.hours),
        first_us=whole["first_us"],
        last_us=whole["last_us"],
        slot_us=frames.slot_us,
        window_us=window_us,
        interval_us=kept.interval_us,
        starved_after=kept.starved_after,
        watermarks=dict(sorted(frames.watermarks.items())),
        version=frames.version,
        files=dict(sorted(Counter(file.status for file in frames.files).items())),
        asked_from_us=frames.asked_from_us,
        asked_to_us=frames.asked_to_us,
        broker=frames.broker,
    )


def _as_arrow(tables: Mapping[str, list[Row]], label: str) -> dict[str, pa.Table]:
    return {name: table(name, label, tables[name]) for name in LAYOUTS if name in tables}
