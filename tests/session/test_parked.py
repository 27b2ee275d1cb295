"""FC-25: the PUBLISHes of a client that wait for their answer use up its credit, and are answered once."""

from typing import Any

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

from protocol import properties as props
from protocol import reason_codes
from protocol.errors import MQTTError
from protocol.properties import Properties
from protocol.publish import Publish
from session.limits import Limits
from session.parked import weight
from tests.conftest import EXAMPLES
from tests.support.session.inbound import Answer, answers, from_client, puback, pubcomp, pubrec
from tests.support.session.peer import Peer

PACKET_IDS = st.integers(1, 5)
CHUNKS = st.lists(st.tuples(st.integers(0, 2), PACKET_IDS, st.booleans(), st.booleans()), min_size=1, max_size=6)
"""QoS, packet id, DUP, and whether the address is full."""


def test_weight() -> None:
    """FC-25: a parked PUBLISH counts with its payload, or with topic, properties and 64 bytes if that is more."""
    more: Properties = {props.CONTENT_TYPE: "text"}
    assert weight(Publish(b"topic", b"x" * 69, 1)) == 69
    assert weight(Publish(b"topic", b"x" * 70, 1)) == 70
    assert weight(Publish(b"topic", b"x" * 70, 1, properties=more)) == 64 + 5 + 8
    assert weight(Publish(b"topic", b"x" * 100, 1, properties=more)) == 100


class Parked:
    """A PUBLISH that waits."""

    def __init__(self, publish: Publish, connection: int) -> None:
        self.publish = publish
        self.connection = connection
        """On which it first came."""
        self.here = True
        """Whether it has come, or come again, on the present one."""


class ParkingMachine(RuleBasedStateMachine):
    """One session, its publishing client, and addresses that are full or not."""

    @initialize(
        receive_maximum=st.integers(1, 4), max_awaiting_rel=st.sampled_from([0, 1, 3]), version=st.sampled_from([4, 5])
    )
    def begin(self, receive_maximum: int, max_awaiting_rel: int, version: int) -> None:
        """Connect."""
        options: dict[str, Any] = {"receive_maximum": receive_maximum, "max_awaiting_rel": max_awaiting_rel}
        self.limits = Limits(**options, await_rel_timeout=0, tolerate_receive_maximum=True)
        self.peer = Peer(self.limits, version)
        self.version = version
        self.online = True
        self.parked: list[Parked] = []
        self.awaiting: dict[int, bool] = {}
        """Packet ids between PUBREC and PUBREL, and whether they belong to this connection."""
        self.waiting_for_id: list[Publish] = []
        """What is past max_awaiting_rel (FC-22)."""
        self.routed = self.exceeded = self.waits = 0

    def waiting(self, qos: int, packet_id: int) -> Parked | None:
        """The PUBLISH that this one repeats, and that waits."""
        for parked in self.parked:
            same = parked.publish.qos == qos and parked.publish.packet_id == packet_id
            if same and (qos == 2 or (qos == 1 and parked.here)):
                return parked
        return None

    def has_room(self) -> bool:
        """Whether one more id may wait for PUBREL (FC-22)."""
        bound = self.limits.max_awaiting_rel
        return not bound or len(self.awaiting) + sum(parked.publish.qos == 2 for parked in self.parked) < bound

    def expected(self, publish: Publish) -> tuple[bool, list[Answer]]:
        """Whether a PUBLISH is accepted, and its answer if not."""
        qos, packet_id = publish.qos, publish.packet_id
        parked = self.waiting(qos, packet_id)
        if qos == 2 and packet_id in self.awaiting:
            self.awaiting[packet_id] = True
            return False, [pubrec(packet_id)]
        if parked is not None:
            parked.here = True
            return False, []
        if qos == 2 and packet_id in [waiting.packet_id for waiting in self.waiting_for_id]:
            return False, []
        credit = sum(parked.here for parked in self.parked if parked.publish.qos) + sum(self.awaiting.values())
        if qos and self.version == 5 and credit + len(self.waiting_for_id) >= self.limits.receive_maximum:
            self.exceeded += 1
        if qos == 2 and (self.waiting_for_id or not self.has_room()):
            self.waiting_for_id.append(publish)
            return False, []
        return True, []

    def let_in(self) -> list[Answer]:
        """What there is an id for now is routed and answered."""
        let_in: list[Answer] = []
        while self.waiting_for_id and self.has_room():
            publish = self.waiting_for_id.pop(0)
            self.routed += 1
            self.awaiting[publish.packet_id] = True
            let_in.append(pubrec(publish.packet_id))
        return let_in

    @precondition(lambda self: self.online)
    @rule(chunk=CHUNKS)
    def publish(self, chunk: list[tuple[int, int, bool, bool]]) -> None:
        """PUBLISHes arrive in one chunk."""
        session = self.peer.session
        expected: list[Answer] = []
        for qos, packet_id, dup, full in chunk:
            publish = from_client(packet_id if qos else 0, qos, dup=dup)
            accepted, answer = self.expected(publish)
            expected += answer
            assert session.inbound.accept(publish) == accepted
            if not accepted:
                continue
            if full:
                session.inbound.park(publish)
                self.parked.append(Parked(publish, session.inbound.connection))
                self.waits += 1
                continue
            session.inbound.answer(publish, True, self.peer.now)
            self.routed += 1
            if qos == 2:
                self.awaiting[packet_id] = True
            expected += [(puback if qos == 1 else pubrec)(packet_id)] if qos else []
        assert answers(self.peer.end_chunk()) == expected

    @precondition(lambda self: self.parked)
    @rule(place=st.integers(0, 20), routed=st.booleans())
    def settle(self, place: int, routed: bool) -> None:
        """There is room for one that waits, or it has waited for too long."""
        parked = self.parked.pop(place % len(self.parked))
        session, publish = self.peer.session, parked.publish
        here = parked.here and self.online and publish.qos > 0
        assert session.inbound.unpark(publish, parked.connection, 10, self.peer.now) == (parked.here and self.online)
        if routed:
            self.routed += 1
            session.inbound.answer_late(publish, True, here, self.peer.now)
            if publish.qos == 2:
                self.awaiting[publish.packet_id] = here
        elif here:
            session.inbound.refuse(publish, reason_codes.QUOTA_EXCEEDED)
        code = 0 if routed or self.version == 4 else reason_codes.QUOTA_EXCEEDED
        expected = [(puback if publish.qos == 1 else pubrec)(publish.packet_id, code)] if here else []
        assert answers(self.peer.end_chunk()) == expected
        assert answers(self.peer.advance(0)) == self.let_in()

    @precondition(lambda self: self.online)
    @rule(packet_id=PACKET_IDS)
    def release(self, packet_id: int) -> None:
        """A PUBREL arrives, for a known packet id or not; one that waits is not known yet."""
        known = self.awaiting.pop(packet_id, None) is not None
        reason_code = 0 if known or self.version == 4 else reason_codes.PACKET_IDENTIFIER_NOT_FOUND
        assert answers(self.peer.pubrel(packet_id)) == [pubcomp(packet_id, reason_code), *self.let_in()]

    @precondition(lambda self: self.online)
    @rule()
    def disconnect(self) -> None:
        """The client goes."""
        self.peer.disconnect()
        self.waiting_for_id = []
        self.online = False

    @precondition(lambda self: not self.online)
    @rule(version=st.sampled_from([4, 5]))
    def connect(self, version: int) -> None:
        """It comes back, and its credit begins anew."""
        self.version = version
        self.online = True
        self.peer.connect(version)
        for parked in self.parked:
            parked.here = False
        for packet_id in self.awaiting:
            self.awaiting[packet_id] = False

    @invariant()
    def counts_hold(self) -> None:
        """FC-20 to FC-25: what waits, was routed or tolerated is in the books."""
        if not hasattr(self, "peer"):
            return
        counters = self.peer.outbound.sender.counters
        received = counters.received_qos0 + counters.received_qos1 + counters.received_qos2
        assert counters.uncommon.receive_maximum_exceeded == self.exceeded
        assert counters.uncommon.publish_parked == self.waits
        assert received >= self.routed + len(self.parked)
        assert self.peer.session.inbound.awaiting_rel_len == len(self.awaiting)


def test_anything_may_wait() -> None:
    """FC-20 to FC-25: answers and credit hold whatever waits, is sent again, routed or given up, over reconnects."""
    run_state_machine_as_test(
        ParkingMachine, settings=settings(max_examples=2 * EXAMPLES, stateful_step_count=30, deadline=None)
    )


def test_routed_after_a_reconnect() -> None:
    """FC-20, FC-21: the id of a PUBLISH of an earlier connection is known once it is routed, and does not count."""
    peer = Peer(Limits(receive_maximum=1), 5)
    inbound = peer.session.inbound
    parked = from_client(1, 2)
    assert inbound.accept(parked)
    inbound.park(parked)
    earlier = inbound.connection
    peer.disconnect()
    peer.connect(5)
    assert not inbound.unpark(parked, earlier, 0, peer.now)
    inbound.answer_late(parked, True, False, peer.now)
    assert inbound.accept(from_client(2, 1))
    assert answers(peer.send(from_client(1, 2, dup=True))) == [pubrec(1)]
    with pytest.raises(MQTTError):
        inbound.accept(from_client(3, 1))


def test_resent_counts_once() -> None:
    """FC-20, FC-25: a parked QoS 2 PUBLISH that is resent on a new connection uses one of its Receive Maximum there."""
    peer = Peer(Limits(receive_maximum=2), 5)
    inbound = peer.session.inbound
    parked = from_client(1, 2)
    assert inbound.accept(parked)
    inbound.park(parked)
    earlier = inbound.connection
    peer.disconnect()
    peer.connect(5)
    for _ in range(2):
        assert not inbound.accept(from_client(1, 2, dup=True))
    second = from_client(2, 1)
    assert inbound.accept(second)
    inbound.park(second)
    with pytest.raises(MQTTError) as failed:
        inbound.accept(from_client(3, 1))
    assert failed.value.reason_code == reason_codes.RECEIVE_MAXIMUM_EXCEEDED
    assert inbound.unpark(parked, earlier, 0, peer.now)
    assert inbound.accept(from_client(3, 1))


def test_parked_and_paged_are_told_apart() -> None:
    """FC-25, FC-26: what is parked and what is paged have a count each; only what is parked waits."""
    peer = Peer()
    inbound = peer.session.inbound
    for number, paged in enumerate((True, True, False), 1):
        publish = from_client(number, 1)
        assert inbound.accept(publish)
        if paged:
            peer.session.counters.begin_uncommon().publish_paged += 1
            inbound.answer(publish, True, peer.now)
        else:
            inbound.park(publish)
            inbound.unpark(publish, inbound.connection, 7, peer.now)

    uncommon = peer.take_counters().uncommon
    assert (uncommon.publish_parked, uncommon.publish_paged, uncommon.publish_parked_us) == (1, 2, 7)
