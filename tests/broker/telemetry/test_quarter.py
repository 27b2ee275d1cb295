"""The file of a quarter of an hour: made of exports, in order, whole or not at all, whatever the broker has died of."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from structlog.testing import capture_logs

from broker.runtime.clock import monotonic_us
from broker.telemetry import pending, quarter, wall, writer
from broker.telemetry.pending import QUARTER_US
from tests.support.broker.exporting import Bench, send
from tests.support.broker.metrics import check_books, metrics_files, sessions_of, total

KEY = ("client_id", "session_started", "interval_end")


@pytest.fixture
def begin(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets the machine's clock to the begin of a quarter of an hour."""

    def set_clock(number: int) -> None:
        started = monotonic_us()
        monkeypatch.setattr(wall, "wall_us", lambda: number * QUARTER_US + monotonic_us() - started)

    return set_clock


@pytest.fixture
def bench(begin: Callable[[int], None], tmp_path: Path) -> Iterator[Bench]:
    """An exporter in a quarter of an hour that does not end while a test runs."""
    begin(2_000_000)
    made = Bench(tmp_path / "metrics")
    with made.local:
        yield made


def test_a_quarter_is_one_file(bench: Bench, begin: Callable[[int], None]) -> None:
    """Exports of a quarter of an hour are in one file, which is there when the first export after it is."""
    client = bench.client("c")
    for _ in range(3):
        send(client, "x")
        bench.keep()
    assert metrics_files(bench.directory) == []
    begin(2_000_001)
    send(client, "x")
    bench.keep()
    (path,) = metrics_files(bench.directory)
    assert total(sessions_of(pq.ParquetFile(path).read().to_pylist()), "received_qos0") == 3
    assert total(bench.rows(), "received_qos0") == 4


@pytest.mark.parametrize("held", [1, 50, quarter.RANGE])
def test_rows_are_in_order(bench: Bench, monkeypatch: pytest.MonkeyPatch, held: int) -> None:
    """By client, session and time, however few rows are held at once; every row is there once."""
    monkeypatch.setattr(quarter, "RANGE", held)
    clients = [bench.client(name) for name in ("b", "ä", "a-2", "a", "B", "z")]
    clients += [bench.client(f"many-{number % 7}{number:03}") for number in range(100)]
    for client in clients:
        send(client, "x")
    for number in range(3):
        send(clients[number], "x")
        bench.keep(everything=number == 1)
    bench.local.complete(bench.exporter.writer.finish())
    (path,) = metrics_files(bench.directory)
    rows = pq.ParquetFile(path).read().to_pylist()
    keys = [(row["client_id"].encode(), *[row[name] for name in KEY[1:]]) for row in rows]
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)
    assert len([row for row in rows if not row["client_id"]]) == 3
    assert total(sessions_of(rows), "received_qos0") == len(clients) + 3
    check_books(sessions_of(rows))


def test_a_kill_while_a_file_is_made(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it is there or before its exports are removed: the next life makes the same file."""
    client = bench.client("c")
    for where, step in ((writer, "write_quarter"), (pending.Pending, "forget")):
        send(client, "x")
        bench.keep()
        with monkeypatch.context() as patched:
            patched.setattr(where, step, _die)
            with capture_logs():
                bench.local.complete(bench.exporter.writer.finish())
        bench.exporter = bench.another_life()
        send(client, "x")
        bench.keep()
        bench.local.complete(bench.exporter.writer.finish())
    assert not list(bench.directory.rglob("*.arrow"))
    assert total(bench.rows(), "received_qos0") == 4


def _die(*_: object) -> int:
    raise OSError("killed")


def test_a_file_that_cannot_be_made_is_made_later(bench: Bench) -> None:
    """What is not in a file stays, is reported, and is in a file as soon as there can be one."""
    client = bench.client("c")
    send(client, "x")
    bench.keep()
    hour = bench.directory / writer.partition_of(2_000_000 * QUARTER_US)
    hour.parent.mkdir()
    hour.touch()  # no folder
    with capture_logs() as logs:
        bench.local.complete(bench.exporter.writer.finish())
    assert [log["event"] for log in logs] == ["metrics_not_filed"]
    hour.unlink()
    bench.local.complete(bench.exporter.writer.finish())
    assert total(bench.rows(), "received_qos0") == 1
    assert not list(bench.directory.rglob("*.arrow"))


def test_a_damaged_export_is_reported(bench: Bench) -> None:
    """Of exports that a power cut has damaged the others are in the file."""
    client = bench.client("c")
    for _ in range(2):
        send(client, "x")
        bench.keep()
    (first, _) = sorted(bench.directory.rglob("*.arrow"))
    first.write_bytes(first.read_bytes()[:-100])
    with capture_logs() as logs:
        bench.local.complete(bench.exporter.writer.finish())
    assert [(log["event"], log["exports"]) for log in logs] == [("metrics_lost", 1)]
    assert total(bench.rows(), "received_qos0") == 1


def test_exports_without_a_file_are_not_metrics(bench: Bench) -> None:
    """The report passes over them, wherever they are."""
    from spark_jobs.compaction.survey import survey
    from spark_jobs.storage import open_storage

    client = bench.client("c")
    send(client, "x")
    bench.export()
    send(client, "x")
    bench.keep()
    found = survey(open_storage(str(bench.directory)))
    assert (len(found.good), found.skipped, found.temporary) == (1, (), 0)


def test_the_order_is_said(bench: Bench) -> None:
    """The footer names the columns that the rows are sorted by."""
    send(bench.client("c"), "x")
    bench.export()
    (path,) = metrics_files(bench.directory)
    metadata = pq.read_metadata(path)
    names = [metadata.schema.column(column.column_index).name for column in metadata.row_group(0).sorting_columns]
    assert tuple(names) == KEY
    assert pa.types.is_list(pq.read_schema(path).field("mailbox_buckets").type)
