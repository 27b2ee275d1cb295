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
from broker.telemetry.schema import metrics_schema
from tests.support.broker.exporting import Bench, send
from tests.support.broker.metrics import check_books, metrics_files, sessions_of, total

pytestmark = pytest.mark.once

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
    (aside,) = bench.directory.rglob("*.arrow")
    assert aside.name == first.name
    assert str(aside.parent) in logs[0]["detail"]


def changed(export: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Write an export again, with other rows and another row of broker and interval."""
    reader = pa.ipc.open_file(export.read_bytes())
    interval = change(pa.ipc.open_stream(reader.schema.metadata[pending.INTERVAL]).read_all())
    held = pa.BufferOutputStream()
    with pa.ipc.new_stream(held, interval.schema) as out:
        out.write_table(interval)
    rows = change(reader.read_all()).replace_schema_metadata({pending.INTERVAL: held.getvalue().to_pybytes()})
    with pa.ipc.new_file(str(export), rows.schema) as out:
        out.write_table(rows)


def newer(rows: pa.Table) -> pa.Table:
    """As a newer broker writes them, with a column that this one does not know."""
    return rows.append_column("new_counter", pa.array([1] * rows.num_rows))


@pytest.mark.parametrize("changes", [1, 3])
def test_exports_of_a_newer_version_are_filed(bench: Bench, changes: int) -> None:
    """After a return to an older broker, whether some or all exports of a quarter are of the newer one."""
    client = bench.client("c")
    for _ in range(3):
        send(client, "x")
        bench.keep()
    for export in sorted(bench.directory.rglob("*.arrow"))[:changes]:
        changed(export, newer)
    with capture_logs() as logs:
        bench.local.complete(bench.exporter.writer.finish())
    assert logs == []
    (path,) = metrics_files(bench.directory)
    assert pq.read_schema(path).names == metrics_schema().arrow.names
    rows = sessions_of(pq.ParquetFile(path).read().to_pylist())
    assert total(rows, "received_qos0") == 3
    check_books(rows)


def without_client(rows: pa.Table) -> pa.Table:
    """Rows whose client nobody knows."""
    return rows.drop_columns(["client_id"])


def with_nulls(rows: pa.Table) -> pa.Table:
    """Rows without a value that each has."""
    place = rows.column_names.index("received_qos0")
    return rows.set_column(place, "received_qos0", pa.nulls(rows.num_rows, pa.int64()))


def not_in_order(rows: pa.Table) -> pa.Table:
    """Rows from the last client to the first."""
    return rows.take(pa.array(range(rows.num_rows - 1, -1, -1)))


@pytest.mark.parametrize("damage", [without_client, with_nulls, not_in_order])
def test_a_bad_export_costs_only_itself(
    bench: Bench, begin: Callable[[int], None], damage: Callable[[pa.Table], pa.Table]
) -> None:
    """It is set aside and named, once; the rest of its quarter is filed, and so are later ones."""
    clients = [bench.client(name) for name in "ab"]

    def export() -> None:
        for client in clients:
            send(client, "x")
        bench.keep()

    export()
    export()
    changed(min(bench.directory.rglob("*.arrow")), damage)
    begin(2_000_001)
    with capture_logs() as logs:
        export()
        bench.local.complete(bench.exporter.writer.finish())
    rows = [row for path in metrics_files(bench.directory) for row in pq.ParquetFile(path).read().to_pylist()]
    assert total(sessions_of(rows), "received_qos0") == 4
    assert [log["event"] for log in logs] == ["metrics_lost"]
    assert len(list(bench.directory.glob("_pending/*/*.damaged/*.arrow"))) == 1


def test_a_folder_that_nothing_can_be_made_of_costs_only_itself(
    bench: Bench, begin: Callable[[int], None]
) -> None:
    """Its exports are set aside and named, whatever is wrong; others are filed, and nothing unfinished is left."""
    client = bench.client("c")
    send(client, "x")
    bench.keep()
    (bad,) = bench.directory.glob("_pending/*/2000000")
    bad.rename(bad.with_name("by hand.parquet"))
    begin(2_000_001)
    send(client, "x")
    with capture_logs() as logs:
        bench.keep()
        bench.local.complete(bench.exporter.writer.finish())
    assert [(log["event"], "by hand.damaged" in log["detail"]) for log in logs] == [("metrics_lost", True)]
    assert total(sessions_of(pq.ParquetFile(*metrics_files(bench.directory)).read().to_pylist()), "received_qos0") == 1
    assert not list(bench.directory.rglob("*.tmp"))


def test_exports_without_a_file_are_not_metrics(bench: Bench) -> None:
    """The report passes over them, wherever they are."""
    from spark_jobs.compaction.survey import survey
    from spark_jobs.storage import open_storage

    client = bench.client("c")
    send(client, "x")
    bench.export()
    send(client, "x")
    bench.keep()
    (path,) = metrics_files(bench.directory)
    found = survey(open_storage(str(bench.directory)))
    # This broker's clock is years ahead, so the report refuses the file.
    assert [file.name for file in (*found.good, *found.skipped)] == [path.relative_to(bench.directory).as_posix()]
    assert found.temporary == 0


def test_the_order_is_said(bench: Bench) -> None:
    """The footer names the columns that the rows are sorted by."""
    send(bench.client("c"), "x")
    bench.export()
    (path,) = metrics_files(bench.directory)
    metadata = pq.read_metadata(path)
    names = [metadata.schema.column(column.column_index).name for column in metadata.row_group(0).sorting_columns]
    assert tuple(names) == KEY
    assert pa.types.is_list(pq.read_schema(path).field("mailbox_buckets").type)
