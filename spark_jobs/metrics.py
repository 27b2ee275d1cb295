"""The columns of the exported metrics, from `metrics_schema.json`, the contract with the broker.

Everything here is derived from that file: a new counter or drop reason is added there only.
"""

import json
import re
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

QOS: Final = (0, 1, 2)
SESSION_KEY: Final = ("broker", "client_id", "session_started")
HISTOGRAM_TYPE: Final = "list<int64>"
FIRST_VERSION: Final = 1


@dataclass(frozen=True)
class Field:
    """One column: name, type (as in the schema file), unit, whether it may be null.

    `since` is the schema version that introduced the column.
    """

    name: str
    type: str
    unit: str
    nullable: bool
    doc: str
    since: int


@dataclass(frozen=True)
class Schema:
    """Name and version, which are in the footer of every file, and the columns.

    Files of earlier versions are read too: versions only add counters, which are 0 in older files.
    """

    name: str
    version: int
    buckets: int
    fields: tuple[Field, ...]


def load() -> Schema:
    """Read the schema file in this package (also from a zip archive)."""
    text = files("spark_jobs").joinpath("metrics_schema.json").read_text(encoding="utf-8")
    raw = json.loads(text)
    fields = tuple(
        Field(f["name"], f["type"], f["unit"], f["nullable"], f["doc"], f.get("since", FIRST_VERSION))
        for f in raw["fields"]
    )
    return Schema(raw["name"], raw["version"], raw["histogram_buckets"], fields)


SCHEMA: Final = load()
READABLE: Final = f"{SCHEMA.name} versions {FIRST_VERSION} to {SCHEMA.version}"
ADDED: Final = tuple(f.name for f in SCHEMA.fields if f.since > FIRST_VERSION)
BUCKETS: Final = SCHEMA.buckets
HISTOGRAMS: Final = tuple(f.name for f in SCHEMA.fields if f.type == HISTOGRAM_TYPE)

# Counters are summed over intervals. Gauges are values at one moment; only waiting_* are summed, as differences.
_GAUGE = re.compile(r"(_len|_max|_limit|^mqueue_bytes|^window_bytes)$")
COUNTERS: Final = tuple(f.name for f in SCHEMA.fields if f.type == "int64" and not _GAUGE.search(f.name))


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
