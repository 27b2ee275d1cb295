"""FC-37, FC-30: what supersedes deliveries that are on disk only."""

from pathlib import Path

from protocol.publish import Publish
from tests.support.broker.evicting import FULL, MANY, come_back, publish, take
from tests.support.broker.stored import broker_on, connected, on_disk


def test_overflow_behind_what_has_become_qos1(tmp_path: Path) -> None:
    """FC-5, FC-37: QoS 0 in memory is dropped for QoS 1, also behind QoS 1 that has taken the place of other QoS 0."""
    limits = {"max_mqueue_len": MANY, "mqueue_overflow": "drop_oldest_qos0", "conflate": ["state"]}
    with broker_on(tmp_path, FULL, session=limits) as (local, storage):
        connected(local, storage, "away", "#").drop()
        publisher = connected(local, storage, "publisher")
        publish(local, storage, publisher, range(MANY - 2))
        state = [Publish(b"state", b"%06d" % MANY, qos, packet_id=qos) for qos in (0, 1)]
        publisher.send(*state, Publish(b"t", b"dropped"))
        publish(local, storage, publisher, range(MANY - 2, MANY - 1))
        back = come_back(local, "away")
        wanted = [*range(MANY - 1), MANY]
        assert take(local, storage, back, lambda came: len(came) == MANY) == wanted


def test_qos0_supersedes_what_is_on_disk(tmp_path: Path) -> None:
    """FC-37, FC-30: what is on disk only is not sent after QoS 0 of its topic has superseded it."""
    limits = {"max_mqueue_len": 0, "mqueue_store_qos0": True, "conflate": ["state"]}
    with broker_on(tmp_path, FULL, session=limits) as (local, storage):
        connected(local, storage, "away", "#").drop()
        publisher = connected(local, storage, "publisher")
        publish(local, storage, publisher, range(MANY))
        for number, qos in ((MANY, 1), (MANY + 1, 0)):
            publisher.send(Publish(b"state", b"%06d" % number, qos, packet_id=qos))
            on_disk(local, storage)
        back = come_back(local, "away")
        wanted = [*range(MANY), MANY + 1]
        assert take(local, storage, back, lambda came: len(came) == len(wanted)) == wanted


def test_qos0_that_supersedes_in_its_own_flow(tmp_path: Path) -> None:
    """FC-37, FC-33: QoS 0 takes the place of another publisher's value on disk, and what waits behind that is sent."""
    limits = {"max_mqueue_len": 0, "conflate": ["state"], "mqueue_fairness": "publisher"}
    with broker_on(tmp_path, FULL, session=limits) as (local, storage):
        connected(local, storage, "away", "#").drop()
        publish(local, storage, connected(local, storage, "publisher"), range(MANY))
        first, second = connected(local, storage, "first"), connected(local, storage, "second")
        first.send(Publish(b"state", b"older", 1, packet_id=1))
        on_disk(local, storage)
        publish(local, storage, first, range(MANY, MANY + 1), qos=0)
        second.send(Publish(b"state", b"%06d" % (MANY + 1), 0))
        back = come_back(local, "away")
        assert sorted(take(local, storage, back, lambda came: len(came) == MANY + 2)) == list(range(MANY + 2))


def test_what_is_superseded_takes_no_memory(tmp_path: Path) -> None:
    """FC-37, FC-30: nothing is remembered of a value on disk whose place another has taken, at any QoS."""
    limits = {"max_mqueue_len": 0, "mqueue_store_qos0": True, "conflate": ["state"]}
    with broker_on(tmp_path, FULL, session=limits) as (local, storage):
        connected(local, storage, "away", "#").drop()
        publisher = connected(local, storage, "publisher")
        publish(local, storage, publisher, range(MANY))
        mqueue = local.broker.clients.by_id["away"].session.outbound.mqueue
        assert mqueue is not None
        newest = mqueue.newest
        assert newest is not None
        for number in range(3):
            publisher.send(*[Publish(b"state", b"%d" % number, qos, packet_id=qos) for qos in (1, 1, 0)])
            on_disk(local, storage)
        waits = Publish(b"state", b"")
        assert newest.older(waits) is not None
        for number in range(MANY + 10):
            newest.leave_disk(number)  # of numbers that are gone: it knows none of them
        assert newest.older(waits) is not None
