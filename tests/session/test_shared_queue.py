"""FC-13: a shared subscription is one queue, from which members pull as their window and send path allow."""

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from protocol.packet import Packet
from protocol.subscribe import Subscription
from session.limits import Limits
from session.shared_queue import SharedQueue
from tests.support.session.host import NotingHost
from tests.support.session.messages import message, publishes, texts
from tests.support.session.peer import Peer

NAME = "$share/g/t"


class Group:
    """Some peers that share, and what each of them gets."""

    def __init__(self, count: int, limits: Limits | None = None, qos: int = 2) -> None:
        self.limits = limits if limits is not None else Limits(max_inflight=2)
        self.host = NotingHost()
        self.queue = SharedQueue(NAME, self.limits, self.host)
        self.peers = [Peer(self.limits) for _ in range(count)]
        for peer in self.peers:
            self.join(peer, qos)

    def join(self, peer: Peer, qos: int = 2) -> list[str]:
        """A peer subscribes."""
        self.queue.add(peer.outbound, Subscription(NAME, qos))
        return texts(peer.end_chunk())

    def publish(self, *labels: object, qos: int = 1, size: int = 0, topic: str = "t") -> None:
        """Messages arrive for the group."""
        for label in labels:
            self.queue.deliver(message(label, qos, topic, size=size, now=self.peers[0].now), None, self.peers[0].now)

    def run(self) -> list[list[str]]:
        """All session tasks run; returns what each member has got."""
        return [texts(peer.run()) for peer in self.peers]

    def deliver(self, *labels: object, qos: int = 1, size: int = 0) -> list[list[str]]:
        """Both."""
        self.publish(*labels, qos=qos, size=size)
        return self.run()

    def waiting(self) -> list[str]:
        """What waits with the group, head first."""
        return texts(self.queue.mqueue) if self.queue.mqueue is not None else []


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_in_turn(qos: int) -> None:
    """FC-13: members that can take a delivery get them in turn."""
    group = Group(3, Limits())

    assert group.deliver(*range(7), qos=qos) == [["0", "3", "6"], ["1", "4"], ["2", "5"]]


def test_waits_with_the_group() -> None:
    """FC-13: what no member can take waits with the group, not with a member, and goes to whoever can first."""
    group = Group(2)
    slow, fast = group.peers

    assert group.deliver(*range(7)) == [["0", "2"], ["1", "3"]]
    assert group.waiting() == ["4", "5", "6"]
    assert slow.waiting() == []
    assert texts(fast.puback(1, 2)) == ["4", "5"]
    assert texts(fast.puback(3)) == ["6"]
    assert group.waiting() == []


def test_slow_member_holds_back_what_it_has_taken() -> None:
    """FC-13: nine that acknowledge share all the rest in turn, whatever the tenth does."""
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
    assert group.queue.counters.dropped_qos1 == 0


def test_congested_member_is_passed_over() -> None:
    """FC-13: a member whose send path is congested gets nothing until it can take more; then it has its turns again."""
    group = Group(2, Limits())
    group.peers[0].pause()

    assert group.deliver("a", "b", qos=0) == [[], ["a", "b"]]
    group.peers[0].resume()
    assert group.deliver("c", "d", qos=0) == [["d"], ["c"]]


def test_nobody_online() -> None:
    """FC-7, FC-13: while no member is online the group queues, QoS 0 only if mqueue_store_qos0 says so."""
    group = Group(2, Limits(max_inflight=2, mqueue_store_qos0=False))
    for peer in group.peers:
        peer.disconnect()

    group.publish("zero", qos=0)
    group.publish("a", "b", "c")
    assert group.waiting() == ["a", "b", "c"]
    assert (group.queue.counters.drops or {}) == {"dropped_offline_qos0_qos0": 1}
    assert texts(group.peers[1].connect()) == ["a", "b"]
    assert texts(group.peers[0].connect()) == ["c"]


def test_kept_window_stays_with_its_member() -> None:
    """FC-8, FC-13: what a member has taken is resent to it when it is back, and goes to nobody else meanwhile."""
    group = Group(2)
    group.deliver("a", "b")
    group.peers[0].disconnect()

    assert texts(group.peers[1].puback(1)) == []
    assert texts(group.peers[0].connect()) == ["a"]


def test_session_that_ends_gives_back() -> None:
    """FC-13: the unacknowledged QoS 1 of a session that ends goes to the others, in order, before all that waits."""
    group = Group(2)
    group.deliver("a", "b", "c", "d", "e", "f")
    leaving, staying = group.peers
    leaving.puback(1)  # "a" is done; "c" is not, nor "e", which it has taken for it
    assert group.waiting() == ["f"]

    group.queue.remove(leaving.outbound)
    leaving.outbound.end(leaving.now)

    assert group.waiting() == ["c", "e", "f"]
    assert texts(staying.puback(1, 2)) == ["c", "e"]
    assert not any(publish.dup for publish in publishes(staying.packets))
    assert leaving.take_counters().shared_returned == 2


def test_given_back_at_once() -> None:
    """FC-13: what comes back goes on at once if another member can take it, as that one's options have it."""
    group = Group(1)
    group.deliver("a")
    low = Peer(group.limits)
    group.join(low, qos=0)
    leaving = group.peers[0]

    group.queue.remove(leaving.outbound)
    leaving.outbound.end(leaving.now)

    assert [(publish.payload, publish.qos) for publish in publishes(low.run())] == [(b"a", 0)]


def test_qos2_goes_to_nobody_else() -> None:
    """FC-13, [MQTT-4.8.2-5]: the unacknowledged QoS 2 of a session that ends is not sent to another one."""
    group = Group(2)
    group.deliver("a", "b", qos=2)

    group.queue.remove(group.peers[0].outbound)
    group.peers[0].outbound.end(group.peers[0].now)

    assert group.run() == [[], []]
    assert group.waiting() == []


def test_last_member_leaves() -> None:
    """FC-13: what waits when nobody shares any more is dropped, and counted in the group's books."""
    group = Group(1)
    group.deliver(*range(5))

    group.queue.remove(group.peers[0].outbound)

    assert group.waiting() == []
    assert (group.queue.counters.drops or {}) == {"dropped_session_ended_qos1": 3}


def test_qos_of_each_member() -> None:
    """FC-13, [MQTT-4.8.2-3]: a delivery has the QoS of the member's own subscription, at most that of the message."""
    group = Group(0)
    for qos in range(3):
        group.peers.append(Peer(group.limits))
        group.join(group.peers[-1], qos)
    group.publish("a", "b", "c", qos=2)

    assert [publishes(peer.run())[0].qos for peer in group.peers] == [0, 1, 2]


def test_overflow() -> None:
    """FC-5, FC-13: the group's queue has the limits of an mqueue; an overflow is counted, and reported once."""
    group = Group(1, Limits(max_inflight=1, max_mqueue_len=2))

    group.deliver(*range(6))

    assert group.waiting() == ["4", "5"]
    assert (group.queue.counters.drops or {}) == {"dropped_queue_full_qos1": 3}
    assert group.host.reports == ["shared_queue_full"]


def test_nothing_is_dropped_while_it_could_be_sent() -> None:
    """FC-6, FC-13: members with enough to do for this pass are pressed before a full queue drops anything."""
    group = Group(2, Limits(max_inflight=0, max_mqueue_len=1))

    group.publish(*range(20), size=10_000)  # far more than one pass's bytes for both, before any has run
    got = group.run()

    assert sorted((text for texts in got for text in texts), key=int) == [str(number) for number in range(20)]
    assert group.queue.counters.dropped_qos1 == 0


def test_one_at_a_time_is_strictly_in_turn() -> None:
    """FC-10, FC-13: with consumer_window_size 0 a member gets its next delivery when it has acknowledged the last."""
    group = Group(3, Limits(consumer_window_size=0))
    group.deliver(*range(9))
    order: list[str] = []
    for _ in range(2):
        for peer in group.peers:
            order += texts(peer.puback(*peer.window_ids()))

    assert order == [str(number) for number in range(3, 9)]


def test_room_in_bytes_for_what_is_next() -> None:
    """FC-10, FC-13: a member that had no room for a large delivery is woken when somebody else has taken that one."""
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
    """FC-11, FC-13: a member takes no more than its rate allows; its share waits for others, or for its time."""
    group = Group(1, Limits(consumer_max_rate=5, max_inflight=0))

    assert group.deliver(*range(4)) == [["0"]]
    assert texts(group.peers[0].advance(1)) == ["1", "2", "3"]


def test_several_groups_have_their_turns() -> None:
    """FC-13: a session that shares with several groups takes from each of them in turn as its window opens."""
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
    """FC-2, FC-13: a member that has a backlog of its own takes nothing from the group until that is sent."""
    group = Group(2, Limits(max_inflight=1))
    busy, free = group.peers
    busy.deliver("own1", "own2", qos=1)

    assert group.deliver("a", "b") == [[], ["a"]]
    assert texts(busy.puback(1)) == ["own2"]
    assert texts(busy.puback(2)) == ["b"]
    assert texts(free.puback(1)) == []


def test_own_deliveries_are_not_slipped_past() -> None:
    """FC-2, FC-13: what waits of a member's own comes first, also where only it is too large to go now."""
    group = Group(2, Limits(consumer_window_size=100))
    busy = group.peers[0]
    assert busy.deliver("own1", "own2", qos=1, size=60) == ["own1"]

    assert group.deliver("a", size=30) == [[], ["a"]]
    assert texts(busy.puback(1)) == ["own2"]


def test_acknowledged_is_not_given_back() -> None:
    """FC-13: whose delivery has been acknowledged is forgotten, for its packet id may be of another one soon."""
    group = Group(1)
    peer = group.peers[0]
    group.deliver("a", "b")
    peer.puback(1, 2)

    assert peer.outbound.sender.sources == {}


class GroupMachine(RuleBasedStateMachine):
    """A group to which anything happens: its books, and that nothing waits which somebody could take."""

    @initialize(
        window=st.integers(1, 3),
        length=st.sampled_from([0, 4]),
        byte_window=st.sampled_from([-1, -1, 0, 30]),
        count=st.integers(1, 4),
    )
    def begin(self, window: int, length: int, byte_window: int, count: int) -> None:
        """Some members join."""
        limits = Limits(max_inflight=window, max_mqueue_len=length, consumer_window_size=byte_window, retry_interval=0)
        self.group = Group(count, limits)
        self.count = 0
        self.seen: Counter[str] = Counter()
        self.left: list[Peer] = []

    def note(self, packets: list[Packet]) -> None:
        """Remember what has come, but for resends."""
        self.seen.update(publish.payload.decode().rstrip(".") for publish in publishes(packets) if not publish.dup)

    def peer(self, number: int) -> Peer:
        """One of the members."""
        return self.group.peers[number % len(self.group.peers)]

    def settle(self) -> None:
        """All session tasks run until nobody has anything to do."""
        for _ in range(3):
            for peer in self.group.peers:
                if peer.outbound.sender.connected:
                    self.note(peer.run())

    @rule(batch=st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0, 20, 40_000])), max_size=12))
    def publish(self, batch: list[tuple[int, int]]) -> None:
        """Messages arrive."""
        for qos, size in batch:
            self.group.publish(f"{self.count}", qos=qos, size=size)
            self.count += 1
        self.settle()

    @rule(number=st.integers(0, 3), count=st.integers(1, 3))
    def acknowledge(self, number: int, count: int) -> None:
        """A member acknowledges some."""
        peer = self.peer(number)
        for packet_id in peer.window_ids()[:count]:
            if peer.outbound.sender.connected and peer.outbound.sender.window.entries[packet_id].publish.qos == 1:
                self.note(peer.puback(packet_id))
            elif peer.outbound.sender.connected:
                self.note(peer.pubrec(packet_id))
                self.note(peer.pubcomp(packet_id))
        self.settle()

    @rule(number=st.integers(0, 3))
    def pause(self, number: int) -> None:
        """A member's transport is full."""
        if self.peer(number).outbound.sender.connected:
            self.peer(number).pause()

    @rule(number=st.integers(0, 3))
    def resume(self, number: int) -> None:
        """It is empty again."""
        if self.peer(number).outbound.sender.connected:
            self.note(self.peer(number).resume())
            self.settle()

    @rule(number=st.integers(0, 3))
    def come_or_go(self, number: int) -> None:
        """A member's connection breaks, or it comes back."""
        peer = self.peer(number)
        if peer.outbound.sender.connected:
            peer.disconnect()
        else:
            self.note(peer.connect())
            self.settle()

    @precondition(lambda self: len(self.group.peers) > 1)
    @rule(number=st.integers(0, 3))
    def end(self, number: int) -> None:
        """A member's session ends; what it has not acknowledged may come to somebody else."""
        peer = self.peer(number)
        window = peer.outbound.sender.window
        again = [inflight.publish for inflight in window.entries.values() if inflight.publish.qos == 1]
        self.seen.subtract(publish.payload.decode().rstrip(".") for publish in again)
        peer.outbound.sender.outbox.take()
        self.group.peers.remove(peer)
        self.group.queue.remove(peer.outbound)
        peer.outbound.end(peer.now)
        self.settle()

    @rule()
    def join(self) -> None:
        """Somebody new joins."""
        if len(self.group.peers) < 4:
            peer = Peer(self.group.limits)
            self.group.peers.append(peer)
            self.note(self._joined(peer))
            self.settle()

    def _joined(self, peer: Peer) -> list[Packet]:
        before = len(peer.packets)
        self.group.join(peer)
        return peer.packets[before:]

    @invariant()
    def books_hold(self) -> None:
        """The group's books balance, and no message has gone to two members."""
        if not hasattr(self, "group"):
            return
        counters = self.group.queue.counters
        offered = counters.offered_qos0 + counters.offered_qos1 + counters.offered_qos2
        handed = counters.sent_qos0 + counters.sent_qos1 + counters.sent_qos2
        dropped = counters.dropped_qos0 + counters.dropped_qos1 + counters.dropped_qos2
        assert offered == self.count == handed + dropped + len(self.group.waiting())
        assert max(self.seen.values(), default=0) <= 1

    @invariant()
    def nothing_waits_in_vain(self) -> None:
        """FC-6, FC-13: while something waits with the group, no member could take it."""
        if not hasattr(self, "group"):
            return
        mqueue = self.group.queue.mqueue
        if mqueue is None or len(mqueue) == 0:
            return
        for peer in self.group.peers:
            assert not peer.outbound.can_take(mqueue.head(), peer.now)


@pytest.mark.timeout(600)  # a failure takes its time to be made small
def test_anything_may_happen_to_a_group() -> None:
    """FC-13: books and promptness hold whatever happens to a group and its members."""
    run_state_machine_as_test(
        GroupMachine, settings=settings(max_examples=150, stateful_step_count=40, deadline=None)
    )
