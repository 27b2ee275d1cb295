"""The content of exported files, their paths and their times."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from broker.runtime.clock import monotonic_us, wall_us
from broker.telemetry import wall
from broker.telemetry.collector import BATCH
from broker.telemetry.schema import metrics_schema
from broker.telemetry.wall import STEP, WallClock
from broker.telemetry.writer import partition_of
from tests.support.broker.exporting import Bench, send
from tests.support.broker.metrics import check_books, metrics_files, total
from tests.support.cache import ROOT
from tests.support.damage import turn_a_bit

pytestmark = pytest.mark.once

TYPES: Final = {
    "string": pa.string(),
    "bool": pa.bool_(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "histogram": pa.list_(pa.int64()),
    "strings": pa.list_(pa.string()),
}
"""What the schema's document calls the types of Parquet's columns."""


def test_schema(bench: Bench) -> None:
    """A file has exactly the columns of the written schema, and its footer names it."""
    written = json.loads((ROOT / "spark_jobs" / "metrics_schema.json").read_text())
    client = bench.client("c")
    send(client, "c", 1)
    bench.export()
    (path,) = metrics_files(bench.directory)
    schema = pq.read_schema(path)
    assert [(field.name, field.type, field.nullable) for field in schema] == [
        (field["name"], TYPES[field["type"]], field["nullable"])
        for field in (*written["fields"], *written["interval_fields"])
    ]
    assert schema.metadata[b"sluice.schema"].decode() == written["name"]
    assert schema.metadata[b"sluice.schema_version"].decode() == str(written["version"])
    assert schema.metadata[b"sluice.interval_us"] == b"10000000"  # metrics.interval
    for field in written["fields"]:
        metadata = schema.field(field["name"]).metadata
        assert (metadata[b"unit"].decode(), metadata[b"doc"].decode()) == (field["unit"], field["doc"])


def test_a_bit_that_has_turned_over_is_found(bench: Bench) -> None:
    """A file with a flipped bit that still parses does not match its checksums."""
    client = bench.client("c")
    send(client, "c", 1)
    bench.export()
    (path,) = metrics_files(bench.directory)
    assert pq.read_table(path, page_checksum_verification=True).num_rows
    turn_a_bit(path)
    with pytest.raises(OSError, match="CRC checksum"):
        pq.read_table(path, page_checksum_verification=True)


def test_row(bench: Bench) -> None:
    """A row tells who, when and how much; histograms have what was counted, or are null where there is nothing."""
    before = datetime.now(UTC)
    client = bench.client("c")
    send(client, "c")
    send(client, "c", 1)
    bench.export()
    (row,) = bench.rows()
    check_books([row])
    assert (row["broker"], row["listener"], row["protocol_version"]) == ("test", "local", 5)
    assert (row["received_qos0"], row["received_qos1"], row["received_bytes"]) == (1, 1, 14)
    assert (row["sent_qos0"], row["sent_qos1"], row["window_len"], row["window_limit"]) == (1, 1, 1, 32)
    assert row["wait_qos2_buckets"] is None
    assert [entry // 256 for entry in row["wait_qos1_buckets"]] == [1]
    assert before <= row["session_started"] <= row["interval_end"] <= datetime.now(UTC)


def test_many_rows(bench: Bench) -> None:
    """Rows have the right columns whether they fill one batch or several."""
    count = 2 * BATCH + 7
    sender = bench.client("sender")
    for number in range(count):
        bench.client(f"client-{number:04}")
    for number in range(0, count, 3):
        send(sender, f"client-{number:04}")
    bench.export(everything=True)
    rows = [row for row in bench.rows() if row["client_id"] != "sender"]
    check_books(rows)
    assert [row["client_id"] for row in rows] == [f"client-{number:04}" for number in range(count)]
    assert [row["sent_qos0"] for row in rows] == [int(number % 3 == 0) for number in range(count)]
    assert [row["wait_qos0_buckets"] is None for row in rows] == [number % 3 != 0 for number in range(count)]


def test_partition() -> None:
    """Files are in folders of their date and hour in UTC."""
    assert partition_of(0) == "date=1970-01-01/hour=00"
    assert partition_of(1_795_244_399_999_999) == "date=2026-11-21/hour=06"


def test_paths(bench: Bench) -> None:
    """Each export has a file of its own, below date and hour of its end."""
    client = bench.client("c")
    for _ in range(3):
        send(client, "x")
        bench.export()
    paths = metrics_files(bench.directory)
    assert len(paths) == 3
    for path in paths:
        node, end, _ = path.stem.rsplit("-", 2)
        assert node == "test"
        assert path.parent == bench.directory / partition_of(int(end))


def test_names_after_a_restart(bench: Bench) -> None:
    """A restarted broker does not overwrite the files of its earlier run."""
    client = bench.client("c")
    for _ in range(3):
        for _ in range(2):
            send(client, "x")
            bench.export()
        bench.exporter = bench.another_life()
    assert len(metrics_files(bench.directory)) == 6
    assert total(bench.rows(), "received_qos0") == 6


def test_times_do_not_jitter(bench: Bench) -> None:
    """A session has one start time, to the microsecond, and its intervals are contiguous."""
    client = bench.client("c")
    for _ in range(20):
        send(client, "x")
        bench.export()
    rows = bench.rows()
    check_books(rows)
    assert len({row["session_started"] for row in rows}) == 1


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("step", "moves"), [(STEP // 2, False), (3 * STEP, True)])
def test_clock_is_set(monkeypatch: pytest.MonkeyPatch, step: int, sign: int, moves: bool) -> None:
    """Times follow the system clock when it is set, and not its small deviations."""
    clock = WallClock()
    before = clock.at(0)
    monkeypatch.setattr(wall, "wall_us", lambda: wall_us() + sign * step)
    now = clock.read()
    assert abs(now - monotonic_us()) < STEP
    assert (abs(clock.at(0) - before) > STEP) == moves


EXPORT_ONCE: Final = """
import asyncio, sys, pathlib
from broker.broker import Broker
from broker.telemetry.exporter import Exporter
from config.models import Config
config = Config.model_validate({"node_name": "test", "metrics": {"directory": pathlib.Path(sys.argv[1])}})
broker = Broker(config, 0)
for number in range(30_000):
    broker.sessions.new(str(number), 0)
for number, client in enumerate(broker.clients.known()):
    client.session.outbound.mailbox.sample(client.session.counters)
async def export():
    exporter = Exporter(broker.sessions, broker.router.shared, config)
    await exporter.export(everything=True)
    await exporter.writer.finish()
    return exporter.writer.written
print(asyncio.run(export()), "pandas" in sys.modules)
"""


def test_nothing_heavy_is_imported(tmp_path: Path) -> None:
    """An export does not import pandas, which would block the loop."""
    command = [sys.executable, "-c", EXPORT_ONCE, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout == "1 False\n"


def test_schema_is_read_once() -> None:
    """The schema file is read when it is first needed, not for each export."""
    assert metrics_schema() is metrics_schema()
