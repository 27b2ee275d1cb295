"""Compaction: the journal has the same content in fewer frames (FC-27)."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from broker.storage import compaction, spares
from broker.storage.compaction import Compaction
from broker.storage.errors import StorageError
from broker.storage.saved import Saved, SavedSession
from broker.storage.storage import Storage
from protocol import properties as props
from protocol.acknowledgements import Puback, Pubrec
from protocol.connect import Connect
from protocol.disconnect import Disconnect
from protocol.publish import Publish
from protocol.reason_codes import QUOTA_EXCEEDED
from protocol.subscribe import Subscribe, Subscription
from protocol.unsubscribe import Unsubscribe
from tests.support.broker.stored import KEPT, broker_on, connected, content_of, on_disk, say, waiting


def what_is_in(storage: Storage) -> dict[str, Any]:
    """What a broker would restore."""
    saved = storage.read()
    return {
        "sessions": {number: session(storage, each) for number, each in saved.sessions.items()},
        "retained": {topic: content_of(record.saved) for topic, record in saved.retained.items()},
        "last": saved.last_queue,
    }


def session(storage: Storage, saved: SavedSession) -> tuple[Any, ...]:
    """All that is known of a session or group."""
    return (
        saved.client_id,
        saved.group,
        saved.version,
        saved.expiry,
        saved.detached_at,
        saved.next_delivery,
        sorted(saved.subscriptions),
        waiting(storage, saved),
        saved.inflight,
        saved.received,
        list(saved.remembered),
        saved.will,
    )


@pytest.mark.parametrize("batch", [1, 1_000_000])
def test_nothing_changes(tmp_path: Path, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compaction preserves sessions, groups, deliveries, wills and retained messages."""
    with broker_on(tmp_path) as (local, storage):
        online = connected(local, storage, "online", "t/#")
        away = connected(local, storage, "away", "t/+", "$share/g/t/#")
        member = connected(local, storage, "member", "$share/g/t/#")
        away.drop()
        member.drop()
        publisher = connected(local, storage, "publisher")
        sent = [
            Publish(b"t/%d" % (number % 3), b"%d" % number, 1 + number % 2, number % 5 == 0, packet_id=number + 1)
            for number in range(30)
        ]
        say(local, storage, publisher, *sent)
        got = [packet for packet in online.received() if isinstance(packet, Publish)]
        answers = [Pubrec(each.packet_id) if each.qos == 2 else Puback(each.packet_id) for each in got[5:20]]
        say(local, storage, online, *answers)
        say(local, storage, publisher, Publish(b"t/0", b"", 1, True, packet_id=50))
        on_disk(local, storage)
        before = what_is_in(storage)
        frames = len(storage.journal.frames)
        monkeypatch.setattr(compaction, "BATCH", batch)
        for _ in range(frames if batch == 1 else 3):
            local.complete(Compaction(storage).remove_oldest())
            on_disk(local, storage)
            assert what_is_in(storage) == before
        assert len(storage.journal.frames) < frames
        first = min(storage.journal.frames)
    with broker_on(tmp_path) as (local, storage):
        assert min(storage.journal.frames) >= first >= frames
        assert {client.session.client_id for client in local.broker.clients.known()} >= {"online", "away", "member"}


def test_nothing_changes_after_a_restart(tmp_path: Path) -> None:
    """Compaction preserves the packet ids and PUBRECs that a broker has found in the journal."""
    with broker_on(tmp_path) as (local, storage):
        client = connected(local, storage, "client", "t")
        publisher = connected(local, storage, "publisher")
        say(local, storage, publisher, *[Publish(b"t", b"", 1 + number % 2, packet_id=number) for number in (1, 2, 3)])
        got = [packet for packet in client.received() if isinstance(packet, Publish)]
        say(local, storage, client, *[Pubrec(each.packet_id) for each in got if each.qos == 2][:1])
    with broker_on(tmp_path) as (local, storage):
        on_disk(local, storage)
        before = what_is_in(storage)
        window = {each.client_id: (each.inflight, each.received) for each in storage.read().sessions.values()}
        assert [len(each) for each in window["client"]] == [3, 1]
        for _ in range(len(storage.journal.frames)):
            local.complete(Compaction(storage).remove_oldest())
            on_disk(local, storage)
        assert what_is_in(storage) == before


def test_what_nobody_needs_is_gone(tmp_path: Path) -> None:
    """A journal of mostly dead records shrinks to the live ones, and logs it."""
    with broker_on(tmp_path) as (local, storage):
        connected(local, storage, "away", "t").drop()
        publisher = connected(local, storage, "publisher")
        compacting = Compaction(storage)
        body = bytes(compaction.SMALL // 40)
        for number in range(60):
            topic = b"t" if number == 0 else b"last"
            say(local, storage, publisher, Publish(topic, body, 1, number > 0, packet_id=number + 1))
            if number == 10:
                assert not compacting.needed()
        on_disk(local, storage)
        assert compacting.needed()
        while compacting.needed():
            local.complete(compacting.remove_oldest())
        size = sum(frame.size for frame in storage.journal.frames.values())
        assert 2 * len(body) < size <= compaction.SMALL
        saved: Saved = storage.read()
        assert set(saved.retained) == {b"last"}
        assert [each.deliveries.length for each in saved.sessions.values() if each.client_id == "away"] == [1]


def test_very_many_frames_are_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FC-27: a journal of very many frames is compacted although all that waits in it is live, and none of it goes."""
    monkeypatch.setattr(compaction, "MANY", 20)
    with broker_on(tmp_path) as (local, storage):
        connected(local, storage, "away", "t").drop()
        publisher = connected(local, storage, "publisher")
        say(local, storage, publisher, *[Publish(b"t", b"", 1, packet_id=number) for number in range(1, 31)])
        compacting = Compaction(storage)
        assert len(storage.journal.frames) > compaction.MANY
        while compacting.needed():
            local.complete(compacting.remove_oldest())
        assert len(storage.journal.frames) <= compaction.MANY
        assert [each.deliveries.length for each in storage.read().sessions.values() if each.client_id == "away"] == [30]


def test_no_more_than_max_bytes(tmp_path: Path) -> None:
    """FC-29: above `max_bytes` messages are refused, and accepted again when the queues have been read."""
    body = bytes(10_000)
    with broker_on(tmp_path, max_bytes=500_000) as (local, storage):
        subscriber = connected(local, storage, "subscriber", "t")
        publisher = connected(local, storage, "publisher")
        reasons: list[int] = []
        while not reasons or reasons[-1] < 0x80:
            (answer,) = say(local, storage, publisher, Publish(b"t", body, 1, packet_id=len(reasons) + 1))
            assert isinstance(answer, Puback)
            reasons.append(answer.reason_code)
            assert len(reasons) < 60
        assert reasons[-1] == QUOTA_EXCEEDED
        assert 40 < len(reasons) < 55
        assert storage.journal.commits.size == sum(frame.size for frame in storage.journal.frames.values())
        assert not Compaction(storage).needed()
        say(local, storage, publisher, Publish(b"t", b"", 0))  # QoS 0 is not written
        came = subscriber.received()
        while came:
            answers = [Puback(each.packet_id) for each in came if isinstance(each, Publish) and each.qos]
            came = say(local, storage, subscriber, *answers)
        while Compaction(storage).needed():
            local.complete(Compaction(storage).remove_oldest())
        (answer,) = say(local, storage, publisher, Publish(b"t", body, 1, packet_id=1))
        assert isinstance(answer, Puback)
        assert answer.reason_code < 0x80


def test_size_after_a_restart(tmp_path: Path) -> None:
    """FC-29: the bytes of what is in the file count against `max_bytes` after a restart too."""
    with broker_on(tmp_path) as (local, storage):
        connected(local, storage, "away", "t").drop()
        publisher = connected(local, storage, "publisher")
        for number in range(1, 11):
            say(local, storage, publisher, Publish(b"t", bytes(1000), 1, packet_id=number))
    with broker_on(tmp_path) as (local, storage):
        assert storage.journal.commits.size > 10_000
        assert sum(frame.size for frame in storage.journal.frames.values()) == storage.journal.commits.size


def unreadable(file: int, size: int, position: int) -> bytes:
    """Read of a disk that cannot be read any more."""
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_disk_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FC-29: a disk that fails while its oldest frames are read has failed: nothing is acknowledged any more."""
    with broker_on(tmp_path) as (local, storage):
        connected(local, storage, "away", "t").drop()
        publisher = connected(local, storage, "publisher")
        assert say(local, storage, publisher, Publish(b"t", b"", 1, packet_id=1))
        monkeypatch.setattr(os, "pread", unreadable)
        with pytest.raises(StorageError, match="Input/output error"):
            local.complete(Compaction(storage).remove_oldest())
        assert isinstance(storage.journal.commits.failed, StorageError)
        publisher.send(Publish(b"t", b"", 1, packet_id=2))
        on_disk(local, storage)
        assert publisher.received() == []


def test_a_commit_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FC-29: what could not be written again stays where it was, so the next start has it."""
    monkeypatch.setattr(spares, "SEGMENT", 8192)
    topics = [b"t/%d" % number for number in range(20)]
    with broker_on(tmp_path) as (local, storage):
        connected(local, storage, "away", "t/+").drop()
        publisher = connected(local, storage, "publisher")
        say(local, storage, publisher, *[Publish(topic, bytes(1000), 1, packet_id=1) for topic in topics])
        with monkeypatch.context() as patch:
            write = os.pwritev

            def fails_once(*_: Any) -> int:
                patch.setattr(os, "pwritev", write)
                raise OSError(errno.EIO, os.strerror(errno.EIO))

            patch.setattr(os, "pwritev", fails_once)
            local.complete(Compaction(storage).remove_oldest())
        assert isinstance(storage.journal.commits.failed, StorageError)
    with broker_on(tmp_path) as (local, storage):
        client = local.client()
        came = say(local, storage, client, Connect("away", False, 0, properties=KEPT, version=5))
        assert [each.topic for each in came if isinstance(each, Publish)] == topics


def test_much_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compaction ends also where the state of sessions is most of the journal."""
    monkeypatch.setattr(compaction, "SMALL", 5_000)
    with broker_on(tmp_path) as (local, storage):
        filters = [f"a/long/filter/of/many/levels/{number}" for number in range(50)] * 4
        client = connected(local, storage, "away")
        again = [Subscribe(1, [Subscription(name, number % 3)]) for number, name in enumerate(filters)]
        say(local, storage, client, *again)
        compacting = Compaction(storage)
        rounds = 0
        while compacting.needed():
            local.complete(compacting.remove_oldest())
            rounds += 1
            assert rounds < len(filters)
        assert rounds
        assert len(storage.read().sessions[1].subscriptions) == 50


def test_state_is_not_written_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal whose bytes are mostly subscriptions of kept sessions is as small as it can be: it is not compacted."""
    monkeypatch.setattr(compaction, "SMALL", 5_000)
    with broker_on(tmp_path) as (local, storage):
        client = connected(local, storage, "away")
        wanted = [Subscription(f"a/long/filter/of/many/levels/{number}", 1) for number in range(200)]
        say(local, storage, client, Subscribe(1, wanted))
        on_disk(local, storage)
        assert storage.journal.commits.size > compaction.SMALL
        assert not Compaction(storage).needed()


def test_subscriptions_that_come_and_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal of a session that subscribes and unsubscribes again and again does not grow without end."""
    monkeypatch.setattr(compaction, "SMALL", 5_000)
    with broker_on(tmp_path) as (local, storage):
        client = connected(local, storage, "away")
        filters = [f"a/long/filter/of/many/levels/{number}" for number in range(50)]
        for _ in range(10):
            say(local, storage, client, Subscribe(1, [Subscription(each) for each in filters]), Unsubscribe(2, filters))
        compacting = Compaction(storage)
        while compacting.needed():
            local.complete(compacting.remove_oldest())
        assert storage.journal.commits.size <= compaction.SMALL


def test_numbers_are_not_used_again(tmp_path: Path) -> None:
    """Old records in the journal are not taken for records of later deliveries and sessions."""
    with broker_on(tmp_path) as (local, storage):
        member = connected(local, storage, "member", "$share/g/t")
        publisher = connected(local, storage, "publisher")
        for number in range(5):
            came = say(local, storage, publisher, Publish(b"t", b"", 1, packet_id=number + 1))
            assert came
        got = [packet for packet in member.received() if isinstance(packet, Publish)]
        say(local, storage, member, *[Puback(each.packet_id) for each in got])
        gone = connected(local, storage, "gone", "x")
        say(local, storage, publisher, Publish(b"x", b"", 1, packet_id=9))
        gone.received()
        gone.send(Puback(1), Disconnect(0, {props.SESSION_EXPIRY_INTERVAL: 0}))
        on_disk(local, storage)
        while len(storage.journal.frames) > 1:
            local.complete(Compaction(storage).remove_oldest())
    for _ in range(2):
        with broker_on(tmp_path) as (local, storage):
            connected(local, storage, "member").drop()
            connected(local, storage, "other", "t").drop()
            publisher = connected(local, storage, "publisher")
            before = pending(storage)
            say(local, storage, publisher, Publish(b"t", b"", 1, packet_id=1))
            assert len(pending(storage)) == len(before) + 2


def pending(storage: Storage) -> set[tuple[int, int]]:
    """Session or group, and number, of each delivery that a broker would restore."""
    sessions = storage.read().sessions
    return {(number, each.delivery) for number, session in sessions.items() for each in session.deliveries.entries(0)}


def test_state_is_live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in the file of sessions is live, also after a restart: as many bytes as compaction would write again."""
    monkeypatch.setattr(compaction, "SMALL", 10_000)
    with broker_on(tmp_path) as (local, storage):
        for name in ("one", "two"):
            connected(local, storage, name, *[f"{number}/{'x' * 1000}" for number in range(50)])
        connected(local, storage, "three", "$share/g/t")
        on_disk(local, storage)
        written = storage.journal.state_size
    with broker_on(tmp_path) as (local, storage):
        assert 100_000 < written <= storage.journal.state_size < written + 1000
        assert storage.read().live_bytes() == storage.journal.state_size
        assert not Compaction(storage).needed()
