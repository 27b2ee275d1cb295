"""FC-21 and FC-22: what a client publishes is acknowledged, routed once at QoS 2, and remembered within bounds."""

import pytest

from protocol import packet_types, reason_codes
from protocol.errors import MQTTError
from session.limits import NEVER, PACKET_IDS, Limits
from tests.support.session.inbound import answers, from_client, puback, pubcomp, pubrec
from tests.support.session.messages import SECOND, texts
from tests.support.session.peer import Peer

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
    """FC-21: QoS 0 is routed and not acknowledged."""
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
    assert peer.take_counters().uncommon.awaiting_rel_len == 2


def test_pubrel_forgets_the_id() -> None:
    """FC-21: after PUBREL the packet id is that of a new message, DUP or not."""
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
    """FC-21: a message without subscribers is acknowledged; MQTT 5 clients get 0x10."""
    peer = Peer(version=version)

    sent = peer.send(from_client(1, 1), from_client(2, 2), from_client(0, 0), matched=False)

    assert answers(sent) == [puback(1, reason_code), pubrec(2, reason_code)]


@pytest.mark.parametrize(("version", "reason_code"), [(4, 0), (5, reason_codes.PACKET_IDENTIFIER_NOT_FOUND)])
def test_unknown_pubrec_is_answered(version: int, reason_code: int) -> None:
    """FC-21: a PUBREC for an unknown packet id gets a PUBREL, with 0x92 in MQTT 5."""
    peer = Peer(version=version)

    assert answers(peer.pubrec(9)) == [(packet_types.PUBREL, 9, reason_code)]
    if version == 5:
        assert peer.pubrec(9, 0x80) == []


# -- FC-22


@pytest.mark.parametrize("version", [4, 5])
def test_awaiting_rel_default(version: int) -> None:
    """FC-20, FC-22: without configuration a client may use every packet id before its first PUBREL."""
    peer = Peer(version=version)

    sent = answers(peer.send(*[from_client(n, 2) for n in range(1, PACKET_IDS + 1)]))

    assert sent == [pubrec(n) for n in range(1, PACKET_IDS + 1)]
    assert peer.take_counters().uncommon.awaiting_rel_refused == 0


@pytest.mark.parametrize("version", [4, 5])
def test_parked_until_an_id_is_free(version: int) -> None:
    """FC-22: PUBLISHes above max_awaiting_rel are parked, and each PUBREL accepts the next one."""
    peer = Peer(Limits(max_awaiting_rel=2), version)

    assert answers(peer.send(*[from_client(n, 2, str(n)) for n in range(1, 7)])) == [pubrec(1), pubrec(2)]
    assert peer.take_counters().received_qos2 == 2
    assert answers(peer.pubrel(1)) == [pubcomp(1), pubrec(3)]
    assert answers(peer.pubrel(2)) == [pubcomp(2), pubrec(4)]
    assert texts(peer.routed) == ["1", "2", "3", "4"]
    counters = peer.take_counters()
    assert (counters.uncommon.awaiting_rel_refused, counters.received_qos2) == (0, 2)
    assert answers(peer.send(from_client(7, 2, "7"))) == []
    for packet_id in range(3, 8):
        peer.pubrel(packet_id)
    assert texts(peer.routed) == ["1", "2", "3", "4", "5", "6", "7"]
    assert not peer.session.inbound.has_waiting()


def test_parked_are_counted() -> None:
    """FC-22: each PUBLISH that has to wait for an id counts, and an episode of them is one line in the log."""
    peer = Peer(Limits(max_awaiting_rel=1))
    for _ in range(2):
        peer.send(*[from_client(n, 2) for n in range(1, 4)])
        assert peer.take_counters().uncommon.awaiting_rel_refused == 2
        for packet_id in (1, 2, 3):
            peer.pubrel(packet_id)

    assert peer.host.reports == ["max_awaiting_rel_reached"] * 2


def test_parked_id_again() -> None:
    """FC-21, FC-22: a parked PUBLISH that is sent again is parked once and answered once."""
    peer = Peer(Limits(max_awaiting_rel=1))
    peer.send(from_client(1, 2), from_client(2, 2), from_client(2, 2, dup=True))

    assert answers(peer.pubrel(1)) == [pubcomp(1), pubrec(2)]
    assert len(peer.routed) == 2


@pytest.mark.parametrize(("version", "code"), [(4, 0), (5, reason_codes.PACKET_IDENTIFIER_NOT_FOUND)])
def test_pubrel_for_a_parked_id(version: int, code: int) -> None:
    """FC-22: a PUBREL before PUBREC is one for an unknown id; the parked message is not lost."""
    peer = Peer(Limits(max_awaiting_rel=1), version)
    peer.send(from_client(1, 2), from_client(2, 2, "kept"))

    assert answers(peer.pubrel(2)) == [pubcomp(2, code)]
    assert answers(peer.pubrel(1)) == [pubcomp(1), pubrec(2)]
    assert texts(peer.routed)[1:] == ["kept"]


def test_parked_ids_use_credit() -> None:
    """FC-20, FC-22: a PUBLISH that waits for an id is unacknowledged."""
    peer = Peer(Limits(max_awaiting_rel=1, receive_maximum=3), 5)
    peer.send(*[from_client(n, 2) for n in (1, 2, 3)])

    with pytest.raises(MQTTError) as error:
        peer.send(from_client(4, 1))
    assert error.value.reason_code == reason_codes.RECEIVE_MAXIMUM_EXCEEDED


@pytest.mark.parametrize(("size", "fit"), [(1, 4), (100, 3), (1000, 1)])
def test_too_much_is_parked(size: int, fit: int) -> None:
    """FC-22: a PUBLISH beyond producer_window_size ends the connection, with a reason."""
    peer = Peer(Limits(max_awaiting_rel=1, producer_window_size=4 * 65))
    packets = [from_client(n, 2, "x" * size) for n in range(1, fit + 3)]
    peer.send(*packets[:-1])

    with pytest.raises(MQTTError, match=r"max_awaiting_rel, 1, .*producer_window_size, 260 bytes") as error:
        peer.send(packets[-1])
    assert error.value.reason_code == reason_codes.QUOTA_EXCEEDED


def test_parked_are_forgotten_with_the_connection() -> None:
    """FC-22: parked PUBLISHes are discarded at a disconnect, and the client sends them again."""
    peer = Peer(Limits(max_awaiting_rel=1))
    peer.send(from_client(1, 2), from_client(2, 2))
    peer.disconnect()
    peer.connect()

    assert answers(peer.pubrel(1)) == [pubcomp(1)]
    assert answers(peer.send(from_client(2, 2, dup=True))) == [pubrec(2)]
    assert len(peer.routed) == 2


def test_ids_that_expire_let_in() -> None:
    """FC-22: an id that is forgotten after await_rel_timeout makes room for a parked PUBLISH."""
    peer = Peer(Limits(max_awaiting_rel=1, await_rel_timeout=10 * SECOND))
    peer.send(from_client(1, 2), from_client(2, 2))

    assert answers(peer.advance(10)) == [pubrec(2)]
    assert answers(peer.advance(10)) == []
    assert len(peer.routed) == 2


def test_refused_at_an_address_lets_in() -> None:
    """FC-22, FC-25: a PUBLISH refused at a full address makes its id free for a parked one."""
    peer = Peer(Limits(max_awaiting_rel=1), 5)
    full = from_client(1, 2)
    assert peer.session.inbound.accept(full)
    peer.session.inbound.park(full)
    peer.send(from_client(2, 2))

    peer.session.inbound.unpark(full, peer.session.inbound.connection, 7, peer.now)
    peer.session.inbound.refuse(full, reason_codes.QUOTA_EXCEEDED)
    peer.end_chunk()

    assert answers(peer.advance(1)) == [pubrec(2)]


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
    """FC-22: max_awaiting_rel 0 is no limit."""
    peer = Peer(Limits(max_awaiting_rel=0))

    assert len(peer.send(*[from_client(n, 2) for n in range(1, 1001)])) == 1000


def test_forgotten_after_the_timeout() -> None:
    """FC-22: an id is forgotten and counted after await_rel_timeout without PUBREL, and not earlier."""
    peer = Peer(version=5)
    peer.send(from_client(1, 2))
    peer.advance(100)
    peer.send(from_client(2, 2))

    peer.advance(199.999999)
    assert peer.take_counters().uncommon.awaiting_rel_len == 2
    peer.advance(0.000001)
    counters = peer.take_counters()

    assert (counters.uncommon.awaiting_rel_len, counters.uncommon.awaiting_rel_expired) == (1, 1)
    assert answers(peer.pubrel(1)) == [pubcomp(1)]  # FC-22a
    peer.advance(100)
    assert peer.take_counters().uncommon.awaiting_rel_expired == 1


def test_not_forgotten_together() -> None:
    """FC-22: each id has its own timeout."""
    peer = Peer()
    peer.send(from_client(1, 2))
    peer.advance(0.000001)
    peer.send(from_client(2, 2))

    peer.advance(299.999999)
    assert peer.take_counters().uncommon.awaiting_rel_expired == 1
    peer.advance(0.000001)
    assert peer.take_counters().uncommon.awaiting_rel_expired == 1


def test_released_ids_do_not_expire() -> None:
    """FC-22: a released id does not time out; used again it has a new timeout."""
    peer = Peer(Limits(await_rel_timeout=10 * SECOND))
    peer.send(from_client(1, 2))
    peer.advance(5)
    peer.pubrel(1)
    peer.send(from_client(1, 2))

    peer.advance(9)
    assert peer.take_counters().uncommon.awaiting_rel_expired == 0
    peer.advance(1)
    assert peer.take_counters().uncommon.awaiting_rel_expired == 1
    assert peer.outbound.sender.timer_at == 0


def test_answered_again_without_a_new_timeout() -> None:
    """FC-22: a PUBLISH that is sent again does not extend the timeout of its id."""
    peer = Peer(Limits(await_rel_timeout=10 * SECOND))
    peer.send(from_client(1, 2))
    peer.advance(9)
    peer.send(from_client(1, 2, dup=True))

    peer.advance(1)

    assert peer.take_counters().uncommon.awaiting_rel_expired == 1


def test_forgotten_while_offline() -> None:
    """FC-22: the timeout runs while the client is away."""
    peer = Peer(Limits(await_rel_timeout=10 * SECOND))
    peer.send(from_client(1, 2))
    peer.disconnect()
    peer.advance(10)

    assert peer.take_counters().uncommon.awaiting_rel_expired == 1
    peer.connect()
    peer.send(from_client(1, 2))
    assert len(peer.routed) == 2


def test_never_forgotten_with_infinity() -> None:
    """FC-22: with await_rel_timeout `infinity` no id is forgotten and no timer is set."""
    peer = Peer(Limits(await_rel_timeout=NEVER))
    peer.send(from_client(1, 2))

    peer.advance(10_000_000)

    assert peer.host.arms == []
    assert peer.take_counters().uncommon.awaiting_rel_len == 1


def test_received_is_counted_by_qos() -> None:
    """Accepted PUBLISHes are counted by QoS and payload bytes; a repeated QoS 2 is not."""
    peer = Peer()

    peer.send(
        from_client(0, 0, "abc"), from_client(1, 1, "de"), from_client(2, 2, "f"), from_client(2, 2, "f", dup=True)
    )
    counters = peer.take_counters()

    assert (counters.received_qos0, counters.received_qos1, counters.received_qos2) == (1, 1, 1)
    assert counters.received_bytes == 6
