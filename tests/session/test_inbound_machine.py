"""Anything that a client may send, in any order: each message is routed as its QoS demands, and answered."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from protocol import reason_codes
from protocol.errors import MQTTError
from session.limits import Limits
from tests.conftest import EXAMPLES
from tests.support.session.inbound import Answer, answers, from_client, puback, pubcomp, pubrec
from tests.support.session.messages import SECOND
from tests.support.session.peer import Peer

PACKET_IDS = st.integers(1, 5)
LIMITS = st.fixed_dictionaries(
    {
        "receive_maximum": st.integers(1, 4),
        "max_awaiting_rel": st.sampled_from([0, 1, 3]),
        "producer_window_size": st.sampled_from([100, 65_536]),
        "await_rel_timeout": st.sampled_from([0, 5 * SECOND]),
    }
)


class InboundMachine(RuleBasedStateMachine):
    """One session and its publishing client, and what should come of it."""

    @initialize(limits=LIMITS, version=st.sampled_from([4, 5]))
    def begin(self, limits: dict[str, Any], version: int) -> None:
        """Connect."""
        self.limits = Limits(**limits, tolerate_receive_maximum=True)
        self.peer = Peer(self.limits, version)
        self.version = version
        self.awaiting: dict[int, int] = {}
        """Packet ids between PUBLISH and PUBREL, and since when."""
        self.forgotten: set[int] = set()
        """Those whose PUBREL has not come in time (FC-22a)."""
        self.of_this_connection: set[int] = set()
        self.waiting: list[int] = []
        """Packet ids that wait for room among those (FC-22)."""
        self.routed = self.refused = self.expired = self.exceeded = 0

    def expected(self, qos: int, packet_id: int, dup: bool) -> list[Answer] | None:
        """What a PUBLISH must come to; notes it. None: the connection closes."""
        if qos == 2 and packet_id in self.forgotten:
            if dup:
                return [pubrec(packet_id)]
            self.forgotten.remove(packet_id)
        if qos == 2 and packet_id in self.awaiting:
            self.of_this_connection.add(packet_id)
            return [pubrec(packet_id)]
        if qos == 2 and packet_id in self.waiting:
            return []
        unacknowledged = len(self.of_this_connection) + len(self.waiting)
        if qos and self.version == 5 and unacknowledged >= self.limits.receive_maximum:
            self.exceeded += 1
        if qos == 2 and (self.waiting or not self.has_room()):
            self.refused += 1
            if 65 * len(self.waiting) >= self.limits.producer_window_size:
                return None
            self.waiting.append(packet_id)
            return []
        self.routed += 1
        if qos == 2:
            self.awaiting[packet_id] = self.peer.now
            self.of_this_connection.add(packet_id)
            return [pubrec(packet_id)]
        return [puback(packet_id)] if qos else []

    def has_room(self) -> bool:
        """Whether one more id may wait for PUBREL."""
        return not self.limits.max_awaiting_rel or len(self.awaiting) < self.limits.max_awaiting_rel

    def let_in(self, now: int) -> list[Answer]:
        """What there is room for now is answered."""
        let_in: list[Answer] = []
        while self.waiting and self.has_room():
            packet_id = self.waiting.pop(0)
            self.routed += 1
            self.awaiting[packet_id] = now
            self.of_this_connection.add(packet_id)
            let_in.append(pubrec(packet_id))
        return let_in

    def forget_overdue(self) -> list[Answer]:
        """What has waited for too long is forgotten, each at its time, and makes room."""
        let_in: list[Answer] = []
        timeout = self.limits.await_rel_timeout
        while timeout and self.awaiting and (due := min(self.awaiting.values()) + timeout) <= self.peer.now:
            for packet_id in [each for each, since in self.awaiting.items() if since + timeout <= due]:
                del self.awaiting[packet_id]
                self.of_this_connection.discard(packet_id)
                self.forgotten.add(packet_id)
                self.expired += 1
            let_in += self.let_in(due)
        return let_in

    @rule(chunk=st.lists(st.tuples(st.integers(0, 2), PACKET_IDS, st.booleans()), min_size=1, max_size=6))
    def publish(self, chunk: list[tuple[int, int, bool]]) -> None:
        """PUBLISHes arrive in one chunk."""
        expected: list[Answer] = []
        for place, (qos, packet_id, dup) in enumerate(chunk):
            answer = self.expected(qos, packet_id, dup)
            if answer is None:
                self.peer.send(*[from_client(number, level, dup=again) for level, number, again in chunk[:place]])
                with pytest.raises(MQTTError, match="producer_window_size"):
                    self.peer.send(from_client(packet_id, qos, dup=dup))
                self.reconnect(self.version)
                return
            expected += answer
        sent = self.peer.send(*[from_client(packet_id, qos, dup=dup) for qos, packet_id, dup in chunk])
        assert answers(sent) == expected

    @rule(packet_id=PACKET_IDS)
    def release(self, packet_id: int) -> None:
        """A PUBREL arrives, for a known packet id or not."""
        known = packet_id in self.awaiting or packet_id in self.forgotten
        self.forgotten.discard(packet_id)
        self.awaiting.pop(packet_id, None)
        self.of_this_connection.discard(packet_id)
        reason_code = 0 if known or self.version == 4 else reason_codes.PACKET_IDENTIFIER_NOT_FOUND
        assert answers(self.peer.pubrel(packet_id)) == [pubcomp(packet_id, reason_code), *self.let_in(self.peer.now)]

    @rule(version=st.sampled_from([4, 5]))
    def reconnect(self, version: int) -> None:
        """The client comes back, and its quota begins anew."""
        self.version = version
        self.of_this_connection = set()
        self.waiting = []
        self.peer.disconnect()
        self.peer.connect(version)

    @rule(seconds=st.sampled_from([1, 2.5, 5]))
    def wait(self, seconds: float) -> None:
        """Time passes."""
        found = answers(self.peer.advance(seconds))
        assert found == self.forget_overdue()

    @invariant()
    def counts_hold(self) -> None:
        """FC-20 to FC-22: what was routed, refused, forgotten and tolerated is in the books."""
        if not hasattr(self, "peer"):
            return
        counters = self.peer.outbound.sender.counters
        assert len(self.peer.routed) == self.routed
        assert counters.received_qos0 + counters.received_qos1 + counters.received_qos2 == self.routed
        assert counters.uncommon.awaiting_rel_refused == self.refused
        assert counters.uncommon.awaiting_rel_expired == self.expired
        assert counters.uncommon.receive_maximum_exceeded == self.exceeded
        assert self.peer.session.inbound.awaiting_rel_len == len(self.awaiting)


def test_anything_may_be_sent() -> None:
    """FC-20 to FC-22: answers, routing and counts hold whatever a client sends, over reconnects and time."""
    run_state_machine_as_test(
        InboundMachine, settings=settings(max_examples=2 * EXAMPLES, stateful_step_count=30, deadline=None)
    )
