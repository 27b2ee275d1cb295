"""The columns of the exported metrics, from `metrics_schema.json`, the contract with the broker.

Everything here is derived from that file: a new counter or drop reason is added there only.
"""

import json
import re
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

QOS: Final = (0, 1, 2)
HISTOGRAM_TYPE: Final = "histogram"
TEXTS_TYPE: Final = "strings"


@dataclass(frozen=True)
class Field:
    """One column: name, type (as in the schema file), unit, whether it may be null.

    `gauge`: a value at one moment or a maximum, other numbers add up.
    """

    name: str
    type: str
    unit: str
    nullable: bool
    doc: str
    gauge: bool = False


@dataclass(frozen=True)
class Schema:
    """Name and version, which are in the footer of every file, and the columns."""

    name: str
    version: int
    buckets: int
    fields: tuple[Field, ...]
    interval_fields: tuple[Field, ...]
    """Columns of the rows of broker and interval only."""


def load() -> Schema:
    """Read the schema file in this package (also from a zip archive)."""
    text = files("spark_jobs").joinpath("metrics_schema.json").read_text(encoding="utf-8")
    raw = json.loads(text)
    fields, interval_fields = (tuple(Field(**field) for field in raw[part]) for part in ("fields", "interval_fields"))
    return Schema(raw["name"], raw["version"], raw["histogram_buckets"], fields, interval_fields)


SCHEMA: Final = load()
BUCKETS: Final = SCHEMA.buckets
NO_CLIENT: Final = ""
"""The client_id of rows of groups, and of broker and interval, which no session has."""
OF_INTERVALS: Final = tuple(f.name for f in SCHEMA.interval_fields)
HISTOGRAMS: Final = tuple(f.name for f in SCHEMA.fields if f.type == HISTOGRAM_TYPE)
COUNT_SHIFT: Final = 8
"""An entry of a histogram is `count << COUNT_SHIFT | bucket`."""

# Counters are summed over intervals, gauges are not; of values at one moment only waiting_* are summed, as differences.
COUNTERS: Final = tuple(f.name for f in SCHEMA.fields if f.type == "int64" and not f.gauge)


def _reasons(prefix: str) -> tuple[str, ...]:
    """Reasons in the order of the schema file, without a trailing _qosN."""
    found: dict[str, None] = {}
    for field in SCHEMA.fields:
        match = re.fullmatch(prefix + r"_(.+?)(_qos[012])?", field.name)
        if match and not re.fullmatch(r"qos[012]", match.group(1)):
            found[match.group(1)] = None
    return tuple(found)


GATE_REASONS: Final = _reasons("gated")
DROP_REASONS: Final = _reasons("dropped")
CLOCKS: Final = ("window_full", "window_bytes_full", "rate_limited", "congested")
"""What keeps a session from being sent its next delivery; <clock>_us is for how long."""
AWAY_REASONS: Final = ("offline_qos0", "session_ended")
"""Drops because the client is away or has left."""


def drop_column(reason: str, qos: int) -> str | None:
    """The column that counts drops at this QoS for this reason; None if there is none."""
    name = f"dropped_{reason}_qos{qos}"
    return name if any(f.name == name for f in SCHEMA.fields) else None
