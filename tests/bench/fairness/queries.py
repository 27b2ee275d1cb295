"""The compacted datasets as DuckDB's SQL, written from their description and not from the Spark job's expressions.

Only names are shared, of the columns in `spark_jobs.store.schema`: what is added there without a line here has to
be a raw column of the same name, or the query fails.
"""

from collections.abc import Mapping
from typing import Final

from spark_jobs.metrics import DROP_REASONS, GATE_REASONS, drop_column
from spark_jobs.store.schema import (
    DATASETS,
    FAIR_ONE,
    GROUPS,
    HOUR_US,
    INTERVALS,
    SESSIONS,
    STARVATION,
    TIMELINE,
    How,
    keys,
)

TOLERANCE_US: Final = 1_000_000
QOS: Final = (0, 1, 2)
_HOUR: Final = f"(end_us // {HOUR_US}) * {HOUR_US}"
_HOW: Final = {How.SUM: "sum({})::BIGINT", How.MAX: "max({})", How.MIN: "min({})", How.ANY: "bool_or({})"}


def _total(what: str) -> str:
    return "(" + " + ".join(f"{what}_qos{qos}" for qos in QOS) + ")"


GATED: Final = "(" + " + ".join(f"gated_{reason}" for reason in GATE_REASONS) + ")"
PRESSED: Final = (
    "(congested_us > 0 OR window_full_us > 0 OR window_bytes_full_us > 0 OR rate_limited_us > 0"
    f" OR mailbox_busy_samples > 0 OR {GATED} > 0)"
)
ASKED: Final = f"({_total('offered')} > 0 OR {_total('waiting_start')} > 0)"
STARVES: Final = f"(connected AND {ASKED} AND {_total('sent')} = 0)"
BLOCKED: Final = "(waiting_start_qos1 + waiting_start_qos2 > 0 AND waiting_qos1 + waiting_qos2 > 0)"
LENGTH: Final = "greatest(epoch_us(interval_end) - epoch_us(interval_start), 0)"
LIVED: Final = f"CASE WHEN ended AND connected_us > 0 THEN least(connected_us, {LENGTH}) ELSE {LENGTH} END"


def _away(qos: int) -> str:
    """Drops because the client was away or had left, what came to wait for it, and what was due, of a row."""
    gone = f"dropped_session_ended_qos{qos}" + (" + dropped_offline_qos0_qos0" if qos == 0 else "")
    growth = f"CASE WHEN connected OR ended THEN 0 ELSE waiting_qos{qos} - waiting_start_qos{qos} END"
    dropped = f"CASE WHEN connected_us * 2 < lived_us THEN dropped_qos{qos} ELSE {gone} END"
    return f"""
            {dropped} AS away_dropped_qos{qos},
            {growth} AS away_waiting_qos{qos},
            CASE WHEN connected_us > 0 THEN
                greatest(offered_qos{qos} - ({dropped}) - greatest(away_waiting_qos{qos}, 0), 0)
            ELSE 0 END AS due_qos{qos}"""


def _books_off() -> str:
    return " OR ".join(
        f"waiting_start_qos{qos} + offered_qos{qos} <> "
        f"sent_qos{qos} + dropped_qos{qos} + superseded_qos{qos} + waiting_qos{qos}"
        for qos in QOS
    )


def _reasons_off() -> str:
    return " OR ".join(
        " + ".join(name for reason in DROP_REASONS if (name := drop_column(reason, qos))) + f" <> dropped_qos{qos}"
        for qos in QOS
    )


def rows(root: str) -> str:
    """A view of the raw files below `root`, with values that depend on one row only."""
    own = ", ".join(f"{name}_qos{qos}" for name in ("due", "away_dropped") for qos in QOS)
    return f"""
        CREATE OR REPLACE VIEW rows AS SELECT * EXCLUDE ({own}),
            epoch_us(session_started) AS session_started_us, epoch_us(interval_start) AS start_us,
            epoch_us(interval_end) AS end_us, {LENGTH} AS length_us, {LIVED} AS lived_us,
            {PRESSED} AS pressed, {STARVES} AS starves, {BLOCKED} AS blocked,
            {", ".join(map(_away, QOS))}
        FROM read_parquet('{root}/date=*/hour=*/*.parquet', hive_partitioning = false) WHERE client_id <> ''
    """


def _histograms(dataset: str, own: Mapping[str, str]) -> str:
    """The histograms of a dataset by its keys: entries as rows, summed by bucket, and collected into lists."""
    named = [column.name for column in DATASETS[dataset] if column.how is How.HISTOGRAM]
    every = dict.fromkeys(name.removeprefix("pressed_") for name in named)
    key = ", ".join(f"{own[name]} AS {name}" for name in keys(dataset))
    entries = " UNION ALL ".join(
        f"SELECT {key}, pressed, '{name}' AS name, unnest({name}) AS entry FROM rows" for name in every
    )
    lists = []
    for name in named:
        samples = "pressed_samples" if _of_pressed(name) else "samples"
        which = f"name = '{name.removeprefix('pressed_')}' AND {samples} > 0"
        lists.append(f"list(({samples} * 256 + bucket)::BIGINT ORDER BY bucket) FILTER ({which}) AS {name}")
    return f"""
        SELECT {", ".join(keys(dataset))}, {", ".join(lists)} FROM (
            SELECT * EXCLUDE (entry, pressed), entry % 256 AS bucket, sum(entry // 256) AS samples,
                sum(entry // 256) FILTER (pressed) AS pressed_samples
            FROM ({entries}) GROUP BY ALL
        ) GROUP BY ALL
    """


def _columns(dataset: str, own: Mapping[str, str]) -> str:
    """The select list of a dataset: an expression of our own, or else the aggregated raw column of that name."""
    parts = []
    for column in DATASETS[dataset]:
        expression = own.get(column.name) or _HOW[column.how].format(column.name)
        parts.append(f"{expression} AS {column.name}")
    return ",\n            ".join(parts)


def _of_pressed(name: str) -> bool:
    """Whether a column of the sessions is the sum of another column over the rows under pressure."""
    return name.startswith("pressed_")


def _parts() -> str:
    """Sums by session, hour and pressure, so that each raw value is added only once."""
    own = {
        "broker": "broker",
        "client_id": "client_id",
        "session_started_us": "session_started_us",
        "hour_us": _HOUR,
        "rows": "count(*)",
        "connected_rows": "count(*) FILTER (connected)",
        "duration_us": "sum(lived_us)::BIGINT",
        "first_us": "min(start_us)",
        "last_us": "max(end_us)",
        "starved_rows": "count(*) FILTER (starves)",
        "blocked_rows": "count(*) FILTER (blocked)",
        "inverted_qos0": (
            f"coalesce(sum(greatest(sent_qos0 - waiting_start_qos0 - {GATED}, 0)) FILTER (blocked), 0)::BIGINT"
        ),
        "books_off_rows": f"count(*) FILTER ({_books_off()})",
        "reasons_off_rows": f"count(*) FILTER ({_reasons_off()})",
    }
    parts = ["pressed"]
    for column in DATASETS[SESSIONS]:
        name = column.name
        if name in own:
            parts.append(f"{own[name]} AS {name}")
        elif column.how is How.HISTOGRAM:
            continue
        elif column.how is How.LAST:
            if name != "client_prefix":
                parts.append(f"arg_max({name}, end_us) AS {name}")
        elif not _of_pressed(name):
            parts.append(f"{_HOW[column.how].format(name)} AS {name}")
    return f"SELECT {', '.join(parts)} FROM rows GROUP BY ALL"


def sessions() -> str:
    """One row per session and hour."""
    own = {name: name for name in keys(SESSIONS)}
    own["client_prefix"] = "regexp_extract(any_value(client_id), '^([^-_/.:]*)[-_/.:]', 1)"
    sources = {"pressed_us": "duration_us", "pressed_rows": "rows"}
    for column in DATASETS[SESSIONS]:
        name = column.name
        source = sources.get(name, name.removeprefix("pressed_"))
        if name in own:
            continue
        if column.how is How.HISTOGRAM:
            own[name] = f"any_value({name})"
        elif column.how is How.LAST:
            own[name] = f"arg_max({name}, last_us)"
        elif _of_pressed(name):
            own[name] = f"coalesce(sum({source}) FILTER (pressed), 0)::BIGINT"
    key = ", ".join(keys(SESSIONS))
    histograms = _histograms(SESSIONS, {name: name for name in keys(SESSIONS)} | {"hour_us": _HOUR})
    return f"""
        SELECT {_columns(SESSIONS, own)} FROM ({_parts()}) LEFT JOIN ({histograms}) USING ({key})
        GROUP BY ALL ORDER BY {key}
    """


_PLAIN: Final = {column.name: column.how for column in DATASETS[TIMELINE] if column.how is not How.HISTOGRAM}


def timeline(slot_us: int) -> str:
    """One row per broker and slot."""
    own = {
        "broker": "broker",
        "slot": f"(end_us // {slot_us}) * {slot_us}",
        "rows": "count(*)",
        "pressed_rows": "count(*) FILTER (pressed)",
        "duration_us": "sum(length_us)::BIGINT",
        "last_us": "max(end_us)",
    }
    for column in DATASETS[TIMELINE]:
        if _of_pressed(column.name) and column.name not in own:
            source = column.name.removeprefix("pressed_")
            own[column.name] = f"coalesce(sum({source}) FILTER (pressed), 0)::BIGINT"
        if column.how is How.HISTOGRAM:
            own[column.name] = column.name
    for side, which in (("calm", "NOT pressed"), ("pressed", "pressed")):
        for name in ("offered_qos0", "sent_qos0", "dropped_qos0", "duration_us"):
            value = "length_us" if name == "duration_us" else name
            own[f"{side}_{name}"] = f"coalesce(sum({value}) FILTER ({which} AND {ASKED}), 0)::BIGINT"
    histograms = _histograms(TIMELINE, own)
    plain = {name: own.get(name) or _HOW[how].format(name) for name, how in _PLAIN.items() if "fair_" not in name}
    sums = ", ".join(f"{expression} AS {name}" for name, expression in plain.items())
    names = ", ".join(column.name for column in DATASETS[TIMELINE])
    return f"""
        SELECT {names} FROM (SELECT {sums} FROM rows GROUP BY ALL)
        JOIN ({_fair(own["slot"])}) USING (broker, slot) LEFT JOIN ({histograms}) USING (broker, slot)
        ORDER BY broker, slot
    """


def _fair(slot: str) -> str:
    """Number, sum, sum of squares and lowest of the delivery ratios of each client and export, by broker and slot."""
    sums = ", ".join(f"sum({what}_qos{qos})::BIGINT AS {what}_qos{qos}" for what in ("due", "sent") for qos in QOS)
    made = []
    for scope in ("all", *QOS):
        due, sent = (_total(what) if scope == "all" else f"{what}_qos{scope}" for what in ("due", "sent"))
        share = f"{FAIR_ONE} * least({sent}, {due}) // nullif({due}, 0)"
        some = f"FILTER ({due} > 0)"
        made += [
            f"count(*) {some} AS fair_n_{scope}",
            f"coalesce(sum({share}) {some}, 0)::BIGINT AS fair_x_{scope}",
            f"coalesce(sum(({share}) * ({share})) {some}, 0)::BIGINT AS fair_xx_{scope}",
            f"min({share}) {some} AS fair_min_{scope}",
        ]
    return f"""
        SELECT broker, slot, {", ".join(made)}
        FROM (SELECT broker, {slot} AS slot, end_us, client_id, {sums} FROM rows GROUP BY ALL) GROUP BY broker, slot
    """


def starvation() -> str:
    """One row per run of starved intervals within an hour."""
    own = {
        "broker": "broker",
        "client_id": "client_id",
        "session_started_us": "session_started_us",
        "hour_us": "hour_us",
        "start_us": "min(start_us)",
        "end_us": "max(end_us)",
        "intervals": "count(*)",
        "offered": "sum(offered)::BIGINT",
        "waiting": "arg_max(waiting, end_us)",
    }
    session = "broker, client_id, session_started_us, hour_us"
    return f"""
        WITH starved AS (
            SELECT broker, client_id, session_started_us, (end_us // {HOUR_US}) * {HOUR_US} AS hour_us,
                start_us, end_us,
                {_total("offered")} AS offered, {_total("waiting")} AS waiting
            FROM rows WHERE starves
        ), begun AS (
            SELECT *, start_us - lag(end_us) OVER (PARTITION BY {session} ORDER BY end_us) AS gap FROM starved
        ), numbered AS (
            SELECT *, count(*) FILTER (gap IS NULL OR abs(gap) > {TOLERANCE_US})
                OVER (PARTITION BY {session} ORDER BY end_us ROWS UNBOUNDED PRECEDING) AS run
            FROM begun
        )
        SELECT {_columns(STARVATION, own)} FROM numbered GROUP BY {session}, run ORDER BY ALL
    """


def intervals() -> str:
    """One row per broker and end of an interval."""
    own = {"broker": "broker", "interval_end_us": "end_us", "rows": "count(*)", "files": "count(DISTINCT filename)"}
    source = "(SELECT broker, epoch_us(interval_end) AS end_us, filename FROM files)"
    return f"SELECT {_columns(INTERVALS, own)} FROM {source} GROUP BY ALL ORDER BY ALL"


def files(root: str) -> str:
    """Views of the raw files with their names, and of rows by group."""
    return f"""
        CREATE OR REPLACE VIEW files AS
        SELECT * FROM read_parquet('{root}/date=*/hour=*/*.parquet', hive_partitioning = false, filename = true)
        WHERE client_id <> '';
        CREATE OR REPLACE VIEW grouped AS
        SELECT *, unnest(share_groups) AS share_group, epoch_us(interval_start) AS start_us,
            epoch_us(interval_end) AS end_us, {LIVED} AS lived_us
        FROM read_parquet('{root}/date=*/hour=*/*.parquet', hive_partitioning = false)
    """


def groups() -> str:
    """One row per group and hour, and one per member of it."""
    own = {
        "broker": "broker",
        "share_group": "share_group",
        "client_id": "client_id",
        "hour_us": _HOUR,
        "rows": "count(*)",
        "duration_us": "sum(lived_us)::BIGINT",
        "first_us": "min(start_us)",
        "last_us": "max(end_us)",
        **{what: f"sum({_total(what)})::BIGINT" for what in ("offered", "sent", "dropped")},
    }
    for reason in DROP_REASONS:
        named = " + ".join(name for qos in QOS if (name := drop_column(reason, qos)) is not None)
        own[f"dropped_{reason}"] = f"sum({named})::BIGINT"
    return f"SELECT {_columns(GROUPS, own)} FROM grouped GROUP BY broker, share_group, client_id, {_HOUR} ORDER BY ALL"


def datasets(slot_us: int) -> dict[str, str]:
    """The queries of all datasets, by name."""
    return {
        SESSIONS: sessions(),
        TIMELINE: timeline(slot_us),
        STARVATION: starvation(),
        INTERVALS: intervals(),
        GROUPS: groups(),
    }
