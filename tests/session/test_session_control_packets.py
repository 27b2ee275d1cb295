"""FC-15: no limit on data ever drops or delays a control packet, and an inflight message is never dropped."""

import pytest

from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.ping import Pingresp
from protocol.publish import Publish
from session.limits import Limits
from session.outbox import PUBACK_HEAD
from session.sender import PASS_BYTES
from tests.support.session.inbound import from_client
from tests.support.session.peer import Peer

PINGRESP = b"\xd0\x00"


def stuck_peer() -> Peer:
    """A peer to which no data may be sent at all: window full, send path congested, mqueue overflowing."""
    peer = Peer(Limits(max_inflight=1, max_mqueue_len=1, max_mqueue_bytes=10, max_awaiting_rel=2))
    peer.deliver("sent", "dropped", "waits", qos=2)
    peer.pause()
    return peer


def test_control_packets_pass_a_stuck_session() -> None:
    """FC-15: PINGRESP and acknowledgements are sent though no delivery may be."""
    peer = stuck_peer()

    peer.outbound.sender.outbox.add_packet(PINGRESP)
    sent = peer.flush()
    sent += peer.send(from_client(1, 1), from_client(2, 2))
    sent += peer.pubrel(2)

    assert [type(packet) for packet in sent] == [Pingresp, Puback, Pubrec, Pubcomp]


def test_pubrel_passes_a_stuck_session() -> None:
    """FC-15: PUBREC is answered with PUBREL at once, congested or not."""
    peer = stuck_peer()

    assert [type(packet) for packet in peer.pubrec(1)] == [Pubrel]


def test_control_packets_are_not_delayed_by_a_full_pass() -> None:
    """FC-15: a pass that has reached its bytes holds back deliveries only."""
    peer = Peer()
    peer.publish(*range(10), qos=0, size=PASS_BYTES)
    peer.outbound.run_pass(peer.now)
    peer.outbound.sender.outbox.add_packet(PINGRESP)

    sent = peer.flush()

    assert [type(packet) for packet in sent] == [Publish, Pingresp]


def test_control_packets_take_no_bytes_from_data() -> None:
    """FC-15: control packets do not count towards a pass's bytes."""
    peer = Peer()
    peer.outbound.sender.outbox.add_packet(b"\x90\x03\x00\x01\x00" * PASS_BYTES)
    peer.outbound.sender.outbox.add_acknowledgement(PUBACK_HEAD, 1)

    assert peer.outbound.sender.outbox.delivery_bytes == 0


def test_order_of_control_packets_and_deliveries() -> None:
    """FC-15: packets are sent in the order in which they were written."""
    peer = Peer()
    peer.publish("a", qos=0)
    peer.outbound.run_pass(peer.now)
    peer.outbound.sender.outbox.add_packet(PINGRESP)
    peer.publish("b", qos=0)
    peer.outbound.run_pass(peer.now)

    assert [type(packet) for packet in peer.flush()] == [Publish, Pingresp, Publish]


@pytest.mark.parametrize("policy", ["drop_oldest", "drop_oldest_qos0", "drop_newest"])
@pytest.mark.parametrize("online", [True, False])
def test_inflight_is_never_dropped(policy: str, online: bool) -> None:
    """FC-15: no overflow drops a delivery in the window, by length or bytes, online or offline."""
    peer = Peer(Limits(max_inflight=2, max_mqueue_len=2, max_mqueue_bytes=50, mqueue_overflow=policy))
    peer.deliver("a", qos=1)
    peer.deliver("b", qos=2)
    if not online:
        peer.disconnect()
    peer.pause()

    peer.publish(*range(50), qos=1, size=20)
    peer.publish(*range(50), qos=0, size=60)
    if online:
        peer.run()

    assert peer.window_ids() == [1, 2]
    assert peer.take_counters().uncommon.dropped_qos2 == 0
    peer.disconnect()
    assert [packet.packet_id for packet in peer.connect()[:2] if isinstance(packet, Publish)] == [1, 2]
