"""Addresses that page, and what can go wrong: brokers that are killed, disks that are full, broken or silent."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from protocol import reason_codes
from protocol.acknowledgements import Puback
from protocol.publish import Publish
from tests.broker.conftest import Start
from tests.support.broker.events import events, wait_for_event
from tests.support.broker.paged import (
    TOPIC,
    Subscribe,
    fill,
    number_of,
    page_files,
    paging_broker,
    payload,
    publish,
    sections,
)
from tests.support.brokers import TCP_ONLY, sluice_config
from tests.support.process import clean_environment
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

pytestmark = pytest.mark.once

STUCK_DISK = """
import os, threading
import broker.addresses.paging.paging, broker.storage.disk_thread
broker.storage.disk_thread.SLOW = broker.addresses.paging.paging.CLOSE_TIMEOUT = 0.3
os.pwrite = lambda *_: threading.Event().wait()
from broker.cli.main import main
main()
"""
"""A broker whose disk never finishes writing pages."""


def test_killed(start: Start, directory: Path, subscribe: Subscribe) -> None:
    """FC-26: what a killed broker had on disk is removed at the next start, which says how much that was."""
    with paging_broker(start, directory) as broker:
        subscriber = subscribe(broker.address(), 5, 1)
        fill(broker.address(), directory)
        os.kill(broker.pid, signal.SIGKILL)
    stale = sum(path.stat().st_size for path in page_files(directory))
    assert stale > 0
    broker = paging_broker(start, directory)
    (removed,) = wait_for_event(broker, "pages_removed")
    assert removed["bytes"] == stale
    assert 50 < removed["messages"] <= 80
    assert page_files(directory) == []
    assert len(list(directory.iterdir())) == 1
    subscriber = subscribe(broker.address(), 5, 1)
    fill(broker.address(), directory)
    assert subscriber.take_numbers(100) == list(range(100))


def test_two_brokers(start: Start, tmp_path: Path, directory: Path, subscribe: Subscribe) -> None:
    """FC-26: brokers that share a directory, and even a name, leave each other's pages alone, whenever they start."""
    first = paging_broker(start, directory)
    subscribers = [subscribe(first.address(), 5, 1)]
    fill(first.address(), directory)
    second = paging_broker(start, directory)
    subscribers.append(subscribe(second.address(), 5, 1))
    fill(second.address(), directory)
    wait_until(lambda: len(page_files(directory)) == 2, "pages of both")
    third = paging_broker(start, directory)
    assert third.stop() == 0
    for subscriber in subscribers:
        assert subscriber.take_numbers(100) == list(range(100))
    assert not events(third, "pages_removed")


def test_full_disk(start: Start, directory: Path, subscribe: Subscribe) -> None:
    """FC-26: what the disk does not take is answered with 0x97, said once; what it has taken arrives."""
    broker = paging_broker(start, directory)
    subscriber = subscribe(broker.address(), 5, 1)
    process = psutil.Process(broker.pid)
    unlimited = process.rlimit(resource.RLIMIT_FSIZE)
    with connected(broker.address(), 5) as publisher:
        publish(publisher, range(30), 1)
        process.rlimit(resource.RLIMIT_FSIZE, (20_000, unlimited[1]))
        accepted = list(range(30))
        refused = 0
        for number in range(30, 300):
            publisher.send(Publish(TOPIC.encode(), payload(number, 5000), 1, packet_id=number))
            if publisher.expect(Puback).reason_code == reason_codes.SUCCESS:
                accepted.append(number)
            else:
                refused += 1
        assert refused > 200
        assert len(accepted) > 31
        failed = wait_for_event(broker, "paging_failed")
        assert len(failed) == 1
        assert str(directory) in failed[0]["directory"]
        assert "File too large" in failed[0]["detail"]
        publisher.publish("not/paged", b"x", 1)
        process.rlimit(resource.RLIMIT_FSIZE, unlimited)
        publish(publisher, range(300, 310), 1)
        (again,) = wait_for_event(broker, "paging_works_again")
        assert again["not_written"] == refused
    assert subscriber.take_numbers(len(accepted) + 10) == [*accepted, *range(300, 310)]
    assert subscriber.take_rest() == []


def test_no_space_left(start: Start, directory: Path, subscribe: Subscribe) -> None:
    """FC-26: the same on a file system that is really full, with `page_full_policy: drop` and more than one file."""
    directory.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(directory)], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("only root can mount a small file system")
    try:
        with paging_broker(start, directory, page_full_policy="drop") as broker:
            subscriber = subscribe(broker.address(), 4, 1)
            with connected(broker.address(), 4) as publisher:
                publish(publisher, range(100), 1, 50_000)
                (failed,) = wait_for_event(broker, "paging_failed")
                assert "No space left" in failed["detail"]
                first = subscriber.take_numbers(50)
                publish(publisher, range(100, 110), 1)
                rest = subscriber.take_numbers(1)
                while rest[-1] != 109:
                    rest += subscriber.take_numbers(1)
            assert first == list(range(50))
            assert rest == [*range(50, len(first) + len(rest) - 10), *range(100, 110)]
            assert len(rest) > 15
            assert broker.stop() == 0
        assert list(directory.iterdir()) == []
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


def test_damaged(start: Start, directory: Path, subscribe: Subscribe) -> None:
    """FC-26: of a page that something has written to, nothing is delivered that is not as it was published."""
    broker = paging_broker(start, directory)
    subscriber = subscribe(broker.address(), 5, 1)
    with connected(broker.address(), 5) as publisher:
        publish(publisher, range(100), 1, 30_000)
        first, *others = sorted(page_files(directory))
        assert len(others) == 2
        with first.open("r+b") as file:
            file.seek(500_000)
            file.write(b"damaged")
        received = subscriber.take(1)
        while number_of(received[-1]) != 99:
            received += subscriber.take(1)
    assert all(message.payload == payload(number_of(message), 30_000) for message in received)
    numbers = [number_of(message) for message in received]
    assert numbers == sorted(numbers)
    (lost,) = wait_for_event(broker, "pages_lost")
    assert lost["messages"] == 100 - len(numbers) > 10
    assert (lost["topic"], lost["lost"]) == (TOPIC, lost["messages"])
    wait_until(lambda: not page_files(directory), "an empty disk")


def send_for_ever(client: WireClient) -> None:
    """Publish until the broker reads no more."""
    while True:
        client.send(Publish(TOPIC.encode(), bytes(60_000), 0))


def test_a_disk_that_hangs(start: Start, directory: Path, subscribe: Subscribe) -> None:
    """FC-26: while the disk is silent its publishers wait, held back, others do not notice, and the broker can stop."""
    command = (sys.executable, "-c", STUCK_DISK)
    with start(sections=sections(directory), command=command) as broker:
        subscribe(broker.address(), 5, 1)
        with (
            connected(broker.address(), 5) as publisher,
            connected(broker.address(), 5) as other,
            connected(broker.address(), 4) as blocked,
        ):
            publish(publisher, range(15), 1)
            publisher.send(Publish(TOPIC.encode(), bytes(9000), 1, packet_id=1))
            before = broker.rss()
            blocked.socket.settimeout(0.5)
            with pytest.raises(TimeoutError):
                send_for_ever(blocked)
            assert broker.rss() - before < 8 * 1024 * 1024
            wait_for_event(broker, "disk_slow")
            other.subscribe("not/paged")
            other.publish("not/paged", b"x")
            assert other.receive_message().payload == b"x"
            publisher.expect_nothing_more()
            assert broker.stop() == 0
        assert events(broker, "pages_not_removed")


@pytest.mark.parametrize("where", ["file", "file/below"])
def test_impossible_directory(tmp_path: Path, where: str) -> None:
    """FC-26: a directory that cannot be made ends the start with one line that says what, where and what to write."""
    (tmp_path / "file").touch()
    (tmp_path / "sluice.yaml").write_text(sluice_config(TCP_ONLY, sections(tmp_path / where)))
    command = [sys.executable, "-m", "broker", "run", "--config", "sluice.yaml"]
    run = subprocess.run(
        command, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, timeout=20, check=False
    )
    assert run.returncode == 1
    (line,) = run.stderr.splitlines()
    assert line.startswith(f"sluice: paging.directory: {tmp_path / where} cannot hold pages: ")
    assert line.endswith("write a directory that may be written to")


def test_a_start_that_fails(tmp_path: Path, directory: Path) -> None:
    """FC-26: a broker that cannot listen leaves no directory behind."""
    taken = {"listeners": [{"name": "tcp", "bind": "192.0.2.1:1883"}]}
    (tmp_path / "sluice.yaml").write_text(sluice_config(TCP_ONLY, {**sections(directory), **taken}))
    command = [sys.executable, "-m", "broker", "run", "--config", "sluice.yaml"]
    run = subprocess.run(
        command, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, timeout=20, check=False
    )
    assert run.returncode == 1
    assert "cannot listen" in run.stderr
    assert list(directory.iterdir()) == []
