"""Hides the clients of a report: their ids become keyed digests, the same for the same id and key."""

from dataclasses import replace
from hashlib import blake2b
from typing import Final

import pyarrow as pa

from spark_jobs.measures.quality import NAME_CLIENTS
from spark_jobs.measures.result import Result

_DIGEST: Final = 8  # bytes
_CLIENTS: Final = ("client_id", "slowest", "share_group")  # the filter of a group may have a client id


def hashed(result: Result, key: str) -> Result:
    """The result with digests for client ids, and without client id prefixes, which are their beginnings."""
    tables = {}
    for name, table in result.tables.items():
        for column in _CLIENTS:
            if column in table.column_names:
                table = _replaced(table, column, [_digest(text, key) for text in table[column].to_pylist()])
        if "client_prefix" in table.column_names:
            table = _replaced(table, "client_prefix", [""] * table.num_rows)
        tables[name] = table
    fairness, quality = tables["fairness"], tables["quality"]
    groups = [
        _digest(row["name"], key) if row["scope"] == "client_prefix" else row["name"] for row in fairness.to_pylist()
    ]
    examples = [
        _digest(row["example"], key) if row["kind"] in NAME_CLIENTS else row["example"] for row in quality.to_pylist()
    ]
    tables |= {"fairness": _replaced(fairness, "name", groups), "quality": _replaced(quality, "example", examples)}
    return replace(result, facts=replace(result.facts, hashed=True), tables=tables)


def _replaced(table: pa.Table, name: str, texts: list[str | None]) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, pa.array(texts, pa.string()))


def _digest(text: str | None, key: str) -> str | None:
    if not text:
        return text
    return blake2b(text.encode(), digest_size=_DIGEST, key=key.encode()).hexdigest()
