"""The columns of the exported metrics, from `metrics_schema.json`, the contract with the broker.

Everything here is derived from that file: a new counter or drop reason is added there only.
"""

import json
import re
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Final

QOS: Final = (0, 1, 2)
HISTOGRAM_TYPE: Final = "histogram"
FIRST_VERSION: Final = 1


@dataclass(frozen=True)
class Field:
    """One column: name, type (as in the schema file), unit, whether it may be null.

    `since` is the schema version that introduced the column; `before`: what a histogram, in another form, was called
    until then; `gauge`: a value at one moment or a maximum, other numbers add up.
    """

    name: str
    type: str
    unit: str
    nullable: bool
    doc: str
    since: int
    before: str | None
    gauge: bool


@dataclass(frozen=True)
class Schema:
    """Name and version, which are in the footer of every file, and the columns.

    Files of earlier versions are read too: versions add counters, which are 0 in older files, except
    CONNECTED_US, and change histograms.
    """

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
    fields, interval_fields = (
        tuple(
            Field(
                **{name: f[name] for name in ("name", "type", "unit", "nullable", "doc")},
                since=f.get("since", FIRST_VERSION),
                before=f.get("before"),
                gauge=f.get("gauge", False),
            )
            for f in raw[part]
        )
        for part in ("fields", "interval_fields")
    )
    return Schema(raw["name"], raw["version"], raw["histogram_buckets"], fields, interval_fields)


SCHEMA: Final = load()
READABLE: Final = f"{SCHEMA.name} versions {FIRST_VERSION} to {SCHEMA.version}"
BUCKETS: Final = SCHEMA.buckets
NO_CLIENT: Final = ""
"""The client_id of rows of broker and interval, which no session has."""
OF_INTERVALS: Final = tuple(f.name for f in SCHEMA.interval_fields)
HISTOGRAMS: Final = tuple(f.name for f in SCHEMA.fields if f.type == HISTOGRAM_TYPE)
BEFORE: Final = {f.name: f.before for f in SCHEMA.fields if f.before is not None}
"""Histograms: name -> that of the column with 32 counts by powers of two which earlier versions have instead."""
CONNECTED_US: Final = "connected_us"
"""The column that has to be derived, from `connected` and the interval, in files of versions that did not have it."""
COUNT_SHIFT: Final = 8
"""An entry of a histogram is `count << COUNT_SHIFT | bucket`."""

# Counters are summed over intervals, gauges are not; of values at one moment only waiting_* are summed, as differences.
COUNTERS: Final = tuple(f.name for f in SCHEMA.fields if f.type == "int64" and not f.gauge)


def fields_of(version: int) -> tuple[Field, ...]:
    """The columns that files of a schema version have, of those that this program reads."""
    earlier = [replace(f, name=f.before) for f in SCHEMA.fields if f.before is not None and version < f.since]
    return (*(f for f in SCHEMA.fields if f.since <= version), *earlier)


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


def drop_column(reason: str, qos: int) -> str | None:
    """The column that counts drops at this QoS for this reason; None if there is none."""
    name = f"dropped_{reason}_qos{qos}"
    return name if any(f.name == name for f in SCHEMA.fields) else None
