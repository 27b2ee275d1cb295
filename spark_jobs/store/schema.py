"""The columns of the compacted datasets, derived from the schema of the raw metrics.

A new counter, reason or histogram in `metrics_schema.json` is included automatically. All sums are of whole numbers, so
that results do not depend on the order of addition. Times are timestamps in the store; programs count them in whole
microseconds since 1970, UTC, under the names of this module (`TIMES` has both names).

**sessions** has one row per session and hour (of interval_end), **timeline** one per broker and slot, **starvation**
one per run of starved intervals, **intervals** one per broker and compacted interval_end, **groups** one per group of a
shared subscription and hour, and one for each of its members.
"""

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from spark_jobs.metrics import CLOCKS, COUNTERS, DROP_REASONS, GATE_REASONS, HISTOGRAMS, QOS, SCHEMA, drop_column

if TYPE_CHECKING:
    import pyarrow as pa

HOUR_US: Final = 3_600_000_000
FAIR_ONE: Final = 100_000  # the fixed-point 1 of fair_x_*: delivery ratios in steps of 0.001 %
FAIR_SCOPES: Final = ("all", *(str(qos) for qos in QOS))

SESSIONS: Final = "sessions"
TIMELINE: Final = "timeline"
STARVATION: Final = "starvation"
INTERVALS: Final = "intervals"
GROUPS: Final = "groups"


class How(Enum):
    """How values of rows with the same key are aggregated, of raw rows and of compacted rows."""

    KEY = "key"
    SUM = "sum"
    MAX = "max"
    MIN = "min"
    ANY = "any"
    LAST = "last"
    HISTOGRAM = "histogram"


@dataclass(frozen=True)
class Column:
    """One column of a compacted dataset: its name, SQL type, and aggregation."""

    name: str
    type: str
    how: How


def _sums(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name, "bigint", How.SUM) for name in names)


def _maxima(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name, "bigint", How.MAX) for name in names)


def _keys(**types: str) -> tuple[Column, ...]:
    return tuple(Column(name, sql_type, How.KEY) for name, sql_type in types.items())


GAUGES: Final = tuple(f.name for f in SCHEMA.fields if f.type == "int64" and f.name not in COUNTERS)
"""Gauges of the raw rows, aggregated by maximum."""

PRESSED_COUNTERS: Final = tuple(f"{kind}_qos{qos}" for kind in ("offered", "sent", "dropped") for qos in QOS)
PRESSED_HISTOGRAMS: Final = ("wait_qos0_buckets", "ack_qos1_buckets", "ack_qos2_buckets")
"""Also summed over the intervals in which the session was under pressure, as pressed_<name>."""

TIMELINE_COUNTERS: Final = (
    *PRESSED_COUNTERS,
    *(name for name in COUNTERS if name.startswith(("acknowledged_", "resent_"))),
    *(f"gated_{reason}" for reason in GATE_REASONS),
    *(name for reason in DROP_REASONS for qos in QOS if (name := drop_column(reason, qos)) is not None),
    "window_full_us",
    "congested_us",
    "slow_consumer",
    "stalled_window",
    "publish_parked_us",
    "reading_paused_us",
)
TIMELINE_GAUGES: Final = ("mailbox_max", "mqueue_max")
TIMELINE_HISTOGRAMS: Final = PRESSED_HISTOGRAMS
"""Latency over time: the wait of QoS 0, the acknowledgement of QoS 1 and 2."""
CALM_OR_PRESSED: Final = ("offered_qos0", "sent_qos0", "dropped_qos0", "duration_us")
"""Split in the timeline into calm_<name> and pressed_<name> (the session was under pressure)."""

SESSION_COLUMNS: Final = (
    *_keys(broker="string", client_id="string", session_started_us="bigint", hour_us="bigint"),
    Column("listener", "string", How.LAST),
    Column("protocol_version", "int", How.LAST),
    Column("client_prefix", "string", How.LAST),
    *_sums("rows", "connected_rows", "duration_us"),
    Column("first_us", "bigint", How.MIN),
    Column("last_us", "bigint", How.MAX),
    Column("ended", "boolean", How.ANY),
    *_sums(*COUNTERS),
    *_maxima(*GAUGES),
    *(Column(name, "array<bigint>", How.HISTOGRAM) for name in HISTOGRAMS),
    *_sums("pressed_us", "pressed_rows", *(f"pressed_{name}" for name in PRESSED_COUNTERS)),
    *(Column(f"pressed_{name}", "array<bigint>", How.HISTOGRAM) for name in PRESSED_HISTOGRAMS),
    *_sums("starved_rows", "inverted_qos0", "blocked_rows", "books_off_rows", "reasons_off_rows"),
    *_sums(*(f"{name}_qos{qos}" for name in ("away_dropped", "away_waiting") for qos in QOS)),
)

TIMELINE_COLUMNS: Final = (
    *_keys(broker="string", slot="bigint"),
    *_sums("rows", "pressed_rows", "duration_us", *TIMELINE_COUNTERS),
    *_maxima("last_us", *TIMELINE_GAUGES),
    *_sums(*(f"{name}_qos{qos}" for name in ("due", "away_dropped") for qos in QOS)),
    *_sums(*(f"{side}_{name}" for side in ("calm", "pressed") for name in CALM_OR_PRESSED)),
    *_sums(*(f"fair_{what}_{scope}" for what in ("n", "x", "xx") for scope in FAIR_SCOPES)),
    *(Column(f"fair_min_{scope}", "bigint", How.MIN) for scope in FAIR_SCOPES),
    *(Column(name, "array<bigint>", How.HISTOGRAM) for name in TIMELINE_HISTOGRAMS),
)

STARVATION_COLUMNS: Final = (
    *_keys(broker="string", client_id="string", session_started_us="bigint", hour_us="bigint", start_us="bigint"),
    Column("end_us", "bigint", How.MAX),
    *_sums("intervals", "offered"),
    Column("waiting", "bigint", How.LAST),
)

INTERVAL_COLUMNS: Final = (
    *_keys(broker="string", interval_end_us="bigint"),
    *_sums("rows"),
    *_maxima("files"),
)

GROUP_COLUMNS: Final = (
    *_keys(broker="string", share_group="string", client_id="string", hour_us="bigint"),
    *_sums("rows", "duration_us", "connected_us", "offered", "sent", "dropped"),
    *_sums(*(f"dropped_{reason}" for reason in DROP_REASONS), *(f"{clock}_us" for clock in CLOCKS), "paced_for_us"),
    *_maxima("mqueue_max", "last_us"),
    Column("first_us", "bigint", How.MIN),
)

DATASETS: Final = {
    SESSIONS: SESSION_COLUMNS,
    TIMELINE: TIMELINE_COLUMNS,
    STARVATION: STARVATION_COLUMNS,
    INTERVALS: INTERVAL_COLUMNS,
    GROUPS: GROUP_COLUMNS,
}


TIMES: Final = {
    "session_started_us": "session_started",
    "hour_us": "hour_start",
    "first_us": "first_interval_start",
    "last_us": "last_interval_end",
    "slot": "slot_start",
    "start_us": "run_start",
    "end_us": "run_end",
    "interval_end_us": "interval_end",
}
"""Columns of times: the name here, in microseconds -> the name in the store, a timestamp."""

HOUR_OF: Final = {
    SESSIONS: "hour_us",
    TIMELINE: "slot",
    STARVATION: "hour_us",
    INTERVALS: "interval_end_us",
    GROUPS: "hour_us",
}
"""By dataset the time that says which hour a row belongs to."""

PARTITIONS: Final = ("date", "hour")
"""The partition columns of the store: the UTC date and hour."""


def keys(dataset: str) -> tuple[str, ...]:
    """The key columns of the dataset, in the sort order of its files."""
    return tuple(column.name for column in DATASETS[dataset] if column.how is How.KEY)


def arrow_types(dataset: str) -> "dict[str, pa.DataType]":
    """The dataset's columns and their Arrow types, with times in microseconds."""
    import pyarrow as pa

    types = {
        "string": pa.string(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "boolean": pa.bool_(),
        "array<bigint>": pa.list_(pa.int64()),
    }
    return {column.name: types[column.type] for column in DATASETS[dataset]}


def stored_schema(dataset: str) -> "pa.Schema":
    """The dataset's columns in the store as an Arrow schema, with the partition columns."""
    import pyarrow as pa

    time = pa.timestamp("us", tz="UTC")
    fields = [(TIMES[name], time) if name in TIMES else (name, kind) for name, kind in arrow_types(dataset).items()]
    return pa.schema([*fields, ("date", pa.date32()), ("hour", pa.int32())])
