"""FC-13: a shared subscription is one queue, from which members pull as their window and send path allow."""

from collections import Counter

import pytest

from session.limits import Limits
from tests.support.session.messages import message, publishes, texts
from tests.support.session.peer import Peer
from tests.support.session.sharing import Group


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_in_turn(qos: int) -> None:
    """FC-13: members that can take deliveries get them in turn."""
    group = Group(3, Limits())

    assert group.deliver(*range(7), qos=qos) == [["0", "3", "6"], ["1", "4"], ["2", "5"]]


def test_waits_with_the_group() -> None:
    """FC-13: a delivery that no member can take waits in the shared queue and goes to the first member that can."""
    group = Group(2)
    slow, fast = group.peers

    assert group.deliver(*range(7)) == [["0", "2"], ["1", "3"]]
    assert group.waiting() == ["4", "5", "6"]
    assert slow.waiting() == []
    assert texts(fast.puback(1, 2)) == ["4", "5"]
    assert texts(fast.puback(3)) == ["6"]
    assert group.waiting() == []


def test_slow_member_holds_back_what_it_has_taken() -> None:
    """FC-13: a member that acknowledges nothing keeps what it has pulled, and the others share the rest in turn."""
    group = Group(10)
    got: Counter[int] = Counter()
    for step in range(100):
        group.publish(*range(step * 10, step * 10 + 10))
        for number, peer in enumerate(group.peers):
            got[number] += len(texts(peer.run()))
            if number:
                got[number] += len(texts(peer.puback(*peer.window_ids())))
    assert got[0] == 2
    assert max(got.values()) - min(got[number] for number in range(1, 10)) <= 2
    assert group.queue.counters.uncommon.dropped_qos1 == 0


def test_congested_member_is_passed_over() -> None:
    """FC-13: a member whose send path is congested gets nothing until it can take more, and then its turns again."""
    group = Group(2, Limits())
    group.peers[0].pause()

    assert group.deliver("a", "b", qos=0) == [[], ["a", "b"]]
    group.peers[0].resume()
    assert group.deliver("c", "d", qos=0) == [["d"], ["c"]]


def test_nobody_online() -> None:
    """FC-7, FC-13: while all members are offline the group queues QoS 0 only if mqueue_store_qos0 is set."""
    group = Group(2, Limits(max_inflight=2, mqueue_store_qos0=False))
    for peer in group.peers:
        peer.disconnect()

    group.publish("zero", qos=0)
    group.publish("a", "b", "c")
    assert group.waiting() == ["a", "b", "c"]
    assert group.drops() == {"dropped_offline_qos0_qos0": 1}
    assert texts(group.peers[1].connect()) == ["a", "b"]
    assert texts(group.peers[0].connect()) == ["c"]


def test_somebody_online() -> None:
    """FC-7, FC-13: while one member is online QoS 0 waits for it, whatever mqueue_store_qos0 is."""
    group = Group(2, Limits(max_inflight=1, mqueue_store_qos0=False))
    group.peers[0].disconnect()
    assert group.deliver("a", qos=1)[1] == ["a"]

    group.publish("zero", qos=0)

    assert group.waiting() == ["zero"]
    assert texts(group.peers[1].puback(1)) == ["zero"]
    assert group.drops() == {}


def test_kept_window_stays_with_its_member() -> None:
    """FC-8, FC-13: the window of an offline member is resent to it when it is back, and to no other member."""
    group = Group(2)
    group.deliver("a", "b")
    group.peers[0].disconnect()

    assert texts(group.peers[1].puback(1)) == []
    assert texts(group.peers[0].connect()) == ["a"]


def test_session_that_ends_gives_back() -> None:
    """FC-13: unacknowledged QoS 1 of a session that ends goes back to the head of the shared queue, in order."""
    group = Group(2)
    group.deliver("a", "b", "c", "d", "e", "f")
    leaving, staying = group.peers
    leaving.puback(1)  # "a" is done; "c" is not, nor "e", which it has taken for it
    assert group.waiting() == ["f"]

    group.end(leaving)

    assert group.waiting() == ["c", "e", "f"]
    assert texts(staying.puback(1, 2)) == ["c", "e"]
    assert not any(publish.dup for publish in publishes(staying.packets))
    assert leaving.take_counters().uncommon.shared_returned == 2


def test_given_back_at_once() -> None:
    """FC-13: a delivery that comes back goes to another member at once, with the QoS of that member's subscription."""
    group = Group(1)
    group.deliver("a")
    low = Peer(group.limits)
    group.join(low, qos=0)
    leaving = group.peers[0]

    group.end(leaving)

    assert [(publish.payload, publish.qos) for publish in publishes(low.run())] == [(b"a", 0)]


def test_qos2_goes_to_nobody_else() -> None:
    """FC-13, [MQTT-4.8.2-5]: unacknowledged QoS 2 of a session that ends is sent to no other session."""
    group = Group(2)
    group.deliver("a", "b", qos=2)

    group.end(group.peers[0])

    assert group.run() == [[], []]
    assert group.waiting() == []


def test_last_member_leaves() -> None:
    """FC-13: when the last member leaves, the group drops and counts what waits."""
    group = Group(1)
    group.deliver(*range(5))

    group.queue.remove(group.peers[0].outbound)

    assert group.waiting() == []
    assert group.drops() == {"dropped_session_ended_qos1": 3}


def test_who_unsubscribes() -> None:
    """FC-13: a member that only unsubscribes gets nothing more of the group, and keeps what it has got."""
    group = Group(2, Limits())
    leaving = group.peers[0]
    assert group.deliver("a", "b", "c") == [["a", "c"], ["b"]]

    group.queue.remove(leaving.outbound)

    assert leaving.window_ids() == [1, 2]
    assert group.deliver("d", "e") == [[], ["d", "e"]]
    assert texts(leaving.puback(1, 2)) == []


def test_qos_of_each_member() -> None:
    """FC-13, [MQTT-4.8.2-3]: a delivery has the QoS of the member's own subscription, at most that of the message."""
    group = Group(0)
    for qos in range(3):
        group.peers.append(Peer(group.limits))
        group.join(group.peers[-1], qos)
    group.publish("a", "b", "c", qos=2)

    assert [publishes(peer.run())[0].qos for peer in group.peers] == [0, 1, 2]


def test_overflow() -> None:
    """FC-5, FC-13: a shared queue has the limits of an mqueue, counts its overflow, and reports it once."""
    group = Group(1, Limits(max_inflight=1, max_mqueue_len=2))

    group.deliver(*range(6))

    assert group.waiting() == ["4", "5"]
    assert group.drops() == {"dropped_queue_full_qos1": 3}
    assert group.host.reports == ["shared_queue_full"]


def test_nothing_is_dropped_while_it_could_be_sent() -> None:
    """FC-6, FC-13: before a full shared queue drops anything, its members take what they can send."""
    group = Group(2, Limits(max_inflight=0, max_mqueue_len=1))

    group.publish(*range(20), size=10_000)  # far more than one pass's bytes for both, before any has run
    got = group.run()

    assert sorted((text for texts in got for text in texts), key=int) == [str(number) for number in range(20)]
    assert group.queue.counters.uncommon.dropped_qos1 == 0


def test_too_large_for_the_queue() -> None:
    """FC-6, FC-13: what a queue can never hold goes to a member that can send it, though it has other passes to run."""
    group = Group(1, Limits(max_mqueue_bytes=100))
    member = group.peers[0]
    member.route(message("own", 1))

    assert sorted(group.deliver("large", size=200)[0]) == ["large", "own"]
    assert group.drops() == {}


def test_one_at_a_time_is_strictly_in_turn() -> None:
    """FC-10, FC-13: with a consumer_window_size of 0 each acknowledgement brings a member its next delivery in turn."""
    group = Group(3, Limits(consumer_window_size=0))
    group.deliver(*range(9))
    order: list[str] = []
    for _ in range(2):
        for peer in group.peers:
            order += texts(peer.puback(*peer.window_ids()))

    assert order == [str(number) for number in range(3, 9)]


def test_room_in_bytes_for_what_is_next() -> None:
    """FC-10, FC-13: a member without room for a large delivery is woken when another member has taken that one."""
    group = Group(2, Limits(consumer_window_size=100))
    one, other = group.peers
    group.deliver("a", "b", size=60)
    group.deliver("large", size=80)
    group.deliver("small", size=30)
    assert group.waiting() == ["large", "small"]
    wakes = other.host.wakes

    assert texts(one.puback(1)) == ["large"]

    assert other.host.wakes == wakes + 1
    assert texts(other.run()) == ["small"]


def test_rate_of_a_member() -> None:
    """FC-11, FC-13: a member takes no more than its rate allows, and the rest waits in the shared queue."""
    group = Group(1, Limits(consumer_max_rate=5, max_inflight=0))

    assert group.deliver(*range(4)) == [["0"]]
    assert texts(group.peers[0].advance(1)) == ["1", "2", "3"]


def test_several_groups_have_their_turns() -> None:
    """FC-13: a session in several groups takes from each of them in turn as its window opens."""
    one, other = Group(0, Limits(max_inflight=1)), Group(0, Limits(max_inflight=1))
    peer = Peer(one.limits)
    for group in (one, other):
        group.peers.append(peer)
        group.join(peer)
    one.publish("a1", "a2", "a3")
    other.publish("b1", "b2", "b3")
    got = texts(peer.run())
    while peer.window_ids():
        got += texts(peer.puback(*peer.window_ids()))

    assert got == ["a1", "a2", "b1", "a3", "b2", "b3"]


def test_own_deliveries_are_not_overtaken() -> None:
    """FC-2, FC-13: a member takes nothing from the group until its own backlog is sent."""
    group = Group(2, Limits(max_inflight=1))
    busy, free = group.peers
    busy.deliver("own1", "own2", qos=1)

    assert group.deliver("a", "b") == [[], ["a"]]
    assert texts(busy.puback(1)) == ["own2"]
    assert texts(busy.puback(2)) == ["b"]
    assert texts(free.puback(1)) == []


def test_own_deliveries_are_not_slipped_past() -> None:
    """FC-2, FC-13: a member takes nothing from the group while a delivery of its own is too large to go now."""
    group = Group(2, Limits(consumer_window_size=100))
    busy = group.peers[0]
    assert busy.deliver("own1", "own2", qos=1, size=60) == ["own1"]

    assert group.deliver("a", size=30) == [[], ["a"]]
    assert texts(busy.puback(1)) == ["own2"]


def test_acknowledged_is_not_given_back() -> None:
    """FC-13: an acknowledged delivery cannot come back, because its packet id may soon be that of another one."""
    group = Group(1)
    peer = group.peers[0]
    group.deliver("a", "b")
    peer.puback(1, 2)

    assert peer.outbound.sender.sources == {}
