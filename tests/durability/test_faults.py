"""FC-29: a disk that fails, and one that is full. `make diskfaults` lets every call fail."""

import random
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from protocol import properties as props
from protocol.acknowledgements import Puback
from protocol.connect import Will
from protocol.publish import Publish
from tests.durability.faults import KEPT, KINDS, QUOTA_EXCEEDED, Faults, sweep
from tests.durability.shim import MissingError
from tests.durability.small import small
from tests.support.brokers import start_sluice
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

pytestmark = pytest.mark.once

RUNS = 2
OFTEN = ("eio", "full")
TRIED = [each if each in OFTEN else pytest.param(each, marks=pytest.mark.slow) for each in KINDS]

TMPFS = 2_000_000
BALLAST = 600_000
SIZE = 30_000
SMALL = 3_000
"""Bytes of messages of which many are in a segment."""
SEGMENT = 200_000


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Faults:
    """Starts brokers, and lets one call to the disk fail in each."""
    try:
        return Faults(tmp_path_factory.mktemp("faults"))
    except MissingError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def count(faults: Faults) -> int:
    """How many calls there are in a run."""
    return faults.calls()


@pytest.mark.parametrize("kind", TRIED)
def test_calls_that_fail(faults: Faults, count: int, kind: str) -> None:
    """When a call fails, the broker reports it and ends, or refuses while full; all that was acknowledged is kept."""
    assert count > 40
    _, wrong = sweep(faults, kind, random.Random(kind).sample(range(1, count), RUNS), lambda _: None)
    assert wrong == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with little room, some of which a file called `ballast` takes."""
    path = tmp_path / "disk"
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={TMPFS}", "tmpfs", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount")
    if done.returncode:
        pytest.skip(f"a tmpfs cannot be mounted here: {done.stderr.strip()}")
    try:
        (path / "ballast").write_bytes(bytes(BALLAST))
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def test_a_file_system_that_fills(tmp_path: Path, small_disk: Path) -> None:
    """Publishers get 0x97, subscribers are served, and when there is room all are, also after a restart."""
    sections = {"persistence": {"directory": str(small_disk / "journal")}}
    prepare = small(SEGMENT)
    with start_sluice(tmp_path, sections=sections, prepare=prepare) as broker:
        with WireClient(broker.address(), 5) as client:
            client.connect("kept", clean_start=False, properties=KEPT)
            client.subscribe("t", qos=1)
            client.disconnect()
        publisher = connected(broker.address(), 5)
        acknowledged = 0
        publisher.timeout = 1.0
        while _is_acknowledged(publisher, Publish(b"t", bytes(SIZE), 1, packet_id=acknowledged + 1)):
            acknowledged += 1
            assert acknowledged < TMPFS // SIZE
        with connected(broker.address(), 5) as other:
            wait_until(lambda: _is_refused(other), "a PUBLISH is refused")
            other.subscribe("other")
            other.publish("other", b"goes on")
            assert other.receive_message().payload == b"goes on"
        (small_disk / "ballast").unlink()
        publisher.timeout = 10.0
        wait_until(lambda: _is_acknowledged(publisher, Publish(b"t", b"the last one", 1, packet_id=1)), "there is room")
        publisher.close()
    assert acknowledged > 3
    broker = start_sluice(tmp_path, sections=sections, prepare=prepare)
    with broker, WireClient(broker.address(), 5) as client:
        kept = {**KEPT, props.RECEIVE_MAXIMUM: 1_000}
        assert client.connect("kept", clean_start=False, properties=kept).session_present
        sizes = [SIZE]
        while sizes[-1] == SIZE:
            sizes.append(client.receive_message().size)
        # A PUBLISH that was not acknowledged in time may have been stored.
        assert sizes[1:] in ([SIZE] * count + [len(b"the last one")] for count in (acknowledged, acknowledged + 1))


def test_a_disk_that_is_smaller_than_the_reserve(tmp_path: Path, small_disk: Path) -> None:
    """FC-29: the start says that there is too little room, how much there is, and how much is needed."""
    with start_sluice(tmp_path, sections=_journal(small_disk)) as broker:
        wait_until(lambda: "journal_full" in broker.stderr, "journal_full")
        assert "until the disk has room: 1 MiB are free, and 48 MiB are needed" in broker.stderr


def test_what_frees_space_goes_on(tmp_path: Path, small_disk: Path) -> None:
    """While the disk is full, a client gets what waits for it; that frees room in the journal itself."""
    sections = {"persistence": {"directory": str(small_disk / "journal")}}
    with start_sluice(tmp_path, sections=sections, prepare=small(SEGMENT, SEGMENT)) as broker:
        client = WireClient(broker.address(), 5)
        client.connect("kept", clean_start=False, properties={**KEPT, props.RECEIVE_MAXIMUM: 1_000})
        client.subscribe("t", qos=1)
        publisher = connected(broker.address(), 5)
        publisher.timeout = 1.0
        acknowledged = 0
        while _is_acknowledged(publisher, Publish(b"t", bytes(SIZE), 1, packet_id=acknowledged + 1)):
            acknowledged += 1
            assert acknowledged < TMPFS // SIZE
        for _ in range(acknowledged):
            client.send(Puback(client.expect(Publish).packet_id))
        wait_until(lambda: _is_acknowledged(publisher, Publish(b"t", b"again", 1, packet_id=1)), "there is room")
        assert client.receive_message().payload == b"again"
        assert "journal_full" in broker.stderr
        assert "journal_has_room" in broker.stderr
        publisher.close()
        client.close()


def test_a_group_on_a_full_disk(tmp_path: Path, small_disk: Path) -> None:
    """FC-29: a kept member gets all that its group has, although each is written once more, and that makes room."""
    with start_sluice(tmp_path, sections=_journal(small_disk), prepare=small(SEGMENT, SEGMENT)) as broker:
        with WireClient(broker.address(), 5) as member:
            member.connect("kept", clean_start=False, properties=KEPT)
            member.subscribe("$share/g/t", qos=1)
            member.disconnect()
        count = _fill(broker, lambda _: Publish(b"t", bytes(SMALL), 1))
        with WireClient(broker.address(), 5) as member, connected(broker.address(), 5) as publisher:
            assert member.connect("kept", clean_start=False, properties=KEPT).session_present
            assert [message.size for message in _take(member, count)] == [SMALL] * count
            wait_until(lambda: _is_acknowledged(publisher, Publish(b"t", b"again", 1, packet_id=1)), "there is room")
            assert member.receive_message().payload == b"again"
        assert "journal_stuck" not in broker.stderr


def test_retained_messages_on_a_full_disk(tmp_path: Path, small_disk: Path) -> None:
    """FC-29: who subscribes again gets all retained messages, a part at a time, and kept sessions can still connect."""
    with start_sluice(tmp_path, sections=_journal(small_disk), prepare=small(SEGMENT, SEGMENT)) as broker:
        with WireClient(broker.address(), 5) as client:
            client.connect("kept", clean_start=False, properties=KEPT)
            client.subscribe("r/#", qos=1)
            client.disconnect()
        count = _fill(broker, lambda number: Publish(b"r/%d" % number, bytes(SMALL), 1, True))
        with WireClient(broker.address(), 5) as client:
            assert client.connect("kept", clean_start=False, properties=KEPT).session_present
            topics = {message.topic for message in _take(client, count)}
            client.subscribe("r/#", qos=1)
            again = [message.topic for message in _take(client, count)]
            assert (len(again), set(again)) == (count, topics)
            client.disconnect()
        with WireClient(broker.address(), 5) as client:
            assert client.connect("kept", clean_start=False, properties=KEPT).session_present
        assert "journal_stuck" not in broker.stderr


def test_a_burst_on_a_disk_that_fills(tmp_path: Path, small_disk: Path) -> None:
    """FC-29: of many PUBLISHes at once some are refused, before they leave no room for kept sessions to connect."""
    with start_sluice(tmp_path, sections=_journal(small_disk), prepare=small(SEGMENT, SEGMENT)) as broker:
        with WireClient(broker.address(), 5) as client:
            client.connect("kept", clean_start=False, properties=KEPT)
            client.subscribe("t", qos=1)
            client.disconnect()
        publishers = [connected(broker.address(), 5) for _ in range(TMPFS // SIZE)]
        for publisher in publishers:
            publisher.send(Publish(b"t", bytes(SIZE), 1, packet_id=1))
        codes = [publisher.expect(Puback).reason_code for publisher in publishers]
        assert set(codes) == {0, QUOTA_EXCEEDED}
        with WireClient(broker.address(), 5) as client:
            assert client.connect("kept", clean_start=False, properties=KEPT).session_present
            _take(client, codes.count(0))
        for publisher in publishers:
            publisher.close()
        assert "journal_stuck" not in broker.stderr


def test_wills_on_a_full_disk(tmp_path: Path, small_disk: Path) -> None:
    """FC-29: wills for which there is no room are dropped and logged; who waits for them connects and frees space."""
    with start_sluice(tmp_path, sections=_journal(small_disk), prepare=small(SEGMENT, SEGMENT)) as broker:
        with WireClient(broker.address(), 5) as client:
            client.connect("kept", clean_start=False, properties=KEPT)
            client.subscribe("#", qos=1)
            client.disconnect()
        leaving = [WireClient(broker.address(), 5) for _ in range(200)]
        for number, one in enumerate(leaving):
            one.connect(f"leaving-{number}", will=Will(b"w", bytes(SIZE), 1))
        count = _fill(broker, lambda _: Publish(b"t", bytes(SMALL), 1))
        for one in leaving:
            one.reset()
        wait_until(lambda: "will_dropped" in broker.stderr, "wills are dropped")
        with WireClient(broker.address(), 5) as client, connected(broker.address(), 5) as publisher:
            assert client.connect("kept", clean_start=False, properties=KEPT).session_present
            _take(client, count)
            wait_until(lambda: _is_acknowledged(publisher, Publish(b"none", b"", 1, packet_id=1)), "there is room")
        assert "journal_stuck" not in broker.stderr


def _journal(disk: Path) -> dict[str, Any]:
    return {"persistence": {"directory": str(disk / "journal")}}


def _fill(broker: BrokerProcess, message: Callable[[int], Publish]) -> int:
    """Publish until the disk is full; returns how many messages were acknowledged. `message`: the one of a number."""
    with connected(broker.address(), 5) as publisher:
        for number in range(TMPFS // SMALL):
            publish = message(number)
            publish.packet_id = number + 1
            publisher.send(publish)
            if publisher.expect(Puback).reason_code == QUOTA_EXCEEDED:
                return number
    raise AssertionError("the disk is not full")


def _take(client: WireClient, count: int) -> list[Publish]:
    """Receive and acknowledge so many messages."""
    found: list[Publish] = []
    while len(found) < count:
        publish = client.expect(Publish)
        client.send(Puback(publish.packet_id))
        found.append(publish)
    return found

def _is_acknowledged(client: WireClient, publish: Publish) -> bool:
    client.send(publish)
    try:
        while (answer := client.expect(Puback)).packet_id != publish.packet_id:
            pass  # of one that was given up
        return answer.reason_code == 0
    except TimeoutError:
        return False


def _is_refused(client: WireClient) -> bool:
    client.send(Publish(b"nobody", b"", 1, packet_id=1))
    return client.expect(Puback).reason_code == QUOTA_EXCEEDED
