"""The schema of the exported files, read from its only definition: spark_jobs/metrics_schema.json."""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

import pyarrow as pa

INTERVAL_US: Final = "sluice.interval_us"
"""The key of the footer for the usual length of an interval."""

_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "bool": pa.bool_(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "histogram": pa.list_(pa.int64()),
    "strings": pa.list_(pa.string()),
}


@dataclass(frozen=True)
class MetricsSchema:
    """The columns of the session metrics."""

    arrow: pa.Schema
    sessions: pa.Schema
    """The same without the columns that only rows of broker and interval have."""
    counters: tuple[str, ...]
    """Columns that are attributes of `session.counters.Counters`."""
    drops: tuple[str, ...]
    """Columns that count drops by reason and QoS."""
    histograms: tuple[str, ...]
    gauges: tuple[str, ...]
    """Those of `counters` that do not add up."""

    def of_file(self, interval: float) -> pa.Schema:
        """The schema of a file of exports that are so many seconds apart, which its footer says."""
        return self.arrow.with_metadata({**self.arrow.metadata, INTERVAL_US: str(round(interval * 1_000_000))})


@cache
def metrics_schema() -> MetricsSchema:
    """Load the schema; its name and version become metadata of the exported files."""
    written = json.loads(files("spark_jobs").joinpath("metrics_schema.json").read_text())
    fields = [
        pa.field(
            field["name"],
            _TYPES[field["type"]],
            field["nullable"],
            {"doc": field["doc"], "unit": field["unit"]},
        )
        for field in (*written["fields"], *written["interval_fields"])
    ]
    names = [field["name"] for field in written["fields"] if field["type"] == "int64"]
    drops = tuple(name for name in names if name.startswith("dropped_") and not name.startswith("dropped_qos"))
    metadata = {"sluice.schema": written["name"], "sluice.schema_version": str(written["version"])}
    return MetricsSchema(
        arrow=pa.schema(fields, metadata),
        sessions=pa.schema(fields[: len(written["fields"])], metadata),
        counters=tuple(name for name in names if name not in drops),
        drops=drops,
        histograms=tuple(field["name"] for field in written["fields"] if field["type"] == "histogram"),
        gauges=tuple(field["name"] for field in written["fields"] if field.get("gauge")),
    )
