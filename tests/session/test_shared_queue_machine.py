"""FC-13: a group to which anything happens, in any order: its counters reconcile, and nothing waits in vain."""

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
from session.limits import Limits
from tests.conftest import EXAMPLES
from tests.support.session.messages import publishes, text_of
from tests.support.session.peer import Peer
from tests.support.session.sharing import Group


class GroupMachine(RuleBasedStateMachine):
    """Members that come, go, take and acknowledge; the counters of their group, and what each message has reached."""

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
        self.seen.update(text_of(publish) for publish in publishes(packets) if not publish.dup)

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
        self.seen.subtract(text_of(publish) for publish in again)
        peer.outbound.sender.outbox.take()
        self.group.peers.remove(peer)
        self.group.end(peer)
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
        dropped = counters.uncommon.dropped_qos0 + counters.uncommon.dropped_qos1 + counters.uncommon.dropped_qos2
        assert offered == self.count == handed + dropped + len(self.group.waiting())
        assert max(self.seen.values(), default=0) <= 1

    @invariant()
    def nothing_waits_in_vain(self) -> None:
        """FC-6, FC-13: while something waits with the group, no member could take it."""
        if not hasattr(self, "group"):
            return
        mqueue = self.group.queue.mqueue
        head = None if mqueue is None else mqueue.head()
        if head is None:
            return
        for peer in self.group.peers:
            assert not peer.outbound.can_send(head, peer.now)


@pytest.mark.timeout(600)  # a failure takes its time to be made small
def test_anything_may_happen_to_a_group() -> None:
    """FC-13: after any steps the group's counters reconcile, and no member could take what waits."""
    run_state_machine_as_test(
        GroupMachine, settings=settings(max_examples=2 * EXAMPLES, stateful_step_count=40, deadline=None)
    )
