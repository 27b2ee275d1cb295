"""FC-35: reading back what was dropped on disk is bounded."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.storage import found
from broker.storage.frame import SECTOR
from broker.storage.journal import Journal
from broker.storage.reading_back import COST, Unread, read_unread
from broker.telemetry import drop_events
from protocol.publish import Publish
from tests.support.broker.dropping import (
    EACH,
    LIMITED,
    Reader,
    accounted,
    anew,
    pass_time,
    publish,
    settle,
)
from tests.support.broker.segmented import overwrite
from tests.support.broker.stored import all_read, broker_on, connected, on_disk

MANY = 60
BIG = bytes(2_000)


def test_a_large_message(tmp_path: Path) -> None:
    """FC-35, FC-30: what was dropped on disk is told also if it is larger than what is read back at once."""
    with broker_on(tmp_path, 1, **EACH, session={"max_mqueue_len": 0}) as (local, storage):
        reader = Reader(local)
        connected(local, storage, "loser", "t").drop()
        publish(local, *[Publish(b"t", bytes(size), 1) for size in (20_000, drop_events.READ_BYTES + 1)])
        on_disk(local, storage)
        anew(local, "loser")
        settle(local, storage)
        assert [told["size"] for told in reader.told()] == [20_000, drop_events.READ_BYTES + 1]


def test_what_was_read_back_takes_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FC-35: what was dropped on disk and is told makes room for drops to come, so that they are told singly too."""
    monkeypatch.setattr(drop_events, "MOST_WAITING", MANY * (len(BIG) + COST))
    with broker_on(tmp_path, 1, **EACH, session={"max_mqueue_len": 0}) as (local, storage):
        reader = Reader(local)
        for _ in range(5):
            connected(local, storage, "loser", "t").drop()
            publish(local, *[Publish(b"t", BIG, 1) for _ in range(MANY)])
            on_disk(local, storage)
            anew(local, "loser")
            settle(local, storage)
            assert len(reader.told()) == MANY


def test_little_is_read_back_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FC-35: of what was dropped on disk little is in memory at a time, and the next is read without a pause."""
    monkeypatch.setattr(drop_events, "READ_BYTES", 3 * len(BIG))
    counts: list[int] = []

    async def counted(journal: Journal, some: Sequence[Unread]) -> list[Publish]:
        counts.append(len(some))
        return await read_unread(journal, some)

    monkeypatch.setattr(drop_events, "read_unread", counted)
    with broker_on(tmp_path, 1, **EACH, session={"max_mqueue_len": 0}) as (local, storage):
        reader = Reader(local)
        connected(local, storage, "loser", "t").drop()
        publish(local, *[Publish(b"t", BIG, 1) for _ in range(MANY)])
        on_disk(local, storage)
        anew(local, "loser")
        for _ in range(MANY):
            all_read(local, storage)
            local.run(lambda: None)
        assert len(reader.told()) == MANY
        assert max(counts) == 3


def test_what_has_been_told_makes_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FC-35: a drop on disk that is put off is told with its topic, once the one that was put off before is told."""
    monkeypatch.setattr(drop_events, "MOST_PINNED", 1)
    names = ("one", "two")
    with broker_on(tmp_path, 1, **LIMITED) as (local, storage):
        for name in names:
            connected(local, storage, name, "t").drop()
        publish(local, *[Publish(b"t", BIG, 1) for _ in range(MANY)])
        on_disk(local, storage)
    with broker_on(tmp_path, 1, **LIMITED) as (local, storage):  # all is on disk only, also the head of each queue
        reader = Reader(local)
        told: list[dict[str, Any]] = []
        for name in names:
            anew(local, name)
            pass_time(local)
            settle(local, storage)
            told += reader.told()
        assert accounted(told) == dict.fromkeys(names, MANY)
        assert all("topic" in each for each in told)


def test_few_drops_keep_their_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FC-35: past a number of drops that are put off unread, those of other clients are summed up unread."""
    monkeypatch.setattr(drop_events, "MOST_PINNED", 1)
    names = ("one", "two")
    with broker_on(tmp_path, 1, **LIMITED) as (local, storage):
        for name in names:
            connected(local, storage, name, "t").drop()
        publish(local, *[Publish(b"t", BIG, 1) for _ in range(MANY)])
        on_disk(local, storage)
    with broker_on(tmp_path, 1, **LIMITED) as (local, storage):
        reader = Reader(local)
        for name in names:
            anew(local, name)
        pass_time(local, 2)
        settle(local, storage)
        told = reader.told()
        assert accounted(told) == dict.fromkeys(names, MANY)
        assert {each["client_id"] for each in told if "topic" in each} == {"one"}


def test_what_cannot_be_read(tmp_path: Path) -> None:
    """FC-35, FC-29: if a drop cannot be read back, the broker logs it and ends, as for any delivery."""
    with broker_on(tmp_path, 1, **EACH, session={"max_mqueue_len": 0}) as (local, storage):
        connected(local, storage, "loser", "t").drop()
        publish(local, *[Publish(b"t", BIG, 1) for _ in range(MANY)])
        on_disk(local, storage)
        for path in found.names(tmp_path):
            overwrite(path, SECTOR, bytes(path.stat().st_size - SECTOR))
        anew(local, "loser")
        all_read(local, storage)
        local.run(lambda: None)
        assert "a message is not where it was written" in str(storage.journal.commits.failed)
