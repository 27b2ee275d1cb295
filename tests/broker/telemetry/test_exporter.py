"""Which sessions an export has rows for, and when."""

import asyncio
import threading
from datetime import timedelta
from pathlib import Path
from time import monotonic

import psutil
import pytest
from structlog.testing import capture_logs

from broker import sessions
from broker.telemetry import exporter
from broker.telemetry.collector import Rows
from broker.telemetry.exporter import SLICE
from protocol import properties as props
from protocol.disconnect import Disconnect
from protocol.properties import Properties
from protocol.publish import Publish
from tests.broker.conftest import Start
from tests.support.broker.exporting import Bench, send
from tests.support.broker.metrics import check_books, metrics_files, of_client, read_rows
from tests.support.waiting import until
from tests.support.wire import connected

KEPT: Properties = {props.SESSION_EXPIRY_INTERVAL: 1000}


def test_quiet_sessions_write_nothing(bench: Bench) -> None:
    """A session without events has no row, and without rows there is no file."""
    bench.client("quiet")
    busy = bench.client("busy")
    bench.export()
    assert not bench.directory.exists()
    send(busy, "nobody")
    bench.export()
    bench.export()
    assert [row["client_id"] for row in bench.rows()] == ["busy"]
    assert len(metrics_files(bench.directory)) == 1


def test_everything(bench: Bench) -> None:
    """The last export has a row for every session."""
    bench.client("quiet")
    bench.client("away", KEPT).drop()
    bench.export(everything=True)
    assert [(row["client_id"], row["connected"]) for row in bench.rows()] == [("away", False), ("quiet", True)]


def test_the_loop_does_not_make_the_table(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Table and its freeing are the writer's: at 10,000 sessions they would hold the loop for 3 ms."""
    threads = []
    made = Rows.table

    def table(rows: Rows) -> object:
        threads.append(threading.current_thread().name)
        return made(rows)

    monkeypatch.setattr(Rows, "table", table)
    bench.client("c")
    bench.export(everything=True)
    assert threads == ["metrics"]


def test_heartbeat(bench: Bench) -> None:
    """A quiet session writes a row when its heartbeat is due; its interval is the quiet time."""
    bench.client("quiet")
    bench.exporter._heartbeat = 0
    bench.export()
    bench.export()
    rows = bench.rows()
    assert len(rows) == 2
    check_books(rows)


def test_waiting_is_not_quiet(bench: Bench) -> None:
    """A session with a delivery in its mailbox has a row, which counts it as offered and waiting."""
    client = bench.client("c")
    outbound = client.connection.session.outbound if client.connection.session is not None else None
    assert outbound is not None
    outbound.mailbox.add(Publish(b"c", b"x"))
    outbound.sender.host.awake = True
    bench.export()
    rows = bench.rows()
    check_books(rows)
    assert (rows[0]["offered_qos0"], rows[0]["waiting_qos0"]) == (1, 1)


@pytest.mark.parametrize(
    "event", ["slow_consumer", "stalled_window", "publish_parked", "publish_paged", "publish_discarded"]
)
def test_events_are_not_quiet(bench: Bench, event: str) -> None:
    """FC-14, FC-25, FC-26: a session with events and without deliveries has a row that counts them."""
    session = bench.client("c").connection.session
    assert session is not None
    setattr(session.outbound.sender.counters.begin_uncommon(), event, 2)
    bench.export()
    bench.export()
    assert [row[event] for row in bench.rows()] == [2]


def test_patience(bench: Bench) -> None:
    """FC-16: the time for which publishers were paced is in the rows of publisher and subscriber, and in no others."""
    slow, sender, other = bench.client("slow"), bench.client("sender"), bench.client("other")
    bench.local.run(slow.socket.pause_writing)
    for _ in range(10):
        sender.send(*[Publish(b"slow", b"x")] * 100)  # the queue is full
    send(other, "other")
    send(sender, "slow")
    send(sender, "slow")
    bench.export()
    rows = {row["client_id"]: row for row in bench.rows()}
    held = {name: (row["paced_for_us"] > 0, row["publish_paced_us"] > 0) for name, row in rows.items()}
    assert held == {"slow": (True, False), "sender": (False, True), "other": (False, False)}


def test_ended_session(bench: Bench) -> None:
    """A session that ends gets one last row, with its last counters."""
    client, sender = bench.client("c", KEPT), bench.client("sender")
    bench.export(everything=True)
    client.drop()
    send(sender, "c", 1)
    bench.local.pass_time(1002)
    bench.export()
    bench.export(everything=True)
    rows = of_client(bench.rows(), "c")
    check_books(rows)
    assert [row["ended"] for row in rows] == [False, True]
    assert (rows[1]["offered_qos1"], rows[1]["dropped_session_ended_qos1"]) == (1, 1)


def test_short_session(bench: Bench) -> None:
    """A session that is shorter than an interval has a row."""
    client = bench.client("c")
    send(client, "c", 1)
    client.drop()
    bench.export()
    (row,) = bench.rows()
    assert (row["ended"], row["received_qos1"], row["sent_qos1"]) == (True, 1, 1)
    assert row["interval_start"] == row["session_started"]


def test_connected_for_a_part_of_an_interval(start: Start, tmp_path: Path) -> None:
    """A row says for how long its client was connected, in two connections and by the clock of all."""
    least, most = 0.0, 0.0
    with start(sections={"metrics": {"directory": str(tmp_path / "metrics"), "interval": "1h"}}) as broker:
        for _ in range(2):
            before = monotonic()
            with connected(broker.address(), client_id="c", clean_start=False) as client:
                begin = monotonic()
                for _ in range(20):
                    client.publish("t", qos=1)
                least += monotonic() - begin
                client.send(Disconnect())
                client.expect_close()
                most += monotonic() - before
        assert broker.stop() == 0
    rows = read_rows(tmp_path / "metrics")
    check_books(rows)
    [row] = rows
    assert (row["connected"], row["received_qos1"]) == (False, 40)
    assert least * 1e6 <= row["connected_us"] + 1 <= most * 1e6 + 1


def test_a_take_over_goes_on(bench: Bench) -> None:
    """A session whose client is taken over by another connection is connected for the whole interval."""
    first = bench.client("c", KEPT)
    bench.local.client().connect("c", clean_start=False, properties=KEPT)
    assert first.gone
    bench.export(everything=True)
    [row] = bench.rows()
    length = (row["interval_end"] - row["interval_start"]) // timedelta(microseconds=1)
    assert (row["connected"], row["connected_us"]) == (True, length)


def test_two_sessions_of_one_client(bench: Bench) -> None:
    """A clean start begins another session: its rows are distinct from those of the older one."""
    bench.client("c")
    bench.export(everything=True)
    bench.client("c")
    bench.export(everything=True)
    rows = bench.rows()
    check_books(rows)
    assert [row["ended"] for row in rows] == [False, True, False]
    assert rows[0]["session_started"] == rows[1]["session_started"] < rows[2]["session_started"]


def test_session_that_ends_during_the_export(bench: Bench) -> None:
    """Sessions that end between two slices of an export have their rows once."""
    clients = [bench.client(f"client-{number:03}") for number in range(3 * SLICE)]

    async def export_and_end() -> None:
        task = asyncio.ensure_future(bench.exporter.export(everything=True))
        await asyncio.sleep(0)  # the first slice is collected
        clients[0].transport.abort()
        clients[-1].transport.abort()
        await task

    bench.local.complete(export_and_end())
    bench.export(everything=True)
    rows = bench.rows()
    check_books(rows)
    assert [row["ended"] for row in of_client(rows, "client-000")] == [False, True]
    assert [row["ended"] for row in of_client(rows, f"client-{3 * SLICE - 1}")] == [True]


@pytest.mark.once
def test_many_ended(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the rows of ended sessions take much memory, the export does not wait for the end of its interval."""
    monkeypatch.setattr(sessions, "ENOUGH_ENDED", 2_000)
    monkeypatch.setattr(exporter, "LEAST_PAUSE", 0.01)
    bench.local.run(bench.exporter.start)
    for number in range(2):
        bench.client(f"c{number}").drop()
    bench.local.complete(until(lambda: bench.exporter.writer.written == 1))
    bench.local.complete(bench.exporter.stop())
    assert {row["client_id"] for row in bench.rows() if row["ended"]} == {"c0", "c1"}


@pytest.mark.once
def test_too_many_ended(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of ended sessions wait for the export in a bounded list; those beyond it are counted and logged once."""
    monkeypatch.setattr(sessions, "MOST_ENDED", 2_500)
    for number in range(5):
        bench.client(f"c{number}").drop()
    with capture_logs() as logs:
        bench.export()
        bench.export()
    assert [(log["event"], log["rows"]) for log in logs] == [("metrics_lost", 3)]
    assert len(bench.rows()) == 2


@pytest.mark.once
def test_memory_of_an_export(tmp_path: Path) -> None:
    """What Arrow has taken for the rows of an export is given back to the system after it, not kept for the next."""
    bench = Bench(tmp_path / "metrics", mqtt={"max_clientid_len": 65_535})
    with bench.local:
        for number in range(800):
            bench.client(f"{number}".ljust(60_000, "x"))  # 48 MB of client ids
        before = psutil.Process().memory_info().rss
        bench.keep(everything=True)
        assert psutil.Process().memory_info().rss - before < 50 << 20
