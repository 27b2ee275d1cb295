"""FC-1: how many deliveries the window holds, and what frees a slot."""

import pytest

from protocol import packet_types
from protocol.errors import ProtocolError
from session.limits import PACKET_IDS, Limits
from session.sender import Sender
from session.window import DONE, WAIT_PUBACK, WAIT_PUBCOMP, WAIT_PUBREC, Window
from tests.support.session.messages import message, publishes, resent, texts
from tests.support.session.peer import Peer

OK, REFUSED, HIGHEST_SUCCESS = 0x00, 0x80, 0x7F


@pytest.mark.parametrize("qos", [1, 2])
def test_default_is_32(qos: int) -> None:
    """FC-1: without configuration the window holds 32 deliveries; the rest waits."""
    peer = Peer()

    assert peer.deliver(*range(40), qos=qos) == [str(n) for n in range(32)]
    assert peer.waiting() == [str(n) for n in range(32, 40)]


@pytest.mark.parametrize(
    ("version", "max_inflight", "receive_maximum", "sent"),
    [(5, 4, 2, 2), (5, 2, 4, 2), (5, 4, 0, 4), (4, 4, 0, 4), (5, 0, 3, 3)],
)
def test_smaller_side_decides(version: int, max_inflight: int, receive_maximum: int, sent: int) -> None:
    """FC-1: W = min(max_inflight, Receive Maximum) in MQTT 5, and max_inflight in 3.1.1."""
    peer = Peer(Limits(max_inflight=max_inflight), version, receive_maximum=receive_maximum)

    assert len(peer.deliver(*range(6), qos=1)) == sent
    assert peer.take_counters().uncommon.window_limit == sent


def test_no_limit_ends_at_the_packet_ids() -> None:
    """FC-1: with max_inflight 0 the 65,535 packet ids bound the window, each used once [MQTT-2.2.1-3]."""
    peer = Peer(Limits(max_inflight=0, max_mqueue_len=0))
    shared = message("m", 1, now=peer.now)

    peer.route(*[shared] * (PACKET_IDS + 3))
    sent = publishes(peer.run())

    assert [publish.packet_id for publish in sent] == list(range(1, PACKET_IDS + 1))
    assert len(peer.waiting()) == 3
    assert [p.packet_id for p in publishes(peer.puback(700))] == [700]  # the only one that is free


def test_qos0_takes_no_place() -> None:
    """FC-1: QoS 0 takes no slot."""
    peer = Peer(Limits(max_inflight=2))

    peer.deliver(*range(5), qos=0)

    assert peer.window_ids() == []
    assert peer.deliver("a", "b", qos=1) == ["a", "b"]


def test_puback_gives_the_place_back() -> None:
    """FC-1: PUBACK frees a slot, and the next delivery is sent."""
    peer = Peer(Limits(max_inflight=1))
    peer.deliver("a", "b", qos=1)

    assert texts(peer.puback(1)) == ["b"]


def test_refusing_puback_gives_the_place_back() -> None:
    """FC-1: a PUBACK with a reason of 0x80 or above frees its slot too."""
    peer = Peer(Limits(max_inflight=1), 5)
    peer.deliver("a", "b", qos=1)

    assert texts(peer.puback(1, reason_code=REFUSED)) == ["b"]


def test_pubcomp_gives_the_place_back() -> None:
    """FC-1: at QoS 2 PUBREC gets PUBREL and keeps the slot; PUBCOMP frees it."""
    peer = Peer(Limits(max_inflight=1))
    peer.deliver("a", "b", qos=2)

    assert resent(peer.pubrec(1)) == [("rel", 1, "")]
    assert peer.waiting() == ["b"]
    assert texts(peer.pubcomp(1)) == ["b"]


@pytest.mark.parametrize(("reason_code", "freed"), [(REFUSED, True), (0x97, True), (HIGHEST_SUCCESS, False)])
def test_refusing_pubrec_gives_the_place_back(reason_code: int, freed: bool) -> None:
    """FC-1: a PUBREC of 0x80 or above frees the slot, without PUBREL; one below does not."""
    peer = Peer(Limits(max_inflight=1), 5)
    peer.deliver("a", "b", qos=2)

    sent = resent(peer.pubrec(1, reason_code))

    assert sent == ([("new", 2, "b")] if freed else [("rel", 1, "")])


@pytest.mark.parametrize(
    ("qos", "packet_type"),
    [(1, packet_types.PUBACK), (2, packet_types.PUBACK), (2, packet_types.PUBREC), (2, packet_types.PUBCOMP)],
)
@pytest.mark.parametrize("reason_code", [OK, REFUSED])
def test_unknown_acknowledgement_gives_nothing_back(qos: int, packet_type: int, reason_code: int) -> None:
    """FC-1: an acknowledgement for an unknown packet id frees no slot."""
    peer = Peer(Limits(max_inflight=1), 5)
    peer.deliver("a", "b", qos=qos)

    sent = peer.acknowledge(packet_type, 9, reason_code)

    assert texts(sent) == []
    assert peer.window_ids() == [1]
    counters = peer.take_counters()
    assert counters.acknowledged_qos1 == counters.acknowledged_qos2 == 0


@pytest.mark.parametrize(
    ("qos", "released", "packet_type", "message"),
    [
        (1, False, packet_types.PUBREC, "PUBREC for packet identifier 1, a delivery of QoS 1; PUBACK was expected"),
        (1, False, packet_types.PUBCOMP, "PUBCOMP for packet identifier 1, a delivery of QoS 1; PUBACK was expected"),
        (2, False, packet_types.PUBACK, "PUBACK for packet identifier 1, a delivery of QoS 2; PUBREC was expected"),
        (2, False, packet_types.PUBCOMP, "PUBCOMP for packet identifier 1, a delivery of QoS 2; PUBREC was expected"),
        (2, True, packet_types.PUBACK, "PUBACK for packet identifier 1, a delivery of QoS 2; PUBCOMP was expected"),
    ],
)
@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("reason_code", [OK, REFUSED])
def test_wrong_acknowledgement_is_an_error(
    qos: int, released: bool, packet_type: int, message: str, version: int, reason_code: int
) -> None:
    """FC-21: an acknowledgement of the wrong kind is a protocol error, and frees no slot."""
    peer = Peer(Limits(max_inflight=1), version)
    peer.deliver("a", "b", qos=qos)
    if released:
        peer.pubrec(1)

    with pytest.raises(ProtocolError, match=f"^{message}$"):
        peer.acknowledge(packet_type, 1, reason_code)
    assert peer.window_ids() == [1]
    counters = peer.take_counters()
    assert counters.acknowledged_qos1 == counters.acknowledged_qos2 == 0


def test_second_pubrec_brings_pubrel_again() -> None:
    """FC-21: a second PUBREC, as after a resent PUBLISH, gets PUBREL again."""
    peer = Peer()
    peer.deliver("a", qos=2)

    assert resent(peer.pubrec(1) + peer.pubrec(1)) == [("rel", 1, ""), ("rel", 1, "")]
    assert peer.window_ids() == [1]
    peer.pubcomp(1)
    assert peer.window_ids() == []


def test_ids_in_use_are_skipped() -> None:
    """FC-1: after the last packet id the search begins anew and passes over those in flight [MQTT-2.2.1-3]."""
    window = Window()
    kept = message("kept", 1)
    assert [window.add(kept, 0) for _ in range(3)] == [1, 2, 3]
    for expected in range(4, PACKET_IDS + 1):
        assert window.add(kept, 0) == expected
        window.remove(expected, window.entries[expected], 0)
    window.remove(2, window.entries[2], 0)

    assert window.add(kept, 0) == 2
    assert window.add(kept, 0) == 4


@pytest.mark.parametrize(
    ("phase", "packet_type", "following"),
    [
        (WAIT_PUBACK, packet_types.PUBACK, DONE),
        (WAIT_PUBREC, packet_types.PUBREC, WAIT_PUBCOMP),
        (WAIT_PUBCOMP, packet_types.PUBREC, WAIT_PUBCOMP),
        (WAIT_PUBCOMP, packet_types.PUBCOMP, DONE),
    ],
)
def test_moves(phase: int, packet_type: int, following: int) -> None:
    """FC-1, FC-21: these four transitions are the only ones; any other acknowledgement is unexpected."""
    for other in (packet_types.PUBACK, packet_types.PUBREC, packet_types.PUBCOMP):
        allowed = other == packet_type or (
            phase == WAIT_PUBCOMP and other in (packet_types.PUBREC, packet_types.PUBCOMP)
        )
        if not allowed:
            sender = _sender_with(phase)
            with pytest.raises(ProtocolError):
                sender.acknowledge(other, 1, 0, 0)
            assert sender.window.entries[1].phase == phase
    sender = _sender_with(phase)
    sender.acknowledge(packet_type, 1, 0, 0)
    assert [inflight.phase for inflight in sender.window.entries.values()] == ([following] if following else [])


def _sender_with(phase: int) -> Sender:
    """One whose window has one delivery, in this phase."""
    sender = Peer().session.sender
    packet_id = sender.window.add(message("a", 1 if phase == WAIT_PUBACK else 2), 0)
    sender.window.entries[packet_id].phase = phase
    return sender
