"""FC-37: of some topics only the newest delivery waits, in the place of the older one."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.publish import Publish
from session.address import Address, AddressRule
from session.conflation import Conflation, Newest
from session.cost import cost
from session.flows import FIFO, PUBLISHER
from session.limits import DROP_NEWEST, DROP_OLDEST, DROP_OLDEST_QOS0, Limits
from session.mqueue import MQueue
from session.new_mqueue import new_mqueue
from session.overflow import supersede
from session.priorities import Priorities
from tests.support.session.messages import message, text_of
from tests.support.session.peer import Peer
from tests.support.session.sharing import Group

KINDS = [(None, FIFO), (None, PUBLISHER), (Priorities([("a", 3)]), FIFO), (Priorities([("a", 3)]), PUBLISHER)]
POLICIES = [DROP_OLDEST, DROP_OLDEST_QOS0, DROP_NEWEST]
ALL = Conflation(["#"])


def conflating(length: int = 1000, filters: tuple[str, ...] = ("#",), **limits: Any) -> Limits:
    """Limits of a session of whose topics only the newest waits; one delivery is under way at a time."""
    return Limits(max_inflight=1, max_mqueue_len=length, conflation=Conflation(list(filters)), **limits)


def waiting(mqueue: MQueue | None) -> list[str]:
    """What waits, in order."""
    return [text_of(publish) for publish in mqueue or []]


def superseded(peer: Peer) -> list[int]:
    """What has been counted as that, by QoS."""
    return [peer.session.counters.column(f"superseded_qos{qos}") for qos in range(3)]


steps = st.lists(
    st.tuples(
        st.sampled_from(["append", "append", "append", "append", "push_front", "pop", "drop"]),
        st.sampled_from(["a", "b", "c", "kept"]),
        st.integers(1, 3),
        st.integers(0, 2),
        st.sampled_from([0, 10, 700]),
    ),
    max_size=80,
)


@given(steps, st.sampled_from(KINDS), st.sampled_from(POLICIES))
def test_only_the_newest_waits(
    taken: list[tuple[str, str, int, int, int]], kind: tuple[Priorities | None, int], policy: str
) -> None:
    """FC-37: in each kind of queue a newer delivery is where the older one was, and all counts are of what waits."""
    priorities, fairness = kind
    conflation = Conflation(["a", "b", "c"])
    limits = Limits(priorities=priorities, fairness=fairness, conflation=conflation, mqueue_overflow=policy)
    mqueue = new_mqueue(limits)
    counters = Peer().session.counters
    address = Address(b"", AddressRule(1 << 40))
    expected: list[Publish] = []
    for number, (step, topic, flow, qos, size) in enumerate(taken):
        publish = message(number, qos, topic, size=size)
        publish.flow = flow
        publish.holder = address
        before = [text_of(each) for each in mqueue]
        older = [each for each in expected if topic != "kept" and each.topic == publish.topic]
        if step == "append" and older:
            assert mqueue.fits(publish, Limits(max_mqueue_len=len(expected)))
            assert supersede(mqueue, publish, counters)
            expected[expected.index(older[0])] = publish
            if fairness == FIFO:
                before[before.index(text_of(older[0]))] = text_of(publish)
                assert [text_of(each) for each in mqueue] == before
        elif step == "append":
            assert not supersede(mqueue, publish, counters)
            mqueue.append(publish)
            expected.append(publish)
        elif step == "push_front" and not older:
            mqueue.push_front(publish)
            expected.insert(0, publish)
        elif step in {"pop", "drop"} and expected:
            head = next(iter(mqueue))
            gone = mqueue.pop() if step == "pop" else mqueue.victim(publish, limits)
            assert step == "drop" or gone is head
            expected = [each for each in expected if each is not gone]
        assert Counter(map(id, mqueue)) == Counter(map(id, expected))
        if priorities is None and fairness == FIFO:
            assert list(mqueue) == expected
        assert (mqueue.length, mqueue.bytes) == (len(expected), sum(each.size for each in expected))
        assert address.size == sum(cost(each) for each in expected)
        by_qos = Counter(each.qos for each in expected)
        assert [mqueue.waiting_qos0, mqueue.waiting_qos1, mqueue.waiting_qos2] == [by_qos[0], by_qos[1], by_qos[2]]
    order = list(mqueue)
    assert [mqueue.pop() for _ in order] == order
    assert mqueue.length == 0


def test_the_newest_takes_the_place() -> None:
    """FC-37: it is sent when the older one would have been, and that one is superseded, not dropped."""
    peer = Peer(conflating())
    for label in ("sent", "a1", "a2"):
        peer.deliver(label, qos=1, topic="a")
    peer.deliver("b1", qos=2, topic="b")
    peer.deliver("a3", "a4", qos=2, topic="a")

    assert waiting(peer.outbound.mqueue) == ["a4", "b1"]
    assert superseded(peer) == [0, 2, 1]
    assert peer.session.counters.drops is None
    assert peer.session.totals(peer.now).superseded == 3


def test_other_topics_wait_as_before() -> None:
    """FC-37: of a topic that no filter matches all deliveries wait."""
    peer = Peer(conflating(filters=("a/#",)))
    peer.deliver(*range(4), qos=1, topic="b")

    assert waiting(peer.outbound.mqueue) == ["1", "2", "3"]


def test_what_is_in_the_window_stays() -> None:
    """FC-37, FC-8: what is sent is resent after a reconnect, whatever came since."""
    peer = Peer(conflating())
    peer.deliver("sent", "waits", qos=1)
    peer.disconnect()
    peer.publish("newer", qos=1)

    assert [text_of(packet) for packet in peer.connect() if isinstance(packet, Publish)] == ["sent"]
    assert waiting(peer.outbound.mqueue) == ["newer"]


def test_a_full_queue_has_room_for_it() -> None:
    """FC-37, FC-5: what replaces another delivery overflows no queue, unless it is too large in its place."""
    peer = Peer(conflating(length=2, max_mqueue_bytes=100))
    peer.deliver("sent", qos=1)
    for topic in ("a", "b", "a", "b"):
        peer.deliver(topic, qos=1, topic=topic, size=40)
    assert peer.session.counters.drops is None

    peer.deliver("large", qos=1, topic="b", size=90)

    assert waiting(peer.outbound.mqueue) == ["large"]
    assert peer.session.counters.drops == {"dropped_queue_full_qos1": 1}


def test_it_does_not_overtake() -> None:
    """FC-37: QoS 1, which may overtake QoS 0 that waits (FC-2), does not overtake an older one of its topic."""
    peer = Peer(conflating())
    peer.pause()
    peer.deliver("older", qos=0, topic="a")

    assert peer.deliver("newer", qos=1, topic="a") == ["newer"]
    assert waiting(peer.outbound.mqueue) == []
    assert superseded(peer) == [1, 0, 0]


def test_what_has_been_read_back_is_known_by_its_topic_only() -> None:
    """FC-37, FC-30: the number that a value had on disk means nothing once it is in memory."""
    newest = Newest(ALL)
    newest.enter_on_disk(b"a", 0, 7, 1, 10, 0)
    newest.read_back(message("value", 1, "a"))
    newest.leave_disk(7)
    assert newest.older(message("newer", 1, "a")) is not None


def test_offline() -> None:
    """FC-37, FC-7: while the client is away the queue of 50 sensors stays as long as there are sensors."""
    peer = Peer(conflating(length=50), online=False)
    for value in range(20):
        for sensor in range(50):
            peer.publish(f"{sensor} {value}", qos=1, topic=f"s/{sensor}")

    assert waiting(peer.outbound.mqueue) == [f"{sensor} 19" for sensor in range(50)]
    assert superseded(peer) == [0, 19 * 50, 0]


def test_qos0_in_the_place_of_qos1_is_dropped_first() -> None:
    """FC-37, FC-5: an overflow finds the oldest QoS 0 also where it has taken the place of QoS 1."""
    peer = Peer(conflating(length=3, mqueue_overflow=DROP_OLDEST_QOS0), online=False)
    for topic, qos in [("a", 1), ("b", 0), ("c", 1), ("d", 1), ("a", 0), ("e", 1)]:
        peer.publish(topic, qos=qos, topic=topic)

    assert waiting(peer.outbound.mqueue) == ["c", "d", "e"]


def test_another_publisher() -> None:
    """FC-37, FC-33: what another publisher has sent replaces it too, and has its turn."""
    mqueue = new_mqueue(Limits(fairness=PUBLISHER, conflation=ALL))
    counters = Peer().session.counters
    for number, (flow, topic) in enumerate([(1, "x"), (1, "a"), (2, "b"), (2, "a")]):
        publish = message(number, 1, topic, size=400)
        publish.flow = flow
        if not supersede(mqueue, publish, counters):
            mqueue.append(publish)

    assert waiting(mqueue) == ["2", "0", "3"]


@pytest.mark.parametrize("first", [0, 1])
def test_what_returns_to_a_group(first: int) -> None:
    """FC-37, FC-13: of what members give back and what waits, the newest stays."""
    group = Group(2, Limits(max_inflight=1, conflation=ALL))
    older, newer = group.peers
    group.deliver("1", qos=1)
    older.now += 1
    group.deliver("2", qos=1)
    for peer in (older, newer):
        peer.disconnect()
    extra = Peer(online=False)
    group.join(extra)
    group.end([older, newer][first])
    group.end([newer, older][first])

    assert group.waiting() == ["2"]
    assert extra.outbound.mqueue is None
    assert group.queue.counters.column("superseded_qos1") == 1


def test_what_returns_after_a_newer_one() -> None:
    """FC-37, FC-13: what a member gives back is not sent if a newer one waits in the place of an older one."""
    group = Group(2, Limits(max_inflight=1, conflation=ALL))
    first, second = group.peers
    for label in "12":
        group.deliver(label)
        first.now += 1
    for peer in (first, second):
        peer.disconnect()
    group.join(Peer(online=False))
    group.end(first)
    group.publish("3")
    group.end(second)

    assert group.waiting() == ["3"]


def test_what_returns_at_the_same_moment() -> None:
    """FC-37, FC-13: of two messages that came in one chunk the second stays, when a member gives the first one back."""
    group = Group(1, Limits(max_inflight=1, conflation=ALL))
    group.deliver("1", qos=1)
    group.deliver("2", qos=1)
    group.join(Peer(online=False))
    group.end(group.peers[0])

    assert group.waiting() == ["2"]
