"""Writes the page of the store's tables: `python -m tests.support.spark.store_page` after a change of the schema."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from spark_jobs.store.comments import TABLES, comments
from spark_jobs.store.schema import DATASETS, TIMES, How

PAGE: Final = Path(__file__).parents[3] / "spark_jobs" / "STORE.md"
_HEAD: Final = """\
# The tables of a store

Each is a Delta table, in the store's folder of its name. The columns in bold are the key. In brackets: how values
of rows with the same key are aggregated, and the unit (`us`: microseconds). A histogram is a list of the buckets
that have counted something ([metrics_schema.json](metrics_schema.json)); [frames.py](frames.py) has percentiles.
"""


def page() -> str:
    """The page as Markdown."""
    return _HEAD + "\n".join(line for table in TABLES for line in _table(table)) + "\n"


def _table(name: str) -> Iterator[str]:
    yield from ("", f"## {name}", TABLES[name])
    if name not in DATASETS:
        return
    types = {TIMES.get(c.name, c.name): "timestamp" if c.name in TIMES else c.type for c in DATASETS[name]}
    keys = {TIMES.get(c.name, c.name) for c in DATASETS[name] if c.how is How.KEY}
    yield from ("", "| column | type | meaning |", "|---|---|---|")
    for column, comment in comments(name).items():
        kind = (types | {"date": "date", "hour": "int"})[column].replace("<", "&lt;")
        yield f"| {f'**{column}**' if column in keys else column} | {kind} | {comment} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
