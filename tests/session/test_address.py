"""FC-24: the size of an address is what all its sessions hold of it, whatever happens to them."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from protocol import packet_types
from protocol.errors import ProtocolError
from protocol.publish import Publish
from protocol.publish_encoder import encode_identifiers
from session.address import Address, AddressRule
from session.cost import cost
from session.limits import DROP_NEWEST, DROP_OLDEST, DROP_OLDEST_QOS0, Limits
from session.priorities import Priorities
from tests.conftest import EXAMPLES
from tests.support.session.host import Noting
from tests.support.session.messages import message
from tests.support.session.peer import Peer

TOPICS = ("a", "b")
LIMITS = st.fixed_dictionaries(
    {
        "max_inflight": st.integers(1, 3),
        "max_mqueue_len": st.sampled_from([0, 2, 5]),
        "max_mqueue_bytes": st.sampled_from([0, 60]),
        "mqueue_overflow": st.sampled_from([DROP_OLDEST, DROP_OLDEST_QOS0, DROP_NEWEST]),
        "mqueue_store_qos0": st.booleans(),
        "priorities": st.sampled_from([None, Priorities([("a", 3)])]),
    }
)
DELIVERIES = st.lists(
    st.tuples(
        st.sampled_from(TOPICS),
        st.integers(0, 2),
        st.sampled_from([4, 20, 100]),
        st.sampled_from([0, 0, 1]),
        st.sampled_from([b"", encode_identifiers([7])]),
    ),
    min_size=1,
    max_size=8,
)
CODES = st.sampled_from([0, 0x80])
ACKNOWLEDGEMENTS = st.sampled_from([packet_types.PUBACK, packet_types.PUBREC, packet_types.PUBCOMP])


def address_of(size: int = 0, limit: int = 100) -> Address:
    """An address of which so much is held."""
    address = Address(b"t", AddressRule(limit))
    address.count(size)
    return address


# -- by itself


@pytest.mark.parametrize(
    ("held", "size", "fits"), [(0, 1000, True), (1, 99, True), (1, 100, False), (100, 0, True), (200, 0, True)]
)
def test_takes(held: int, size: int, fits: bool) -> None:
    """FC-24: deliveries fit within the limit, or if there are none, or if they are too large and the only ones."""
    assert address_of(held).fits(size) == fits


@given(st.integers(1, 150), st.lists(st.integers(1, 30), min_size=1, max_size=10))
def test_watched(wanted: int, held: list[int]) -> None:
    """FC-25: an address tells a parked PUBLISH of each release after which it fits, and of no other."""
    address = address_of(sum(held))
    watcher = Noting()
    address.watcher = watcher
    address.watch(wanted)
    for size in held:
        before = watcher.calls
        address.count(-size)
        assert (watcher.calls > before) == address.fits(wanted)


def test_not_watched() -> None:
    """FC-25: an address without parked PUBLISHes tells nobody."""
    address = address_of(10)
    watcher = Noting()
    address.watcher = watcher
    address.count(-10)
    assert watcher.calls == 0


# -- in sessions


def held_by(peer: Peer, address: Address) -> int:
    """What the deliveries of an address cost in a session's mailbox, mqueue and window, looked up one by one."""
    outbound = peer.outbound
    deliveries: list[Publish] = outbound.mailbox.waiting()
    deliveries += [inflight.publish for inflight in outbound.sender.window.entries.values()]
    if outbound.mqueue is not None:
        deliveries += outbound.mqueue
    return sum(cost(publish) for publish in deliveries if publish.holder is address)


def test_waits_for_no_commit() -> None:
    """FC-27: a delivery that no kept session has may be written at once, and PUBREL for it, whatever its address."""
    delivery = message("x", 2)
    delivery.holder = address_of()
    peer = Peer()
    peer.route(delivery)
    peer.outbound.run_pass(peer.now)
    assert peer.session.outbox.commit == 0
    peer.flush()
    peer.session.sender.acknowledge(packet_types.PUBREC, 1, 0, peer.now)
    assert peer.session.outbox.commit == 0


class AddressMachine(RuleBasedStateMachine):
    """Two sessions that get the messages of two addresses, and anything that can happen to them."""

    @initialize(limits=LIMITS)
    def begin(self, limits: dict[str, Any]) -> None:
        """Two sessions, one of them connected."""
        self.addresses = {topic: Address(topic.encode(), AddressRule(100)) for topic in TOPICS}
        self.peers = [Peer(Limits(**limits)), Peer(Limits(**limits), online=False)]
        self.number = 0

    def peer(self, place: int) -> Peer:
        """One of the sessions."""
        return self.peers[place % len(self.peers)]

    @rule(deliveries=DELIVERIES)
    def route(self, deliveries: list[tuple[str, int, int, int, bytes]]) -> None:
        """Messages come for all sessions, each at a QoS of its own."""
        for topic, qos, size, expiry, identifiers in deliveries:
            publish = message(self.number, 2, topic, size=size, expiry=expiry, now=self.peers[0].now)
            publish.holder = self.addresses[topic]
            self.number += 1
            for step, peer in enumerate(self.peers):
                delivery = publish.at((qos + step) % 3, False)
                peer.route(delivery.identified(identifiers) if identifiers else delivery)

    @rule(place=st.integers(0, 1))
    def run_pass(self, place: int) -> None:
        """A session runs one pass."""
        if self.peer(place).outbound.sender.connected:
            self.peer(place).run_pass()

    @rule(place=st.integers(0, 1), packet_type=ACKNOWLEDGEMENTS, number=st.integers(0, 3), code=CODES)
    def acknowledge(self, place: int, packet_type: int, number: int, code: int) -> None:
        """An acknowledgement comes, right or wrong."""
        peer = self.peer(place)
        if peer.outbound.sender.connected:
            ids = [*peer.window_ids(), 999]
            try:
                peer.acknowledge(packet_type, ids[number % len(ids)], code)
            except ProtocolError:  # of the wrong kind: the connection closes
                peer.disconnect()

    @rule(place=st.integers(0, 1), on=st.booleans())
    def congest(self, place: int, on: bool) -> None:
        """The send path is congested, or no longer."""
        peer = self.peer(place)
        if peer.outbound.sender.connected and on:
            peer.pause()
        elif peer.outbound.sender.connected:
            peer.resume()

    @rule(place=st.integers(0, 1), version=st.sampled_from([4, 5]), largest=st.sampled_from([0, 30]))
    def connect_or_not(self, place: int, version: int, largest: int) -> None:
        """The client goes, or comes back, and may take only small packets then."""
        peer = self.peer(place)
        if peer.outbound.sender.connected:
            peer.disconnect()
        else:
            peer.connect(version, maximum_packet_size=largest)

    @rule(seconds=st.sampled_from([0.5, 40]))
    def wait(self, seconds: float) -> None:
        """Time passes: some messages expire, some are resent."""
        for peer in self.peers:
            peer.advance(seconds)

    @rule(place=st.integers(0, 1))
    def end(self, place: int) -> None:
        """A session ends; another one begins, so that there is always somebody."""
        peer = self.peer(place)
        if peer.outbound.sender.connected:
            peer.disconnect()
        peer.outbound.end(peer.now)
        self.peers[place % len(self.peers)] = Peer(peer.session.limits)

    @invariant()
    def sizes_hold(self) -> None:
        """FC-24: the size is what the sessions hold."""
        if hasattr(self, "peers"):
            for address in self.addresses.values():
                assert address.size == sum(held_by(peer, address) for peer in self.peers)

    def teardown(self) -> None:
        """When all sessions have ended, nothing is held."""
        if hasattr(self, "peers"):
            for peer in self.peers:
                peer.disconnect()
                peer.outbound.end(peer.now)
            assert [address.size for address in self.addresses.values()] == [0, 0]


def test_sizes_in_sessions() -> None:
    """FC-24: the size of an address is what the sessions hold of it, whatever they do."""
    run_state_machine_as_test(
        AddressMachine, settings=settings(max_examples=2 * EXAMPLES, stateful_step_count=30, deadline=None)
    )
