"""FC-29: a journal that cannot be read or written."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.storage.found import find
from broker.storage.frame import HEAD_SIZE, SECTOR
from broker.storage.segment import Segment
from protocol import properties as props
from protocol import reason_codes
from protocol.acknowledgements import Puback
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from protocol.unsuback import Unsuback
from protocol.unsubscribe import Unsubscribe
from tests.broker.conftest import Start
from tests.support.brokers import SLUICE
from tests.support.process import BrokerError
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

KEPT: Properties = {props.SESSION_EXPIRY_INTERVAL: 3600}

FAILING = """
import errno, os
pwritev = os.pwritev
def failing(file, parts, *rest):
    if b"please fail" in parts[0]:
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    return pwritev(file, parts, *rest)
os.pwritev = failing
from broker.cli.main import main
main()
"""
"""A broker whose disk fails when a certain message is written."""

SLOW = """
import os, time
pwritev = os.pwritev
def slow(file, parts, *rest):
    if b"please wait" in parts[0]:
        while not os.path.exists({go_on!r}):
            time.sleep(0.01)
    return pwritev(file, parts, *rest)
os.pwritev = slow
import broker.persistence
broker.persistence.WAITS_AFTER = 0.1
broker.persistence.CLOSE_TIMEOUT = {patience}
from broker.cli.main import main
main()
"""
"""A broker whose disk writes a certain message when there is a file, and which has so many seconds for it."""

LIMITED = """
import errno, os
import broker.storage.spares
broker.storage.spares.SEGMENT = 65536
write = os.write
def limited(file, content):
    if len(content) > 10000 and os.path.exists({full!r}):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return write(file, content)
os.write = limited
from broker.cli.main import main
main()
"""
"""A broker with small segments, whose disk has no room for another one while there is a file."""


def sections(directory: Path) -> dict[str, object]:
    """The configuration of a broker with a journal."""
    return {"persistence": {"directory": str(directory)}}


def in_records(segment: Segment) -> tuple[int, bytes]:
    """Another byte in the records of the first frame."""
    return SECTOR + HEAD_SIZE + 2, b"\xff"


def in_the_last_frame(segment: Segment) -> tuple[int, bytes]:
    """Another byte in the head of the last frame, behind which the mark is that the broker has stopped."""
    return segment.end - SECTOR - segment.size(segment.next - 1) + SECTOR, b"\xff"


def in_its_head(segment: Segment) -> tuple[int, bytes]:
    """Zeros in the middle of the file's head, in both copies."""
    return 10, bytes(300)


@pytest.mark.parametrize("damage", [in_records, in_the_last_frame, in_its_head])
def test_damaged(start: Start, tmp_path: Path, damage: Callable[[Segment], tuple[int, bytes]]) -> None:
    """A broker refuses to start on a damaged journal, names the damage and its place, and leaves it unchanged."""
    journal = tmp_path / "journal"
    broker = start(sections=sections(journal))
    with WireClient(broker.address(), 5) as client:
        client.connect("kept", clean_start=False, properties=KEPT)
        client.subscribe("a", "b", "c", qos=1)
    broker.ask_to_end()
    assert broker.stop() == 0
    (segment,) = find(journal).segments
    at, content = damage(segment)
    with segment.path.open("r+b") as file:
        file.seek(at)
        file.write(content)
    before = segment.path.read_bytes()
    with pytest.raises(
        BrokerError, match=r"(?s)ended with 1 .*\nsluice: [^\n]*segment-\d: [^\n]*damaged; `sluice store check`"
    ):
        start(sections=sections(journal))
    assert segment.path.read_bytes() == before


def test_a_second_broker(start: Start, tmp_path: Path) -> None:
    """A broker refuses to start on a journal that another one uses, and says so."""
    start(sections=sections(tmp_path / "journal"))
    with pytest.raises(BrokerError, match=r"sluice: persistence.directory .*: another broker uses it"):
        start(sections=sections(tmp_path / "journal"))


def test_a_second_broker_without_the_lock_file(start: Start, tmp_path: Path) -> None:
    """It is refused too if somebody has removed `journal.lock`, and the first broker goes on."""
    broker = start(sections=sections(tmp_path / "journal"))
    (tmp_path / "journal" / "journal.lock").unlink()
    with pytest.raises(BrokerError, match=r"sluice: persistence.directory .*: another broker uses it"):
        start(sections=sections(tmp_path / "journal"))
    with connected(broker.address(), 5) as publisher:
        assert publisher.publish("t", b"x", 1, retain=True) < reason_codes.UNSPECIFIED_ERROR


def test_a_commit_fails(start: Start, tmp_path: Path) -> None:
    """After a failed commit nothing is acknowledged, the broker ends with 74, and what was committed is restored."""
    broker = start(sections=sections(tmp_path / "journal"), command=(SLUICE[0], "-c", FAILING))
    with WireClient(broker.address(), 5) as client, connected(broker.address(), 5) as publisher:
        client.connect("kept", clean_start=False, properties=KEPT)
        client.subscribe("t", qos=1)
        publisher.publish("t", b"on disk", 1)
        publisher.send(Publish(b"t", b"please fail", 1, packet_id=9))
        assert [packet for packet in publisher.until_close() if isinstance(packet, Puback)] == []
    wait_until(lambda: "journal_failed" in broker.stderr, "journal_failed")
    broker.ask_to_end(signal.SIGWINCH)  # which does nothing: it ends by itself
    assert broker.stop() == 74
    assert "Input/output error: what is on disk is not known; start the broker again" in broker.stderr
    again = start(sections=sections(tmp_path / "journal"))
    with WireClient(again.address(), 5) as client:
        assert client.connect("kept", clean_start=False, properties=KEPT).session_present
        assert client.expect(Publish).payload == b"on disk"


@pytest.mark.parametrize("sync", ["1s", "commit"])
def test_a_slow_disk_at_the_end(start: Start, tmp_path: Path, sync: str) -> None:
    """FC-28: a broker that ends waits for a slow disk, says so, and loses nothing."""
    go_on = tmp_path / "go on"
    section = {"persistence": {"directory": str(tmp_path / "journal"), "sync": sync}}
    broker = start(sections=section, command=(SLUICE[0], "-c", SLOW.format(go_on=str(go_on), patience=10)))
    with WireClient(broker.address(), 5) as client:
        client.connect("kept", clean_start=False, properties=KEPT)
        client.subscribe("t", qos=1)
    with connected(broker.address(), 5) as publisher:
        publisher.send(Publish(b"t", b"please wait", 1, packet_id=1))
        if sync == "1s":
            publisher.expect(Puback)
        broker.ask_to_end()
        wait_until(lambda: "journal_waits" in broker.stderr, "journal_waits")
        go_on.touch()
    assert broker.stop() == 0
    again = start(sections=section)
    with WireClient(again.address(), 5) as client:
        assert client.connect("kept", clean_start=False, properties=KEPT).session_present
        assert client.expect(Publish).payload == b"please wait"


def test_a_disk_that_is_too_slow_at_the_end(start: Start, tmp_path: Path) -> None:
    """FC-28: a broker that ends without what it has acknowledged says so, also with its status."""
    section = {"persistence": {"directory": str(tmp_path / "journal"), "sync": "1s"}}
    command = (SLUICE[0], "-c", SLOW.format(go_on="/never", patience=0.3))
    broker = start(sections=section, command=command)
    with WireClient(broker.address(), 5) as client, connected(broker.address(), 5) as publisher:
        client.connect("kept", clean_start=False, properties=KEPT)
        client.subscribe("t", qos=1)
        publisher.publish("t", b"please wait", 1)
    broker.ask_to_end()
    assert broker.stop() == 74
    assert "journal: the last records were not written within 0.3 s" in broker.stderr


def test_a_disk_that_is_full(start: Start, tmp_path: Path) -> None:
    """While the disk is full publishers get 0x97 and other clients are served; with room it continues."""
    full = tmp_path / "full"
    command = (SLUICE[0], "-c", LIMITED.format(full=str(full)))
    broker = start(sections=sections(tmp_path / "journal"), command=command)
    with WireClient(broker.address(), 5) as client, connected(broker.address(), 5) as publisher:
        client.connect("kept", clean_start=False, properties=KEPT)
        client.subscribe("t", qos=1)
        full.touch()
        publisher.send(Publish(b"t", bytes(100_000), 1, packet_id=1))
        assert client.receive_message().size == 100_000
        with connected(broker.address(), 5) as other:
            wait_until(lambda: refused(other), "PUBLISH is refused")
        full.unlink()
        assert publisher.expect(Puback).packet_id == 1
        publisher.publish("t", b"goes on", 1)
        assert client.receive_message().payload == b"goes on"


def test_a_disk_that_is_full_from_the_beginning(start: Start, tmp_path: Path) -> None:
    """A broker that cannot make its first file says so before anybody connects, and refuses what it could not keep."""
    full = tmp_path / "full"
    full.touch()
    command = (SLUICE[0], "-c", LIMITED.format(full=str(full)))
    broker = start(sections=sections(tmp_path / "journal"), command=command)
    wait_until(lambda: "journal_full" in broker.stderr, "journal_full")
    with WireClient(broker.address(), 5) as client:
        client.send(Connect("kept", False, 0, properties=KEPT, version=5))
        assert client.expect(Connack).reason_code == 0x97
    full.unlink()
    wait_until(lambda: "journal_has_room" in broker.stderr, "journal_has_room")
    with connected(broker.address(), 5, clean_start=False, properties=KEPT) as client:
        client.subscribe("t", qos=1)
    assert broker.stop() == 0


def test_no_more_than_max_bytes(start: Start, tmp_path: Path) -> None:
    """Past `max_bytes` the log says once what is refused and until when, and that there is room again."""
    own = {"directory": str(tmp_path / "journal"), "max_bytes": 20_000}
    broker = start(sections={"persistence": own})
    with connected(broker.address(), 5, clean_start=False, properties=KEPT) as client:
        for number in range(2):
            client.send(Subscribe(number + 1, [Subscription(f"{number}/{'x' * 30_000}", 1)]))
        assert [client.expect(Suback).reason_codes for _ in range(2)] == [[1], [0x97]]
        wait_until(lambda: "journal_full" in broker.stderr, "journal_full")
        assert "are refused until the journal is smaller than max_bytes" in broker.stderr
        assert "subscribe_refused" in broker.stderr
        with WireClient(broker.address(), 5) as other:
            other.send(Connect("other", False, 0, properties=KEPT, version=5))
            assert other.expect(Connack).reason_code == 0x97
        assert "client_refused" in broker.stderr
        client.send(Unsubscribe(3, [f"0/{'x' * 30_000}"]))
        assert client.expect(Unsuback).reason_codes == [0]
        wait_until(lambda: "journal_has_room" in broker.stderr, "journal_has_room")
        assert broker.stderr.count("journal_full") == 1


def test_the_directory_is_removed(start: Start, tmp_path: Path) -> None:
    """A broker whose journal is removed acknowledges nothing more, says why, and ends with 74."""
    broker = start(sections=sections(tmp_path / "journal"))
    with connected(broker.address(), 5, clean_start=False, properties=KEPT) as client:
        (tmp_path / "journal").rename(tmp_path / "elsewhere")
        client.send(Subscribe(1, [Subscription("t", 1)]))
        assert client.until_close() == []
    broker.ask_to_end(signal.SIGWINCH)  # which does nothing: it ends by itself
    assert broker.stop() == 74
    assert ": it has been removed, moved or replaced" in broker.stderr


def refused(publisher: WireClient) -> bool:
    """Publish to nobody; whether that is refused."""
    publisher.send(Publish(b"other", b"", 1, packet_id=2))
    return publisher.expect(Puback).reason_code == 0x97
