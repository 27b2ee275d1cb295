"""FC-30: deliveries that are on disk only are sent as if they were in memory."""

import threading
import tracemalloc
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.runtime.read_gate import QUEUED
from broker.storage.compaction import Compaction
from broker.storage.found import names
from broker.storage.frame import SECTOR
from broker.storage.kept_queue import KEPT_BYTES, READ_DELIVERIES, StoredTail
from protocol.connect import Connect
from protocol.publish import Publish
from session.cost import OVERHEAD
from tests.support.broker.evicting import BODY, FULL, MANY, NO_LIMIT, come_back, on_disk_only, publish, take
from tests.support.broker.local import LocalClient
from tests.support.broker.segmented import overwrite
from tests.support.broker.stored import all_read, broker_on, connected, on_disk


@pytest.mark.parametrize("qos", [1, 2])
def test_order(tmp_path: Path, qos: int) -> None:
    """A reconnected client gets the deliveries on disk, in order and once, and then later ones."""
    with broker_on(tmp_path, FULL, session=NO_LIMIT) as (local, storage):
        connected(local, storage, "away", "t").drop()
        publisher = connected(local, storage, "publisher")
        publish(local, storage, publisher, range(MANY), qos)
        assert on_disk_only(storage) >= MANY - KEPT_BYTES // len(BODY) - 1
        back = come_back(local, "away")
        publish(local, storage, publisher, range(MANY, 2 * MANY), qos)
        assert take(local, storage, back, lambda came: len(came) == 2 * MANY) == list(range(2 * MANY))
        for _ in range(2):  # PUBREL, PUBCOMP
            take(local, storage, back, lambda _: True)
            on_disk(local, storage)
        assert on_disk_only(storage) == 0
        assert storage.journal.memory.used == 0


def test_memory_is_bounded(tmp_path: Path) -> None:
    """Each queue has at most its fixed share in memory, however many deliveries it holds."""
    with broker_on(tmp_path, FULL, session=NO_LIMIT) as (local, storage):
        for name in ("a", "b"):
            connected(local, storage, name, "t").drop()
        publisher = connected(local, storage, "publisher")
        publish(local, storage, publisher, range(MANY))
        used = storage.journal.memory.used
        assert used < 4 * KEPT_BYTES
        publish(local, storage, publisher, range(MANY, 5 * MANY))
        assert storage.journal.memory.used == used


def test_memory_is_bounded_for_all_publishers(tmp_path: Path) -> None:
    """FC-30, FC-33: a queue that is fair has no more in memory, however many publishers it has something of."""
    with broker_on(tmp_path, FULL, session={**NO_LIMIT, "mqueue_fairness": "publisher"}) as (local, storage):
        connected(local, storage, "away", "t").drop()
        publish(local, storage, connected(local, storage, "publisher"), range(MANY))
        used = storage.journal.memory.used
        for number in range(5):
            publish(local, storage, connected(local, storage, f"other-{number}"), range(1))
        assert storage.journal.memory.used == used


def test_who_waits_is_woken_when_all_is_dropped(tmp_path: Path) -> None:
    """FC-30: when all that is being read back has been dropped meanwhile, who waits is told, and asks for the rest."""
    with broker_on(tmp_path, FULL, session=NO_LIMIT) as (local, storage):
        connected(local, storage, "away", "t").drop()
        publish(local, storage, connected(local, storage, "publisher"), range(MANY))
        kept = local.broker.clients.by_id["away"].kept
        assert kept is not None
        heard: list[list[Publish]] = []
        tail = StoredTail(kept, kept.evicted.index(0), heard.append)

        def read() -> None:
            tail.read(2)
            tail.over = True  # as the queue has it when nothing of it is left, before the thread has read

        local.run(read)
        all_read(local, storage)
        on_disk(local, storage)
        local.run(lambda: None)
        assert heard == [[]]


def test_small_messages_count(tmp_path: Path) -> None:
    """Deliveries with small payloads count with their overhead, so their queue is on disk too."""
    with broker_on(tmp_path, FULL, session=NO_LIMIT) as (local, storage):
        connected(local, storage, "away", "t").drop()
        publisher = connected(local, storage, "publisher")
        publisher.send(*[Publish(b"t", b"", 1, packet_id=number + 1) for number in range(MANY)])
        on_disk(local, storage)
        assert on_disk_only(storage) > MANY // 2


def test_qos_0_waits_behind(tmp_path: Path) -> None:
    """FC-2: QoS 0 does not overtake deliveries that are on disk."""
    with broker_on(tmp_path, FULL, session={**NO_LIMIT, "mqueue_store_qos0": True}) as (local, storage):
        connected(local, storage, "away", "t").drop()
        publisher = connected(local, storage, "publisher")
        publish(local, storage, publisher, range(MANY))
        publish(local, storage, publisher, range(MANY, MANY + 5), qos=0)
        back = come_back(local, "away")
        assert take(local, storage, back, lambda came: len(came) == MANY + 5)[-5:] == list(range(MANY, MANY + 5))


def test_qos_0_with_nothing_on_disk(tmp_path: Path) -> None:
    """FC-30: QoS 0 that comes first when memory is full waits there, and is sent when its client is back."""
    few = KEPT_BYTES // (OVERHEAD + len(BODY)) + 1
    with broker_on(tmp_path, FULL, session={**NO_LIMIT, "mqueue_store_qos0": True}) as (local, storage):
        connected(local, storage, "away", "t").drop()
        publisher = connected(local, storage, "publisher")
        publish(local, storage, publisher, range(few))
        publish(local, storage, publisher, range(few, few + 5), qos=0)
        assert on_disk_only(storage) == 0
        back = come_back(local, "away")
        assert take(local, storage, back, lambda came: len(came) == few + 5) == list(range(few + 5))


@pytest.mark.parametrize("qos0", [0, 3])
def test_overflow(tmp_path: Path, qos0: int) -> None:
    """FC-5: a full queue drops its oldest, QoS 0 first, also if all its deliveries are on disk."""
    limits = {"max_mqueue_len": MANY, "overflow_patience": "0s", "mqueue_store_qos0": True}
    with broker_on(tmp_path, FULL, session={**limits, "mqueue_overflow": "drop_oldest_qos0"}) as (local, storage):
        connected(local, storage, "away", "t").drop()
        publisher = connected(local, storage, "publisher")
        publish(local, storage, publisher, range(MANY - qos0))
        publish(local, storage, publisher, range(MANY - qos0, MANY), qos=0)
    with broker_on(tmp_path, FULL, session={**limits, "mqueue_overflow": "drop_oldest"}) as (local, storage):
        publisher = connected(local, storage, "publisher")
        publish(local, storage, publisher, range(MANY, MANY + 10))
        mqueue = local.broker.clients.by_id["away"].session.outbound.mqueue
        assert mqueue is not None
        assert mqueue.bytes == MANY * len(b"%06d" % 0 + BODY)
        back = come_back(local, "away")
        wanted = [*range(max(10 - qos0, 0), MANY - qos0), *range(MANY, MANY + 10)]
        assert take(local, storage, back, lambda came: len(came) == len(wanted)) == wanted


def test_overflow_in_memory(tmp_path: Path) -> None:
    """FC-5: QoS 0 behind deliveries on disk is dropped for QoS 1."""
    limits = {"max_mqueue_len": MANY, "mqueue_store_qos0": True, "mqueue_overflow": "drop_oldest_qos0"}
    with broker_on(tmp_path, FULL, session={**limits, "overflow_patience": "0s"}) as (local, storage):
        connected(local, storage, "away", "t").drop()
        publisher = connected(local, storage, "publisher")
        publish(local, storage, publisher, range(MANY - 3))
        publish(local, storage, publisher, range(MANY - 3, MANY), qos=0)
        publish(local, storage, publisher, range(MANY, MANY + 4))
        back = come_back(local, "away")
        wanted = [*range(1, MANY - 3), *range(MANY, MANY + 4)]
        assert take(local, storage, back, lambda came: len(came) == len(wanted)) == wanted


def test_a_session_that_is_to_end_with_its_connection(tmp_path: Path) -> None:
    """A client that comes back with a Session Expiry Interval of 0 gets what waited, and nothing stays."""
    many = 3 * READ_DELIVERIES
    for stops in (False, True):
        with broker_on(tmp_path, FULL, session=NO_LIMIT) as (local, storage):
            connected(local, storage, "away", "t").drop()
            publish(local, storage, connected(local, storage, "publisher"), range(many))
            back = local.client()
            back.send(Connect("away", False, 0, version=5))
            on_disk(local, storage)
            compaction = Compaction(storage)
            while len(storage.journal.frames) > 3:
                local.complete(compaction.remove_oldest())
            if not stops:
                assert take(local, storage, back, lambda came: len(came) == many) == list(range(many))
                back.drop()
                on_disk(local, storage)
            assert (local.broker.clients.get("away") is None) == (not stops)
        with broker_on(tmp_path, FULL, session=NO_LIMIT) as (local, storage):
            assert local.broker.clients.get("away") is None
            on_disk(local, storage)
            assert on_disk_only(storage) == 0


def test_ended_session(tmp_path: Path) -> None:
    """After the end of a session none of its deliveries is kept in the journal."""
    with broker_on(tmp_path, FULL, session=NO_LIMIT) as (local, storage):
        connected(local, storage, "away", "t").drop()
        publisher = connected(local, storage, "publisher")
        publish(local, storage, publisher, range(MANY))
        local.client().send(Connect("away", True, 0, version=5))
        on_disk(local, storage)
        assert on_disk_only(storage) == 0
        assert storage.journal.memory.used == 0
        assert not any(frame.live for frame in storage.journal.frames.values())


def test_a_group(tmp_path: Path) -> None:
    """FC-13: deliveries of a group on disk are shared out when members come online, each to one of them."""
    with broker_on(tmp_path, FULL, session=NO_LIMIT) as (local, storage):
        for name in ("a", "b"):
            connected(local, storage, name, "$share/g/t").drop()
        publisher = connected(local, storage, "publisher")
        publish(local, storage, publisher, range(MANY))
        assert on_disk_only(storage) > MANY // 2
    with broker_on(tmp_path, FULL, session=NO_LIMIT) as (local, storage):
        members = [come_back(local, name) for name in ("a", "b")]
        came: list[int] = []
        while len(came) < MANY:
            for member in members:
                came += take(local, storage, member, lambda _: True)
            local.run(lambda: None)
            on_disk(local, storage)
        assert sorted(came) == list(range(MANY))


def test_a_member_alone(tmp_path: Path) -> None:
    """FC-13: a member gets what its group has on disk as soon as that has been read, without another event."""
    with broker_on(tmp_path, FULL, session=NO_LIMIT) as (local, storage):
        connected(local, storage, "a", "$share/g/t").drop()
        publish(local, storage, connected(local, storage, "publisher"), range(MANY))
    with broker_on(tmp_path, FULL, session=NO_LIMIT) as (local, storage):
        member = come_back(local, "a")
        assert take(local, storage, member, lambda came: len(came) == MANY) == list(range(MANY))


def test_what_cannot_be_read(tmp_path: Path) -> None:
    """FC-29: if deliveries on disk cannot be read, the broker logs it and ends: none is skipped."""
    with broker_on(tmp_path, FULL, session=NO_LIMIT) as (local, storage):
        connected(local, storage, "away", "t").drop()
        publish(local, storage, connected(local, storage, "publisher"), range(MANY))
        for path in names(tmp_path):
            overwrite(path, SECTOR, bytes(path.stat().st_size - SECTOR))
        failed: list[str] = []
        storage.journal.commits.on_failed = lambda: failed.append(str(storage.journal.commits.failed))
        come_back(local, "away")
        while not failed:
            local.run(lambda: None)
        assert "a message is not where it was written" in failed[0]


Step = tuple[str, int]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from(["publish 1", "publish 2"]), st.integers(1, 40)),
            st.tuples(st.sampled_from(["come", "leave", "compact", "restart", "take"]), st.just(0)),
        ),
        max_size=15,
    )
)
def test_any_sequence(steps: list[Step]) -> None:
    """After any events a client gets all messages of a QoS in order, and the journal is empty at the end."""
    with TemporaryDirectory() as name, ExitStack() as stack:
        local, storage = stack.enter_context(broker_on(Path(name), FULL, session=NO_LIMIT))
        connected(local, storage, "client", "t").drop()
        client: LocalClient | None = None
        sent: dict[int, list[int]] = {1: [], 2: []}
        came: list[int] = []
        for step, count in [*steps, ("restart", 0), ("come", 0)]:
            if step.startswith("publish"):
                qos = int(step[-1])
                first = len(sent[1]) + len(sent[2])
                numbers = range(first, first + count)
                publish(local, storage, connected(local, storage, "publisher"), numbers, qos)
                sent[qos] += numbers
            elif step == "come" and client is None:
                client = come_back(local, "client")
            elif step == "leave" and client is not None:
                client.drop()
                client = None
            elif step == "take" and client is not None:
                came += take(local, storage, client, lambda _: True)
            elif step == "compact":
                on_disk(local, storage)
                local.complete(Compaction(storage).remove_oldest())
            elif step == "restart":
                stack.close()
                client = None
                local, storage = stack.enter_context(broker_on(Path(name), FULL, session=NO_LIMIT))
        assert client is not None
        missing = set(sent[1]) | set(sent[2])
        missing -= set(came)
        came += take(local, storage, client, lambda more: missing <= set(more))
        once = list(dict.fromkeys(came))
        for wanted in sent.values():
            assert [number for number in once if number in set(wanted)] == wanted
        take(local, storage, client, lambda _: True)
        on_disk(local, storage)
        take(local, storage, client, lambda _: True)
        on_disk(local, storage)
        assert all(not each.deliveries.entries(0) for each in storage.read().sessions.values())


@pytest.mark.parametrize("topic_filter", ["t", "$share/g/t"])
def test_what_waits_has_its_payload_once(tmp_path: Path, topic_filter: str) -> None:
    """A message that waits takes as much as `persistence.memory` counts, also if its publisher speaks MQTT 5."""
    with broker_on(tmp_path, session=NO_LIMIT) as (local, storage):
        connected(local, storage, "away", topic_filter).drop()
        publisher = connected(local, storage, "publisher")
        publish(local, storage, publisher, range(50))
        counted = storage.journal.memory.used
        tracemalloc.start()
        try:
            publish(local, storage, publisher, range(50, 450))
            taken, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert taken < 1.1 * (storage.journal.memory.used - counted)
        away = come_back(local, "away")
        assert take(local, storage, away, lambda came: len(came) == 450) == list(range(450))


def test_no_thread_stays(tmp_path: Path) -> None:
    """A journal that is closed leaves no thread, also if it has read deliveries back."""
    before = set(threading.enumerate())
    with broker_on(tmp_path, memory=FULL) as (local, storage):
        connected(local, storage, "away", "t").drop()
        publisher = connected(local, storage, "publisher")
        publish(local, storage, publisher, range(MANY))
        take(local, storage, come_back(local, "away"), lambda came: len(came) == MANY)
        threads = set(threading.enumerate()) - before
        assert {thread.name for thread in threads} >= {"journal", "reader"}
    for thread in threads:
        thread.join(5)
    assert not [thread.name for thread in threads if thread.is_alive()]


def test_many_frames_in_a_commit(tmp_path: Path) -> None:
    """What one commit has written to many frames is there after compaction and a restart, in order."""
    numbers = list(range(MANY))
    packets = b"".join(Publish(b"t", b"%06d" % each + BODY, 1, packet_id=each + 1).encode(5) for each in numbers)
    with broker_on(tmp_path, session=NO_LIMIT) as (local, storage):
        connected(local, storage, "away", "t").drop()
        publisher = connected(local, storage, "publisher")
        on_disk(local, storage)
        storage.journal.commits.most_waiting = len(BODY)
        first = storage.journal.commits.number
        publisher.connection.gate.pause(QUEUED, 0)
        publisher.send(packets)
        local.run(publisher.socket.eof_received)  # so all of it is handled at once
        on_disk(local, storage)
        assert len(storage.journal.frames) > MANY // 2
        while min(storage.journal.frames) <= first:
            local.complete(Compaction(storage).remove_oldest())
    with broker_on(tmp_path, session=NO_LIMIT) as (local, storage):
        back = come_back(local, "away")
        assert take(local, storage, back, lambda came: len(came) == MANY) == numbers
