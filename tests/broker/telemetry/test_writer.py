"""The export of a broker: balanced counters after load, files that are complete or absent, full disks."""

import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from protocol import properties as props
from protocol.acknowledgements import Puback
from protocol.connect import Will
from protocol.disconnect import Disconnect
from protocol.properties import Properties
from protocol.publish import Publish, encode_publish
from protocol.subscribe import Subscribe, Subscription
from tests.support.broker.events import events, wait_for_event
from tests.support.broker.metrics import Row, by_session, check_books, metrics_files, of_client, read_rows, total
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

pytestmark = pytest.mark.once

Start = Callable[..., BrokerProcess]

MAIN = "from broker.cli.main import main; main()"

STUCK_FSYNC = "import os, threading; os.fsync = lambda _: threading.Event().wait(); " + MAIN
"""A broker whose disk never finishes writing."""


@pytest.fixture
def metrics(tmp_path: Path) -> Path:
    """Where the files go."""
    return tmp_path / "metrics"


def sections(metrics: Path, **session: object) -> dict[str, object]:
    """Configuration that exports as often as it may."""
    return {
        "metrics": {"directory": str(metrics), "interval": "100ms", "heartbeat": "300ms"},
        "session": {"max_mqueue_len": 50, "max_inflight": 10, **session},
        "mqtt": {"session_expiry_interval": "1s"},
    }


def publishes(topic: str, count: int, qos: int, version: int) -> bytes:
    """PUBLISHes in one piece, with packet ids from 1 on."""
    return b"".join(
        encode_publish(topic.encode(), b"x" * 500, qos, False, False, number if qos else 0, None, version)
        for number in range(1, count + 1)
    )


def expiring(seconds: int) -> Properties:
    """CONNECT properties for a session that outlives its connection."""
    return {props.SESSION_EXPIRY_INTERVAL: seconds}


def load(broker: BrokerProcess, number: int) -> None:
    """One round of what clients do to a broker: well and badly behaved, coming, going, pushing each other out."""
    address = broker.address()
    version = 4 + number % 2
    with WireClient(address, version) as reader, WireClient(address, 9 - version, receive_buffer=4096) as deaf:
        reader.connect(f"reader-{number}")
        reader.subscribe("load/#", qos=2)
        deaf.connect("deaf", clean_start=False, properties=expiring(1) if version == 4 else None)
        deaf.send(Subscribe(1, [Subscription("load/+", number % 3)]))
        with connected(address, version, client_id=f"sender-{number}") as sender:
            sender.send(publishes("load/0", 400, 0, version))
            for _ in range(5):
                sender.publish("load/1", b"y" * 200, 1)
                sender.publish("load/2", b"z" * 200, 2)
            if number % 2:
                sender.reset()
        usurper = WireClient(address, version)
        usurper.connect(f"reader-{number}", clean_start=number % 3 == 0, will=Will(b"load/0", b"gone", 1, False, None))
        usurper.subscribe("load/0")
        usurper.send(Publish(b"load/0", b"to itself", 1, packet_id=1))
        usurper.reset()
        deaf.reset()


def test_books_balance(start: Start, metrics: Path) -> None:
    """Offered = sent + dropped + waiting, in each row and from row to row, after load, take-overs, expiry, a stop."""
    with start(sections=sections(metrics)) as broker:
        for number in range(6):
            load(broker, number)
        wait_until(lambda: any(row["ended"] for row in of_client(read_rows(metrics), "deaf")), "the deaf one's end")
        with connected(broker.address(), 5, client_id="last") as last:
            last.subscribe("last", qos=1)
            last.send(Publish(b"last", b"never acknowledged", 1, packet_id=1))
            assert {type(last.receive()), type(last.receive())} == {Puback, Publish}
            broker.stop()
            assert isinstance(last.expect_close(), Disconnect)
    rows = read_rows(metrics)
    check_books(rows)
    assert all(session[-1]["ended"] for session in by_session(rows).values())
    assert total(rows, "dropped_queue_full_qos0") > 0
    assert total(rows, "resent_publish") > 0
    assert total(rows, "received_qos0") == 6 * 400
    assert total(of_client(rows, "last"), "sent_qos1") == 1
    assert [total(rows, f"received_qos{qos}") for qos in (1, 2)] == [6 * 5 + 6 + 1, 6 * 5]


def test_heartbeat(start: Start, metrics: Path) -> None:
    """A quiet session writes a row per heartbeat, no more; its intervals are contiguous."""
    with start(sections=sections(metrics)) as broker, connected(broker.address(), 5, client_id="quiet"):
        wait_until(lambda: len(of_client(read_rows(metrics), "quiet")) >= 3, "three rows")
    rows = of_client(read_rows(metrics), "quiet")
    check_books(rows)
    lengths = [(row["interval_end"] - row["interval_start"]).total_seconds() for row in rows if not row["ended"]]
    assert all(length >= 0.3 for length in lengths)


def test_killed_while_writing(start: Start, metrics: Path) -> None:
    """A broker that dies while it writes leaves no file that looks whole: only what the report passes over."""
    broker = start(sections=sections(metrics), command=(sys.executable, "-c", STUCK_FSYNC))
    with connected(broker.address(), 5, client_id="c") as client:
        client.publish("t", b"x", 1)
        wait_until(lambda: any(metrics.rglob("*.tmp")), "a file being written")
        os.kill(broker.pid, signal.SIGKILL)
        broker.stop()
    assert metrics_files(metrics) == []
    left = [path for path in metrics.rglob("*") if path.is_file()]
    assert left
    assert all(path.suffix == ".tmp" for path in left)


def test_killed_between_exports(start: Start, metrics: Path) -> None:
    """What a broker has exported before it is killed is in the files of the next one, once."""
    with start(sections=sections(metrics)) as broker, connected(broker.address(), 5, client_id="c") as client:
        client.publish("t", b"x", 1)
        wait_until(lambda: total(read_rows(metrics), "received_qos1") == 1, "the export")
        os.kill(broker.pid, signal.SIGKILL)
        broker.stop()
    with start(sections=sections(metrics)) as broker, connected(broker.address(), 5, client_id="d") as client:
        client.publish("t", b"x", 1)
    rows = read_rows(metrics)
    assert [total(of_client(rows, name), "received_qos1") for name in "cd"] == [1, 1]
    assert not list(metrics.rglob("*.arrow"))


def test_full_disk(start: Start, metrics: Path) -> None:
    """A full disk is logged once; clients are served, and exports continue when there is room."""
    with start(sections=sections(metrics)) as broker, connected(broker.address(), 5, client_id="c") as client:
        process = psutil.Process(broker.pid)
        unlimited = process.rlimit(resource.RLIMIT_FSIZE)
        process.rlimit(resource.RLIMIT_FSIZE, (1000, unlimited[1]))
        client.publish("t", b"x", 1)
        wait_for_event(broker, "metrics_lost")
        for _ in range(3):
            client.publish("t", b"x", 1)
        process.rlimit(resource.RLIMIT_FSIZE, unlimited)
        wait_for_event(broker, "metrics_written_again")
        client.publish("t", b"x", 1)
    assert len(events(broker, "metrics_lost")) == 1
    assert events(broker, "metrics_written_again")[0]["failed"] >= 1
    assert not list(metrics.rglob("*.tmp"))
    rows: list[Row] = of_client(read_rows(metrics), "c")
    assert rows[-1]["ended"]


def test_unwritable_directory(start: Start, metrics: Path) -> None:
    """Something that is in the way keeps the broker neither from serving nor from stopping."""
    metrics.mkdir()
    (metrics / "_pending").write_text("not a directory")
    with start(sections=sections(metrics)) as broker:
        with connected(broker.address(), 5, client_id="c") as client:
            client.publish("t", b"x", 1)
            wait_for_event(broker, "metrics_lost")
            client.publish("t", b"x", 1)
        assert broker.stop() == 0
    assert len(events(broker, "metrics_lost")) == 1
    assert (metrics / "_pending").read_text() == "not a directory"


def test_stop_with_a_hung_disk(start: Start, metrics: Path) -> None:
    """A disk that does not answer does not keep the broker from stopping; the lost rows are logged."""
    code = "import broker.server.server; broker.server.server.METRICS_TIMEOUT = 0.3; " + STUCK_FSYNC
    with start(sections=sections(metrics), command=(sys.executable, "-c", code)) as broker:
        with connected(broker.address(), 5, client_id="c") as client:
            client.publish("t", b"x", 1)
            wait_until(lambda: any(metrics.rglob("*.tmp")), "a file being written")
            client.publish("t", b"x", 1)
        assert broker.stop() == 0
    assert len(events(broker, "metrics_lost")) == 1
    assert metrics_files(metrics) == []


def test_restart(start: Start, metrics: Path) -> None:
    """A restarted broker adds its files to those of the first run."""
    for _ in range(2):
        with start(sections=sections(metrics)) as broker, connected(broker.address(), 5, client_id="c") as client:
            client.publish("t", b"x", 1)
    rows = read_rows(metrics)
    check_books(rows)
    assert total(rows, "received_qos1") == 2
    assert len(by_session(rows)) == 2
