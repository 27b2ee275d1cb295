"""The columns of the exported metrics, as `metrics_schema.json` has them: the one contract with the broker.

Everything here is derived from that file, so a new drop reason or a new counter needs no second place to be
named in.
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
    """One column: its name, type (in the schema file's words), unit, whether it may be null, and since when it is.

    `since` is the version of the schema that the column came with.
    """

    name: str
    type: str
    unit: str
    nullable: bool
    doc: str
    since: int


@dataclass(frozen=True)
class Schema:
    """The whole contract: name and version, which every file carries in its footer, and the columns.

    Files of earlier versions are read too: versions only ever add counters, which were 0 before.
    """

    name: str
    version: int
    buckets: int
    fields: tuple[Field, ...]


def load() -> Schema:
    """Read the schema file that lies beside this module (also from inside a zip archive)."""
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

# Counters add up over intervals. Gauges hold at one moment; of those, only the waiting_* enter sums, as
# differences.
_GAUGE = re.compile(r"(_len|_max|_limit|^mqueue_bytes|^window_bytes)$")
COUNTERS: Final = tuple(f.name for f in SCHEMA.fields if f.type == "int64" and not _GAUGE.search(f.name))


def _reasons(prefix: str) -> tuple[str, ...]:
    """Reasons in the order of the schema file; a trailing _qosN is not part of the reason."""
    found: dict[str, None] = {}
    for field in SCHEMA.fields:
        match = re.fullmatch(prefix + r"_(.+?)(_qos[012])?", field.name)
        if match and not re.fullmatch(r"qos[012]", match.group(1)):
            found[match.group(1)] = None
    return tuple(found)


GATE_REASONS: Final = _reasons("gated")
DROP_REASONS: Final = _reasons("dropped")


def drop_column(reason: str, qos: int) -> str | None:
    """The column that counts what was dropped at this QoS for this reason; None where it cannot be."""
    name = f"dropped_{reason}_qos{qos}"
    return name if any(f.name == name for f in SCHEMA.fields) else None
