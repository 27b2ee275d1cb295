"""FC-29: what waits for room in its address, while the disk is full."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from broker.storage.reserve import Reserve
from broker.storage.storage import Storage
from protocol.acknowledgements import Puback
from protocol.publish import Publish
from tests.support.broker.local import LocalBroker, LocalClient
from tests.support.broker.stored import all_read, broker_on, connected, on_disk
from tests.support.costs import held
from tests.support.waiting import until

SIZE = 1_000
ROOM = 4
"""Messages that the address takes."""
SPARE = 5 * SIZE
"""Bytes in which what waits may be routed while the disk is full: less than six messages."""
MESSAGES = 30


def full_disk(monkeypatch: pytest.MonkeyPatch, storage: Storage) -> None:
    """From now on the disk has no room for free segments, and there are none."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    free = storage._segments._spares
    free.wait()
    free._free.clear()
    monkeypatch.setattr(os, "write", refuse)
    free.has_room()
    free.wait()
    room = storage._segments.left
    storage.journal.commits.reserve = Reserve(room, 4 * (room() - SPARE) // 7)


def acknowledge_all(local: LocalBroker, storage: Storage, client: LocalClient) -> list[int]:
    """Acknowledge what comes until nothing more does; returns the numbers of the messages."""
    came: list[int] = []
    quiet = 0
    while quiet < 3:
        on_disk(local, storage)
        all_read(local, storage)
        local.pass_time(1.1)  # addresses are checked each second
        publishes = [packet for packet in client.received() if isinstance(packet, Publish)]
        came += [int(publish.payload[:3]) for publish in publishes]
        client.send(*[Puback(publish.packet_id) for publish in publishes])
        quiet = 0 if publishes else quiet + 1
    return came


@pytest.mark.parametrize("policy", ["block", "page"])
def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str) -> None:
    """While the disk is full, parked and paged PUBLISHes are routed into a part of the reserve only; later all are."""
    rule: dict[str, object] = {"match": "t", "max_size_bytes": held(ROOM, SIZE, "t"), "full_policy": policy}
    if policy == "block":
        rule["block_timeout"] = "infinity"
    session = {"max_mqueue_len": 0, "producer_window_size": "1MiB"}
    sections: dict[str, Any] = {"addresses": [rule], "session": session, "persistence": {"directory": str(tmp_path)}}
    with broker_on(tmp_path, **sections) as (local, storage):
        receiver = connected(local, storage, "receiver", "t")
        publisher = connected(local, storage, "publisher")
        messages = [Publish(b"t", b"%03d" % n + bytes(SIZE - 3), 1, packet_id=n + 1) for n in range(MESSAGES)]
        publisher.send(*messages)
        on_disk(local, storage)
        with monkeypatch.context() as patched:
            full_disk(patched, storage)
            publisher.send(Publish(b"other", b"retained", 1, True, packet_id=100))
            on_disk(local, storage)
            assert storage.journal.commits.full
            before = storage.journal.commits.size
            came = acknowledge_all(local, storage, receiver)
            assert ROOM < len(came) < ROOM + 2 + SPARE // SIZE
            assert storage.journal.commits.size < before + SPARE + 2 * SIZE
        local.run(storage.journal.commits.check_room)
        local.complete(until(lambda: not storage.journal.commits.full))
        came += acknowledge_all(local, storage, receiver)
        assert list(dict.fromkeys(came)) == list(range(MESSAGES))
