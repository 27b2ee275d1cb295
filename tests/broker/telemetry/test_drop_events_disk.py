"""FC-35: what is dropped on disk is told like all else."""

import json
import shutil
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from broker.runtime.clock import monotonic_us
from broker.storage import compaction as compaction_of
from broker.storage.compaction import Compaction
from broker.storage.storage import Storage
from protocol.acknowledgements import Puback
from protocol.connect import Connect
from protocol.publish import Publish
from protocol.subscribe import Subscribe, Subscription
from tests.support.broker.dropping import (
    EACH,
    LIMITED,
    SHORT,
    TOPICS,
    Reader,
    accounted,
    anew,
    lose,
    pass_time,
    publish,
    published,
    said,
    settle,
)
from tests.support.broker.local import LocalBroker
from tests.support.broker.stored import KEPT, broker_on, connected, on_disk

MANY = 60
FEW = 5
BIG = bytes(2_000)


@pytest.mark.parametrize("topic_filter", ["t/+", "$share/g/t/+"])
@pytest.mark.parametrize("how", ["overflow", "newest", "end"])
def test_what_is_dropped_on_disk_is_told_with_its_topic(tmp_path: Path, topic_filter: str, how: str) -> None:
    """FC-35, FC-30: what nobody has in memory is read back, so the event says what was lost, even if it was a copy."""
    sections: dict[str, Any] = {
        "drop_events": {"payload": "copy", "max_rate": "infinity"},
        "session": {"max_mqueue_len": MANY // 2 if how != "end" else 0},
    }
    if how == "newest":
        sections["session"] |= {"mqueue_overflow": "drop_newest", "mqueue_priorities": [{"match": "t/1", "weight": 2}]}
    with broker_on(tmp_path, 1, **sections) as (local, storage):
        reader = Reader(local)
        connected(local, storage, "loser", topic_filter).drop()
        publish(local, *[Publish(b"t/%d" % number, b"%d" % number + BIG, 1) for number in range(MANY)])
        on_disk(local, storage)
        if how == "end":
            anew(local, "loser")
        settle(local, storage)
        events = reader.events()
        assert len(events) == (MANY if how == "end" else MANY // 2)
        numbers = {int(event.payload.removesuffix(BIG)) for event in events}
        assert len(numbers) == len(events)
        assert {said(event)["sluice-topic"] for event in events} == {f"t/{number}" for number in numbers}
        assert not any(frame.unread for frame in storage.journal.frames.values())


def test_the_journal_keeps_what_is_still_to_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FC-35: compaction leaves a frame alone that has a drop which is not told yet."""
    monkeypatch.setattr(compaction_of, "SMALL", 0)
    names = ("one", "two", "three", "four")
    sections = {**LIMITED, "session": {"max_mqueue_len": 0}}
    with broker_on(tmp_path, 1, **sections) as (local, storage):
        for name in names:
            connected(local, storage, name, "t").drop()
        for number in range(MANY):
            publish(local, Publish(b"t", b"%d" % number + BIG, 1))
            on_disk(local, storage)
    with broker_on(tmp_path, 1, **sections) as (local, storage):
        reader = Reader(local)
        for name in names:
            anew(local, name)
        pinned = {number for number, frame in storage.journal.frames.items() if frame.unread}
        compaction = Compaction(storage)
        on_disk(local, storage)
        while pinned and compaction.needed():
            local.complete(compaction.remove_oldest())
        assert pinned
        assert pinned <= set(storage.journal.frames)
        pass_time(local, 2)
        settle(local, storage)
        assert accounted(reader.told()) == dict.fromkeys(names, MANY)
        while compaction.needed():
            local.complete(compaction.remove_oldest())
        assert not pinned & set(storage.journal.frames)
        assert not any(frame.unread for frame in storage.journal.frames.values())


def test_what_is_dropped_while_its_frame_is_compacted(tmp_path: Path) -> None:
    """FC-35: what is dropped while its frame is compacted is told with its topic: the frame stays."""
    with broker_on(tmp_path, 1, **EACH, session={"max_mqueue_len": 0}) as (local, storage):
        reader = Reader(local)
        connected(local, storage, "loser", "t/+").drop()
        topics = [f"t/{number}" for number in range(MANY)]
        publish(local, *[Publish(topic.encode(), BIG, 1) for topic in topics])
        on_disk(local, storage)
        goes_on, may_read = Event(), Event()
        waits = [storage._disk.ask(goes_on.wait), _hold(storage, may_read)]  # so that the drop is in between
        held = [local.loop.create_task(each) for each in waits]
        compacting = local.loop.create_task(Compaction(storage).remove_oldest())
        local.run(lambda: None)
        anew(local, "loser")
        goes_on.set()
        local.loop.run_until_complete(compacting)
        may_read.set()
        for each in held:
            local.loop.run_until_complete(each)
        settle(local, storage)
        assert sorted(told["topic"] for told in reader.told()) == sorted(topics)


def test_events_are_known_as_such_after_a_restart(tmp_path: Path) -> None:
    """FC-35: what was an event is none of which there are events, also when it has been on disk only."""
    with broker_on(tmp_path, **EACH, **SHORT) as (local, storage):
        connected(local, storage, "reader", TOPICS).drop()
        connected(local, storage, "other", TOPICS).drop()
        lose(local, "loser", 1)
        on_disk(local, storage)
    with broker_on(tmp_path, 1, **EACH, **SHORT) as (local, storage):
        anew(local, "other")
        settle(local, storage)
        client = local.client()
        client.send(Connect("reader", False, 0, properties=KEPT, version=5))
        settle(local, storage)
        assert [json.loads(each.payload)["client_id"] for each in published(client.received())] == ["loser"]


def test_what_is_summed_up_behind_an_event_is_told(tmp_path: Path) -> None:
    """FC-35: of a drop that was put off, and is found to be an event when it is read, the sum of the others is told."""
    session = {"max_mqueue_len": 0}
    with broker_on(tmp_path, **EACH, session=session) as (local, storage):
        loser = connected(local, storage, "loser", "t")
        loser.send(Subscribe(2, [Subscription(TOPICS, 1)]))
        on_disk(local, storage)
        loser.drop()
        connected(local, storage, "gone", "g").drop()
        publish(local, Publish(b"t", BIG, 1), Publish(b"g", BIG, 1))
        anew(local, "gone")
        settle(local, storage)
        publish(local, *[Publish(b"t", BIG, 1) for _ in range(FEW)])
        on_disk(local, storage)
    with broker_on(tmp_path, 1, drop_events={"max_rate": 1}, session=session) as (local, storage):
        reader = Reader(local)
        anew(local, "loser")  # one drop is told at once; the event is put off, and all others with it
        settle(local, storage)
        told = reader.told()
        pass_time(local, 2)
        settle(local, storage)
        assert accounted(told) == {"loser": 1}
        assert accounted(reader.told()) == {"loser": FEW}


def test_events_have_qos_0_where_there_is_no_room(tmp_path: Path) -> None:
    """FC-35, FC-29: an event has the QoS of what was dropped, but QoS 0 while the journal has no room."""
    with broker_on(tmp_path, max_bytes=10_000, **EACH) as (local, storage):
        reader = Reader(local)
        for size, qos in ((100, 1), (10_000, 0)):
            connected(local, storage, "loser", "t").drop()
            publish(local, Publish(b"t", bytes(size), 1))
            on_disk(local, storage)
            anew(local, "loser")
            (event,) = reader.events()
            assert (said(event)["sluice-size"], event.qos) == (str(size), qos)


@pytest.mark.parametrize(("memory", "how"), [(0, "overflow"), (1, "overflow"), (0, "end")])
def test_a_crash_loses_no_event(tmp_path: Path, memory: int, how: str) -> None:
    """FC-35: what a commit says to be dropped is told in it, so after a crash it waits still, or its event does."""
    directory = tmp_path / "journal"
    images: list[Path] = []
    with broker_on(directory, memory, **EACH, session={"max_mqueue_len": FEW}) as (local, storage):
        connected(local, storage, "reader", TOPICS).drop()
        connected(local, storage, "loser", "t/+").drop()
        publish(local, *[Publish(b"t/%d" % number, BIG, 1) for number in range(FEW)])
        on_disk(local, storage)
        commits = storage.journal.commits
        checked = commits.after_commit

        def crash() -> None:
            if checked is not None:
                checked()
            image = tmp_path / f"image-{len(images)}"
            images.append(shutil.copytree(directory, image, copy_function=_copy))

        def drop() -> None:
            if how == "end":
                local.broker.sessions.end(local.broker.clients.by_id["loser"], monotonic_us())
            else:
                for _ in range(FEW):
                    local.broker.messages.publish_own(Publish(b"t/new", BIG, 1), monotonic_us())
            commits.reach().send(None)  # a commit begins in the turn that has dropped

        commits.after_commit = crash
        local.run(drop)
        settle(local, storage)
        commits.after_commit = checked
    assert images
    for image in images:
        assert _waits_or_is_told(image, memory) >= {f"t/{number}" for number in range(FEW)}


@pytest.mark.parametrize("topic_filter", ["t/+", "$share/g/t/+"])
def test_what_has_ended_is_told_once_after_a_crash(tmp_path: Path, topic_filter: str) -> None:
    """FC-35: what a session or group had on disk only when it ended is told after a crash, and never again.

    Then the journal does not have it any more. Another session with its id, or another group with its name, is not
    touched.
    """
    directory, image = tmp_path / "journal", tmp_path / "image"
    kept: dict[str, Any] = {**EACH, "session": {"max_mqueue_len": 0}}
    messages = [Publish(b"t/%d" % number, BIG, 1) for number in range(MANY)]
    with broker_on(directory, 1, **kept) as (local, storage):
        connected(local, storage, "reader", TOPICS).drop()
        connected(local, storage, "loser", topic_filter).drop()
        publish(local, *messages)
        on_disk(local, storage)
        end = partial(local.broker.sessions.end, local.broker.clients.by_id["loser"], monotonic_us())
        goes_on = Event()
        reading = local.loop.create_task(_hold(storage, goes_on))
        local.run(end)
        connected(local, storage, "loser", topic_filter).drop()
        publish(local, Publish(b"t/new", BIG, 1))
        on_disk(local, storage)
        shutil.copytree(directory, image, copy_function=_copy)
        goes_on.set()
        local.loop.run_until_complete(reading)
    for expected in ({each.topic.decode() for each in messages}, set()):
        with broker_on(image, 1, **kept) as (local, storage):
            told = _came(local, storage, "reader")
            assert {json.loads(each.payload)["topic"] for each in told} == expected
            assert len(told) == len(expected)
            assert {json.loads(each.payload)["reason"] for each in told} <= {"session_ended"}
            assert not any(frame.unread for frame in storage.journal.frames.values())
            assert local.broker.clients.by_id["loser"].kept is not None
            on_disk(local, storage)
            kept_now = sorted(each.client_id or each.group for each in storage.read().sessions.values())
            assert kept_now == sorted({"reader", "loser", topic_filter} - {"t/+"})
    with broker_on(image, 1, **kept) as (local, storage):
        assert [each.topic for each in _came(local, storage, "loser")] == [b"t/new"]


def test_what_has_ended_outlives_compaction(tmp_path: Path) -> None:
    """FC-35: an ended session stays in the journal until its drop is told, also if compaction has moved its state."""
    names = ("one", "two")
    sections: dict[str, Any] = {"drop_events": {"max_rate": 1}}
    with broker_on(tmp_path, 1, **sections) as (local, storage):
        connected(local, storage, "reader", TOPICS).drop()
        for name in names:
            connected(local, storage, name, "t").drop()
        publish(local, *[Publish(b"t", BIG, 1) for _ in range(MANY)])
        on_disk(local, storage)
    with broker_on(tmp_path, 1, **sections) as (local, storage):
        for name in names:
            anew(local, name)  # one drop is told at once; the next one, and one of the other session, are put off
        settle(local, storage)
    with broker_on(tmp_path, 1, **sections) as (local, storage):
        local.complete(Compaction(storage).remove_oldest())
        assert 1 not in storage.journal.frames
        settle(local, storage)
    with broker_on(tmp_path, 1, **sections) as (local, storage):
        told = [json.loads(each.payload)["client_id"] for each in _came(local, storage, "reader")]
        assert told == ["one", "one", "two"]


def test_what_nobody_asks_for_leaves_the_journal(tmp_path: Path) -> None:
    """FC-35: an ended session whose drops are not told yet goes at a start without drop events."""
    with broker_on(tmp_path, 1) as (local, storage):
        connected(local, storage, "loser", "t").drop()
        publish(local, *[Publish(b"t", BIG, 1) for _ in range(MANY)])
        on_disk(local, storage)
    with broker_on(tmp_path, 1, drop_events={"max_rate": 1}) as (local, storage):
        anew(local, "loser")  # one drop is told at once; the others are put off
        settle(local, storage)
        assert storage.read().sessions
    with broker_on(tmp_path, 1) as (local, storage):
        on_disk(local, storage)
        assert not storage.read().sessions


def test_what_has_nothing_to_tell_leaves_the_journal(tmp_path: Path) -> None:
    """FC-35: an ended session goes at the next start if none of its drops is found there, as after damage."""
    with broker_on(tmp_path, 1, **EACH) as (local, storage):
        connected(local, storage, "loser", "t").drop()
        kept = local.broker.clients.by_id["loser"].kept
        assert kept is not None
        local.run(kept.write_former)
        on_disk(local, storage)
    with broker_on(tmp_path, 1, **EACH) as (local, storage):
        on_disk(local, storage)
        assert not storage.read().sessions


async def _hold(storage: Storage, goes_on: Event) -> None:
    """Nothing is read back until then."""
    reader = storage.journal.reader
    assert reader is not None
    await reader._disk.ask(goes_on.wait)  # else it depends on the machine what is read before the crash


def _came(local: LocalBroker, storage: Storage, name: str) -> list[Publish]:
    """What waits for a client; it acknowledges."""
    client = local.client()
    client.send(Connect(name, False, 0, properties=KEPT, version=5))
    came: list[Publish] = []
    while True:
        settle(local, storage)
        some = published(client.received())
        if not some:
            client.drop()
            return came
        client.send(*[Puback(each.packet_id) for each in some])
        came += some


def _copy(file: str, to: str) -> None:
    with suppress(FileNotFoundError):  # a spare segment has got its name meanwhile
        shutil.copyfile(file, to)


def _waits_or_is_told(image: Path, memory: int) -> set[str]:
    """The topics of what there is after a crash, for its receiver or as an event."""
    found: set[str] = set()
    with broker_on(image, memory, **EACH, session={"max_mqueue_len": 0}) as (local, storage):
        for name in ("loser", "reader"):
            client = local.client()
            client.send(Connect(name, False, 0, properties=KEPT, version=5))
            settle(local, storage)
            came = published(client.received())
            found |= {json.loads(each.payload)["topic"] if name == "reader" else each.topic.decode() for each in came}
    return found
