"""FC-21 and FC-22: what a client sends is acknowledged, at QoS 2 routed once, and remembered within bounds."""

import pytest

from protocol import packet_types, reason_codes
from session.limits import NEVER, Limits
from tests.support_session.inbound import answers, from_client, puback, pubcomp, pubrec
from tests.support_session.messages import SECOND, texts
from tests.support_session.peer import Peer

# -- FC-21


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("dup", [False, True])
def test_qos1_is_routed_and_acknowledged(version: int, dup: bool) -> None:
    """FC-21: each accepted QoS 1 PUBLISH is routed and acknowledged, DUP or not, though the packet id is the same."""
    peer = Peer(version=version)

    sent = peer.send(from_client(7, 1, "a"), from_client(7, 1, "b", dup=dup))

    assert answers(sent) == [puback(7), puback(7)]
    assert texts(peer.routed) == ["a", "b"]


def test_qos0_is_routed_without_an_answer() -> None:
    """FC-21: QoS 0 has no acknowledgement."""
    peer = Peer()

    assert peer.send(from_client(0, 0)) == []
    assert len(peer.routed) == 1


@pytest.mark.parametrize("version", [4, 5])
def test_qos2_is_routed_once(version: int) -> None:
    """FC-21: from PUBLISH to PUBREL a packet id is remembered: answered with PUBREC, not routed again."""
    peer = Peer(version=version)

    sent = peer.send(from_client(7, 2, "a"), from_client(7, 2, "a", dup=True), from_client(8, 2, "b"))

    assert answers(sent) == [pubrec(7), pubrec(7), pubrec(8)]
    assert texts(peer.routed) == ["a", "b"]
    assert peer.take_counters().awaiting_rel_len == 2


def test_pubrel_forgets_the_id() -> None:
    """FC-21: after PUBREL the packet id stands for a new message, DUP or not."""
    peer = Peer()
    peer.send(from_client(7, 2, "a"))

    assert answers(peer.pubrel(7)) == [pubcomp(7)]
    peer.send(from_client(7, 2, "b", dup=True))

    assert texts(peer.routed) == ["a", "b"]


@pytest.mark.parametrize(
    ("version", "reason_code"), [(4, reason_codes.SUCCESS), (5, reason_codes.PACKET_IDENTIFIER_NOT_FOUND)]
)
def test_unknown_pubrel_is_answered(version: int, reason_code: int) -> None:
    """FC-21: PUBREL is always answered, with 0x92 in MQTT 5 if the id is unknown."""
    peer = Peer(version=version)

    assert answers(peer.pubrel(9)) == [pubcomp(9, reason_code)]
    peer.send(from_client(9, 2))
    assert answers(peer.pubrel(9) + peer.pubrel(9)) == [pubcomp(9), pubcomp(9, reason_code)]


def test_qos2_ids_outlive_the_connection() -> None:
    """FC-21: a QoS 2 PUBLISH that is resent after a reconnect is not routed again."""
    peer = Peer()
    peer.send(from_client(7, 2))
    peer.disconnect()
    peer.connect()

    assert answers(peer.send(from_client(7, 2, dup=True))) == [pubrec(7)]
    assert len(peer.routed) == 1
    assert answers(peer.pubrel(7)) == [pubcomp(7)]


@pytest.mark.parametrize(("version", "reason_code"), [(4, 0), (5, reason_codes.NO_MATCHING_SUBSCRIBERS)])
def test_nobody_subscribed(version: int, reason_code: int) -> None:
    """FC-21: what nobody is subscribed to is acknowledged all the same; MQTT 5 clients are told."""
    peer = Peer(version=version)

    sent = peer.send(from_client(1, 1), from_client(2, 2), from_client(0, 0), matched=False)

    assert answers(sent) == [puback(1, reason_code), pubrec(2, reason_code)]


@pytest.mark.parametrize(("version", "reason_code"), [(4, 0), (5, reason_codes.PACKET_IDENTIFIER_NOT_FOUND)])
def test_unknown_pubrec_is_answered(version: int, reason_code: int) -> None:
    """FC-21: a PUBREC for an unknown packet id gets a PUBREL, with 0x92 in MQTT 5, so that the client can let go."""
    peer = Peer(version=version)

    assert answers(peer.pubrec(9)) == [(packet_types.PUBREL, 9, reason_code)]
    if version == 5:
        assert peer.pubrec(9, 0x80) == []


# -- FC-22


def test_awaiting_rel_default() -> None:
    """FC-22: without configuration a session remembers 100 packet ids, in 3.1.1 too."""
    peer = Peer()

    sent = answers(peer.send(*[from_client(n, 2) for n in range(1, 105)]))

    assert sent == [pubrec(n) for n in range(1, 101)]
    assert peer.take_counters().awaiting_rel_refused == 4


def test_refused_in_311() -> None:
    """FC-22: past max_awaiting_rel a 3.1.1 QoS 2 PUBLISH is neither routed nor acknowledged, and counted."""
    peer = Peer(Limits(max_awaiting_rel=1))
    peer.send(from_client(1, 2))

    assert peer.send(from_client(2, 2)) == []
    assert len(peer.routed) == 1
    counters = peer.take_counters()
    assert counters.awaiting_rel_refused == 1
    assert counters.received_qos2 == 1
    peer.pubrel(1)
    assert answers(peer.send(from_client(2, 2, dup=True))) == [pubrec(2)]


def test_refused_in_mqtt5() -> None:
    """FC-22: past max_awaiting_rel an MQTT 5 QoS 2 PUBLISH is answered with PUBREC 0x97, not routed, and counted."""
    peer = Peer(Limits(max_awaiting_rel=1), 5)

    sent = answers(peer.send(from_client(1, 2), from_client(2, 2)))

    assert sent == [pubrec(1), pubrec(2, reason_codes.QUOTA_EXCEEDED)]
    assert len(peer.routed) == 1
    assert peer.take_counters().awaiting_rel_refused == 1
    assert answers(peer.pubrel(2)) == [pubcomp(2, reason_codes.PACKET_IDENTIFIER_NOT_FOUND)]


@pytest.mark.parametrize("version", [4, 5])
def test_known_ids_pass_the_bound(version: int) -> None:
    """FC-21, FC-22: at the bound, a PUBLISH with a remembered id is still answered, and QoS 0 and 1 are untouched."""
    peer = Peer(Limits(max_awaiting_rel=1), version)
    peer.send(from_client(1, 2))

    assert answers(peer.send(from_client(1, 2, dup=True), from_client(2, 1), from_client(0, 0))) == [
        pubrec(1),
        puback(2),
    ]


def test_no_bound() -> None:
    """FC-22: max_awaiting_rel 0 is none."""
    peer = Peer(Limits(max_awaiting_rel=0))

    assert len(peer.send(*[from_client(n, 2) for n in range(1, 1001)])) == 1000


def test_forgotten_after_the_timeout() -> None:
    """FC-22: an id that has waited await_rel_timeout for PUBREL is forgotten, and counted; not a moment earlier."""
    peer = Peer(version=5)
    peer.send(from_client(1, 2))
    peer.advance(100)
    peer.send(from_client(2, 2))

    peer.advance(199.999999)
    assert peer.take_counters().awaiting_rel_len == 2
    peer.advance(0.000001)
    counters = peer.take_counters()

    assert (counters.awaiting_rel_len, counters.awaiting_rel_expired) == (1, 1)
    assert answers(peer.pubrel(1)) == [pubcomp(1, reason_codes.PACKET_IDENTIFIER_NOT_FOUND)]
    peer.advance(100)
    assert peer.take_counters().awaiting_rel_expired == 1


def test_not_forgotten_together() -> None:
    """FC-22: of two ids that came a moment apart, the younger one is forgotten that moment later."""
    peer = Peer()
    peer.send(from_client(1, 2))
    peer.advance(0.000001)
    peer.send(from_client(2, 2))

    peer.advance(299.999999)
    assert peer.take_counters().awaiting_rel_expired == 1
    peer.advance(0.000001)
    assert peer.take_counters().awaiting_rel_expired == 1


def test_released_ids_do_not_expire() -> None:
    """FC-22: an id that was released in time is not counted; one that came again waits from then on."""
    peer = Peer(Limits(await_rel_timeout=10 * SECOND))
    peer.send(from_client(1, 2))
    peer.advance(5)
    peer.pubrel(1)
    peer.send(from_client(1, 2))

    peer.advance(9)
    assert peer.take_counters().awaiting_rel_expired == 0
    peer.advance(1)
    assert peer.take_counters().awaiting_rel_expired == 1
    assert peer.outbound.timer_at == 0


def test_answered_again_without_a_new_timeout() -> None:
    """FC-22: a PUBLISH that comes again does not make its id wait longer."""
    peer = Peer(Limits(await_rel_timeout=10 * SECOND))
    peer.send(from_client(1, 2))
    peer.advance(9)
    peer.send(from_client(1, 2, dup=True))

    peer.advance(1)

    assert peer.take_counters().awaiting_rel_expired == 1


def test_forgotten_while_offline() -> None:
    """FC-22: the timeout runs while the client is away."""
    peer = Peer(Limits(await_rel_timeout=10 * SECOND))
    peer.send(from_client(1, 2))
    peer.disconnect()
    peer.advance(10)

    assert peer.take_counters().awaiting_rel_expired == 1
    peer.connect()
    peer.send(from_client(1, 2, dup=True))
    assert len(peer.routed) == 2


def test_never_forgotten_with_infinity() -> None:
    """FC-22: with await_rel_timeout `infinity` nothing is forgotten and no timer is asked for."""
    peer = Peer(Limits(await_rel_timeout=NEVER))
    peer.send(from_client(1, 2))

    peer.advance(10_000_000)

    assert peer.host.arms == []
    assert peer.take_counters().awaiting_rel_len == 1


def test_received_is_counted_by_qos() -> None:
    """What is accepted is counted by QoS and payload bytes; a QoS 2 that comes again is not."""
    peer = Peer()

    peer.send(
        from_client(0, 0, "abc"), from_client(1, 1, "de"), from_client(2, 2, "f"), from_client(2, 2, "f", dup=True)
    )
    counters = peer.take_counters()

    assert (counters.received_qos0, counters.received_qos1, counters.received_qos2) == (1, 1, 1)
    assert counters.received_bytes == 6
