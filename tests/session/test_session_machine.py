"""Anything that can happen to a session, in any order: counters, bounds and order hold."""

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from protocol import packet_types
from protocol.errors import ProtocolError
from protocol.packet import Packet
from session.limits import DROP_NEWEST, DROP_OLDEST, DROP_OLDEST_QOS0, PACKET_IDS, Limits
from tests.conftest import EXAMPLES
from tests.support.session.books import Books
from tests.support.session.client import FAILED, Client
from tests.support.session.messages import SECOND, message, text_of
from tests.support.session.peer import Peer

QOS = st.integers(0, 2)
SIZES = st.sampled_from([4, 4, 20, 70, 40_000])
EXPIRIES = st.sampled_from([0, 0, 0, 1, 4])
BATCHES = st.lists(st.tuples(QOS, SIZES, EXPIRIES, st.sampled_from([0, 0, 0, 1])), min_size=1, max_size=12)
VERSIONS = st.sampled_from([4, 5])
RECEIVE_MAXIMA = st.sampled_from([0, 1, 2, 5])
PACKET_SIZES = st.sampled_from([0, 0, 0, 50])
LIMITS = st.fixed_dictionaries(
    {
        "max_inflight": st.sampled_from([0, 1, 2, 4, 8]),
        "max_mqueue_len": st.sampled_from([0, 2, 5, 50]),
        "max_mqueue_bytes": st.sampled_from([0, 0, 0, 60]),
        "mqueue_overflow": st.sampled_from([DROP_OLDEST, DROP_OLDEST_QOS0, DROP_NEWEST]),
        "mqueue_store_qos0": st.booleans(),
        "retry_interval": st.sampled_from([0, 3 * SECOND]),
    }
)
ACKNOWLEDGEMENTS = st.sampled_from([packet_types.PUBACK, packet_types.PUBREC, packet_types.PUBCOMP])
REASON_CODES = st.sampled_from([0, 0, 0, 0x10, FAILED, 0x97])


class SessionMachine(RuleBasedStateMachine):
    """One session: the router, the connection, the client and the clock each do as they please."""

    def __init__(self) -> None:
        super().__init__()
        self.books = Books()
        self.client = Client(self.books)
        self.count = 0
        self.ended = False

    @initialize(limits=LIMITS)
    def begin(self, limits: dict[str, Any]) -> None:
        """Create the session; no client is there yet."""
        self.limits = Limits(**limits)
        self.peer = Peer(self.limits, online=False)
        self.window = 0

    def online(self) -> bool:
        """Whether a client is connected."""
        return self.peer.outbound.sender.connected

    # -- the router

    def route(self, qos: int, size: int, expiry: int, topic: int) -> None:
        """Hand one message over."""
        text = str(self.count)
        self.count += 1
        publish = message(text, qos, f"t/{topic}", size=size, expiry=expiry, now=self.peer.now)
        self.client.expect(text, publish)
        self.peer.route(publish)

    @precondition(lambda self: not self.ended)
    @rule(batch=BATCHES)
    def publish(self, batch: list[tuple[int, int, int, int]]) -> None:
        """Messages of any kind are handed over."""
        for qos, size, expiry, topic in batch:
            self.route(qos, size, expiry, topic)

    @precondition(online)
    @rule(batch=BATCHES)
    def deliver(self, batch: list[tuple[int, int, int, int]]) -> None:
        """Messages of any kind are handed over, and the session makes passes until it has nothing to do."""
        self.publish(batch)
        self.run()

    @precondition(lambda self: not self.ended)
    @rule(count=st.sampled_from([90, 115, 230]), qos=QOS)
    def burst(self, count: int, qos: int) -> None:
        """More messages are handed over than one pass takes."""
        for _ in range(count):
            self.route(qos, 4, 0, 0)

    # -- the connection

    @precondition(online)
    @rule()
    def run_pass(self) -> None:
        """The session makes one pass."""
        self.client.receive(self.peer.run_pass(), self.peer.now)

    @precondition(online)
    @rule()
    def run(self) -> None:
        """The session makes passes until it has nothing to do."""
        self.settle(self.peer.run())

    @precondition(online)
    @rule()
    def pause(self) -> None:
        """The transport's buffer is full."""
        self.peer.pause()

    @precondition(online)
    @rule()
    def resume(self) -> None:
        """The transport's buffer has emptied."""
        self.settle(self.peer.resume())

    @precondition(lambda self: not (self.ended or self.online()))
    @rule(version=VERSIONS, receive_maximum=RECEIVE_MAXIMA, maximum_packet_size=PACKET_SIZES)
    def connect(self, version: int, receive_maximum: int, maximum_packet_size: int) -> None:
        """The client comes back, in this version or that, with other limits of its own."""
        if version == 4:
            receive_maximum = maximum_packet_size = 0
        self.client.connect(version, receive_maximum, maximum_packet_size)
        self.window = min(self.limits.max_inflight or PACKET_IDS, receive_maximum or PACKET_IDS)
        sent = self.peer.connect(version, receive_maximum=receive_maximum, maximum_packet_size=maximum_packet_size)
        if self.peer.session.sender.kept is not None:
            sent += self.peer.run()  # FC-38: the connection wakes the session, which goes on in passes
        self.client.receive(sent, self.peer.now)

    @precondition(online)
    @rule()
    def disconnect(self) -> None:
        """The connection breaks."""
        self.peer.disconnect()

    @precondition(online)
    @rule(version=VERSIONS, receive_maximum=RECEIVE_MAXIMA, maximum_packet_size=PACKET_SIZES)
    def reconnect(self, version: int, receive_maximum: int, maximum_packet_size: int) -> None:
        """The connection breaks and the client is back at once."""
        self.disconnect()
        self.connect(version, receive_maximum, maximum_packet_size)

    # -- the client

    def acknowledge(self, packet_type: int, packet_id: int, reason_code: int) -> None:
        """Send one acknowledgement, whatever it is good for."""
        self.client.forget(self.peer.window_ids())
        received = self.client.inflight.get(packet_id)
        if received is not None and not received.takes(packet_type):
            with pytest.raises(ProtocolError):  # [MQTT-4.13.1-1]: the connection closes
                self.peer.acknowledge(packet_type, packet_id, reason_code)
            self.disconnect()
            return
        wants_pubrel = packet_type == packet_types.PUBREC and reason_code < FAILED
        if received is not None and received.publish.qos != 2:
            wants_pubrel = False
        self.client.acknowledge(packet_type, packet_id, reason_code)
        sent = self.peer.acknowledge(packet_type, packet_id, reason_code)
        self.client.receive(sent, self.peer.now, packet_id if wants_pubrel else 0)

    @precondition(lambda self: self.online() and self.client.out)
    @rule(data=st.data(), reason_code=REASON_CODES)
    def acknowledge_rightly(self, data: st.DataObject, reason_code: int) -> None:
        """The client acknowledges what it has, in any order."""
        packet_id = data.draw(st.sampled_from(sorted(self.client.out)))
        received = self.client.inflight[packet_id]
        packet_type = packet_types.PUBACK
        if received.publish.qos == 2:
            packet_type = packet_types.PUBCOMP if received.released else packet_types.PUBREC
        self.acknowledge(packet_type, packet_id, reason_code)

    @precondition(lambda self: self.online() and self.client.out)
    @rule()
    def acknowledge_all(self) -> None:
        """The client catches up with all that is out now."""
        for packet_id in sorted(self.client.out):
            for packet_type in (packet_types.PUBACK, packet_types.PUBREC, packet_types.PUBCOMP):
                received = self.client.inflight.get(packet_id)
                if received is not None and received.takes(packet_type):
                    self.acknowledge(packet_type, packet_id, 0)

    @precondition(online)
    @rule(data=st.data(), packet_type=ACKNOWLEDGEMENTS, reason_code=REASON_CODES)
    def acknowledge_wrongly(self, data: st.DataObject, packet_type: int, reason_code: int) -> None:
        """The client acknowledges what it has, has had, or never got, in the wrong way perhaps."""
        packet_id = data.draw(st.sampled_from([*sorted(self.client.inflight), 1, 2, PACKET_IDS]))
        self.acknowledge(packet_type, packet_id, reason_code)

    # -- time and the books

    @rule(seconds=st.sampled_from([0.000001, 0.5, 1, 2.9, 3, 10]))
    def wait(self, seconds: float) -> None:
        """Time passes, and with it timers."""
        end = self.peer.now + int(seconds * SECOND)
        while self.peer.now < end:
            due = self.peer.outbound.sender.timer_at
            step = min(due, end) if due > self.peer.now else end
            self.client.receive(self.peer.advance((step - self.peer.now) / SECOND), self.peer.now)

    @rule()
    def take_counters(self) -> None:
        """The metrics interval ends."""
        self.books.close_interval(self.peer.take_counters())

    @precondition(lambda self: not self.ended)
    @rule(rarely=st.sampled_from([False] * 7 + [True]))
    def end(self, rarely: bool) -> None:
        """The session ends: nothing waits afterwards."""
        if rarely:
            self.ended = True
            self.peer.outbound.end(self.peer.now)
            assert self.peer.waiting() == []
            self.take_counters()

    # -- what always holds

    def settle(self, sent: list[Packet]) -> None:
        """After the last pass: what still waits may not go (FC-4, FC-6)."""
        self.client.receive(sent, self.peer.now)
        outbound = self.peer.outbound
        assert outbound.mailbox.length() == 0
        mqueue = outbound.mqueue
        head = None if mqueue is None else mqueue.head()
        if head is not None:
            if head.qos == 0:
                held_back = len(outbound.sender.window.entries) > self.window  # of the kept window (FC-8)
                assert outbound.sender.congested or held_back
            else:
                assert len(outbound.sender.window.entries) >= self.window

    @invariant()
    def books_hold(self) -> None:
        """offered = sent + dropped + waiting."""
        if hasattr(self, "peer"):
            self.books.check(self.peer.outbound)

    @invariant()
    def nothing_is_overtaken(self) -> None:
        """FC-2 to FC-4: what waits is younger than all that has been sent, QoS 0 apart from QoS 1 and 2."""
        mqueue = self.peer.outbound.mqueue if hasattr(self, "peer") else None
        oldest = [self.count, self.count]
        for publish in mqueue if mqueue is not None else ():
            together = min(publish.qos, 1)
            oldest[together] = min(oldest[together], int(text_of(publish)))
        assert oldest[0] > self.client.newest[0]
        assert oldest[1] > self.client.newest[1]

    @invariant()
    def bounds_hold(self) -> None:
        """FC-1 and FC-5: the window, and both limits of the mqueue."""
        if not hasattr(self, "peer"):
            return
        mqueue = self.peer.outbound.mqueue
        if mqueue is not None:
            assert not self.limits.max_mqueue_len or len(mqueue) <= self.limits.max_mqueue_len
            assert not self.limits.max_mqueue_bytes or mqueue.bytes <= self.limits.max_mqueue_bytes
            assert mqueue.bytes == sum(publish.size for publish in mqueue)
        self.client.forget(self.peer.window_ids())
        if self.online():
            assert len(self.client.out) <= self.window
            held_back = len(self.client.to_resend)
            resent = len(self.client.inflight) - len(self.client.let_go) - held_back
            assert not held_back or resent >= self.window
        assert sorted(self.peer.window_ids()) == ([] if self.ended else sorted(self.client.inflight))


@pytest.mark.timeout(600)  # a failure takes its time to be made small
def test_anything_may_happen() -> None:
    """FC-1 to FC-9: counters, bounds, order, packet ids and resends hold after any events of a session."""
    run_state_machine_as_test(
        SessionMachine,
        settings=settings(
            max_examples=2 * EXAMPLES,
            stateful_step_count=50,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )
