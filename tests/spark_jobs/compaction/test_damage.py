"""Files with sound footers that cannot be read, or have impossible values: each is named, the rest is compacted."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.store.store import open_store
from tests.support.damage import overstate, spoil, turn_a_bit
from tests.support.spark.compacting import HOUR, NEXT, Run, minutes, rows_of
from tests.support.spark.metrics_files import arrow_schema, row, write_file

pytestmark = pytest.mark.spark
COUNTED = [row(end=3600 + n, offered_qos1=n * n) for n in range(1, 21)]


def test_each_damaged_file_is_named(run: Run, tmp_path: Path) -> None:
    """Garbage, a turned bit, too few values, an unknown codec and a null in a histogram cost one file each."""
    raw, store = tmp_path / "raw", tmp_path / "store"
    write_file(raw / HOUR / "first.parquet", minutes(1))
    write_file(raw / NEXT / "good.parquet", minutes(61))
    spoil(write_file(raw / NEXT / "garbage.parquet", minutes(*range(62, 110))))
    turn_a_bit(write_file(raw / NEXT / "turned.parquet", COUNTED))
    overstate(write_file(raw / NEXT / "b a%20d.parquet", COUNTED), "offered_qos1")
    null = pa.Table.from_pylist(minutes(63, ack_qos1_buckets=[None]), arrow_schema())
    pq.write_table(null, raw / NEXT / "null.parquet")
    pq.write_table(pa.Table.from_pylist(COUNTED, arrow_schema()), raw / NEXT / "codec.parquet", compression="brotli")
    done = run(raw, store)
    assert (done.hours, done.rows, done.skipped) == (2, 2, 5)
    found = {file.name.rpartition("/")[2]: file.why for file in open_store(str(store)).skipped()}
    assert found == {
        "garbage.parquet": "is damaged: Couldn't deserialize thrift: don't know what type: \\u000f",
        "turned.parquet": "is damaged: 0 of its 40 rows can be read",
        "b a%20d.parquet": "is damaged: 0 of its 40 rows can be read",
        "codec.parquet": "is damaged: 0 of its 20 rows can be read",
        "null.parquet": "impossible values: an entry of ack_qos1_buckets is null or out of range; expected 0 to "
        "281,474,976,710,655",
    }
    made = [(made["rows"], made["offered_qos1"]) for made in rows_of(open_store(str(store)))]
    assert made == [(1, 3), (1, 3)]
    assert run(raw, store, idle=True).skipped == 5
