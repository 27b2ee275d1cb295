"""Anything that a client may send, in any order: each message is routed as often as its QoS allows, and answered."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from protocol import reason_codes
from session.limits import Limits
from tests.support_session.inbound import Answer, answers, from_client, puback, pubcomp, pubrec
from tests.support_session.messages import SECOND
from tests.support_session.peer import Peer

PACKET_IDS = st.integers(1, 5)
LIMITS = st.fixed_dictionaries(
    {
        "receive_maximum": st.integers(1, 4),
        "max_awaiting_rel": st.sampled_from([0, 1, 3]),
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
        self.of_this_connection: set[int] = set()
        self.routed = self.refused = self.expired = self.exceeded = 0

    def expected(self, qos: int, packet_id: int, unwritten: int) -> list[Answer]:
        """What a PUBLISH must come to, after `unwritten` QoS 1 in the same chunk; notes it."""
        if qos == 2 and packet_id in self.awaiting:
            self.of_this_connection.add(packet_id)
            return [pubrec(packet_id)]
        if qos and self.version == 5 and unwritten + len(self.of_this_connection) >= self.limits.receive_maximum:
            self.exceeded += 1
        bound = self.limits.max_awaiting_rel
        if qos == 2 and bound and len(self.awaiting) >= bound:
            self.refused += 1
            return [pubrec(packet_id, reason_codes.QUOTA_EXCEEDED)] if self.version == 5 else []
        self.routed += 1
        if qos == 2:
            self.awaiting[packet_id] = self.peer.now
            self.of_this_connection.add(packet_id)
            return [pubrec(packet_id)]
        return [puback(packet_id)] if qos else []

    @rule(chunk=st.lists(st.tuples(st.integers(0, 2), PACKET_IDS, st.booleans()), min_size=1, max_size=6))
    def publish(self, chunk: list[tuple[int, int, bool]]) -> None:
        """PUBLISHes arrive in one chunk."""
        expected: list[Answer] = []
        unwritten = 0
        for qos, packet_id, _ in chunk:
            expected += self.expected(qos, packet_id, unwritten)
            unwritten += qos == 1
        sent = self.peer.send(*[from_client(packet_id, qos, dup=dup) for qos, packet_id, dup in chunk])
        assert answers(sent) == expected

    @rule(packet_id=PACKET_IDS)
    def release(self, packet_id: int) -> None:
        """A PUBREL arrives, for a known packet id or not."""
        known = packet_id in self.awaiting
        self.awaiting.pop(packet_id, None)
        self.of_this_connection.discard(packet_id)
        reason_code = 0 if known or self.version == 4 else reason_codes.PACKET_IDENTIFIER_NOT_FOUND
        assert answers(self.peer.pubrel(packet_id)) == [pubcomp(packet_id, reason_code)]

    @rule(version=st.sampled_from([4, 5]))
    def reconnect(self, version: int) -> None:
        """The client comes back, and its quota begins anew."""
        self.version = version
        self.of_this_connection = set()
        self.peer.disconnect()
        self.peer.connect(version)

    @rule(seconds=st.sampled_from([1, 2.5, 5]))
    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.peer.advance(seconds)
        timeout = self.limits.await_rel_timeout
        for packet_id, since in list(self.awaiting.items()):
            if timeout and self.peer.now - since >= timeout:
                del self.awaiting[packet_id]
                self.of_this_connection.discard(packet_id)
                self.expired += 1

    @invariant()
    def counts_hold(self) -> None:
        """FC-20 to FC-22: what was routed, refused, forgotten and tolerated is in the books."""
        if not hasattr(self, "peer"):
            return
        counters = self.peer.outbound.counters
        assert len(self.peer.routed) == self.routed
        assert counters.received_qos0 + counters.received_qos1 + counters.received_qos2 == self.routed
        assert counters.awaiting_rel_refused == self.refused
        assert counters.awaiting_rel_expired == self.expired
        assert counters.receive_maximum_exceeded == self.exceeded
        assert self.peer.session.inbound.awaiting_rel_len == len(self.awaiting)


def test_anything_may_be_sent() -> None:
    """FC-20 to FC-22: answers, routing and counts hold whatever a client sends, over reconnects and time."""
    run_state_machine_as_test(
        InboundMachine, settings=settings(max_examples=100, stateful_step_count=30, deadline=None)
    )
