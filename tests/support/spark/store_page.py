"""Writes the page of the store's tables: `python -m tests.support.spark.store_page` after a change of the schema."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa

from spark_jobs.store.comments import TABLES, comments
from spark_jobs.store.delta import SCHEMAS
from spark_jobs.store.schema import DATASETS, TIMES, How

PAGE: Final = Path(__file__).parents[3] / "spark_jobs" / "STORE.md"
_HEAD: Final = """\
# The tables of a store

Each is a Delta table, in the store's folder of its name. The columns in bold are the key. In brackets: how values
of rows with the same key are aggregated, and the unit (`us`: microseconds). A histogram is a list of the buckets
that have counted something ([metrics_schema.json](metrics_schema.json)); [frames.py](frames.py) has percentiles.
"""


_SQL: Final = {
    "string": "string",
    "int64": "bigint",
    "int32": "int",
    "bool": "boolean",
    "date32[day]": "date",
}


def page() -> str:
    """The page as Markdown."""
    return _HEAD + "\n".join(line for table in TABLES for line in _table(table)) + "\n"


def _table(name: str) -> Iterator[str]:
    keys = {TIMES.get(c.name, c.name) for c in DATASETS.get(name, ()) if c.how is How.KEY}
    texts = comments(name)
    yield from ("", f"## {name}", TABLES[name], "", "| column | type | meaning |", "|---|---|---|")
    for field in SCHEMAS[name]:
        column = f"**{field.name}**" if field.name in keys else field.name
        yield f"| {column} | {_kind(field.type)} | {texts[field.name]} |"


def _kind(kind: pa.DataType) -> str:
    """A type as Spark SQL has it."""
    if pa.types.is_list(kind):
        return f"array&lt;{_kind(kind.value_type)}>"
    return "timestamp" if pa.types.is_timestamp(kind) else _SQL[str(kind)]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
