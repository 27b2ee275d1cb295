"""FC-20: how many PUBLISHes an MQTT 5 client may have unacknowledged. FC-22a: ids whose PUBREL is overdue."""

import pytest

from protocol import reason_codes
from protocol.errors import MQTTError
from session.limits import Limits
from tests.support.session.inbound import answers, from_client, puback, pubcomp, pubrec
from tests.support.session.messages import SECOND, texts
from tests.support.session.peer import Peer


@pytest.mark.parametrize("qos", [1, 2])
def test_receive_maximum_is_accepted(qos: int) -> None:
    """FC-20: receive_maximum unacknowledged PUBLISHes are accepted."""
    peer = Peer(Limits(receive_maximum=3), 5)

    assert len(answers(peer.send(*[from_client(n, qos) for n in (1, 2, 3)]))) == 3
    assert len(peer.routed) == 3


def test_answered_burst() -> None:
    """FC-20: a PUBACK counts as sent when it is produced, so a burst of QoS 1 in one chunk is accepted."""
    peer = Peer(Limits(receive_maximum=2), 5)

    assert len(answers(peer.send(*[from_client(n, 1) for n in range(1, 1001)]))) == 1000


def test_released_burst() -> None:
    """FC-20: a PUBCOMP counts as sent when it is produced: a thousand exchanges in one chunk are accepted."""
    peer = Peer(Limits(receive_maximum=1), 5)

    for packet_id in range(1, 1001):
        publish = from_client(packet_id, 2)
        assert peer.session.inbound.accept(publish)
        peer.session.inbound.answer(publish, True, peer.now)
        peer.session.inbound.release(packet_id)
    assert len(answers(peer.end_chunk())) == 2000


@pytest.mark.parametrize("qos", [(2, 2, 2), (2, 2, 1)])
def test_past_receive_maximum(qos: tuple[int, int, int]) -> None:
    """FC-20: past the sum of QoS 1 and 2, the connection ends with 0x93."""
    peer = Peer(Limits(receive_maximum=2), 5)

    with pytest.raises(MQTTError, match="Receive Maximum") as error:
        peer.send(*[from_client(n, level) for n, level in enumerate(qos, 1)])
    assert error.value.reason_code == reason_codes.RECEIVE_MAXIMUM_EXCEEDED
    assert len(peer.routed) == 2


def test_tolerated_past_receive_maximum() -> None:
    """FC-20: with the policy `tolerate` what is past it is accepted, routed, acknowledged and counted."""
    peer = Peer(Limits(receive_maximum=2, tolerate_receive_maximum=True), 5)

    sent = answers(peer.send(*[from_client(n, 2) for n in (1, 2, 3)], *[from_client(n, 1) for n in (4, 5)]))

    assert sent == [pubrec(1), pubrec(2), pubrec(3), puback(4), puback(5)]
    assert len(peer.routed) == 5
    assert peer.take_counters().uncommon.receive_maximum_exceeded == 3


def test_written_puback_gives_quota_back() -> None:
    """FC-20: a PUBACK frees the client's quota."""
    peer = Peer(Limits(receive_maximum=2), 5)

    for packet_id in range(1, 20, 2):
        peer.send(from_client(packet_id, 1), from_client(packet_id + 1, 1))

    assert len(peer.routed) == 20


def test_pubrel_gives_quota_back() -> None:
    """FC-20: a QoS 2 PUBLISH is unacknowledged until PUBCOMP; PUBREC frees nothing."""
    peer = Peer(Limits(receive_maximum=1), 5)
    peer.send(from_client(1, 2))
    peer.pubrel(1)
    peer.send(from_client(2, 2))

    with pytest.raises(MQTTError):
        peer.send(from_client(3, 1))


def test_qos0_uses_no_quota() -> None:
    """FC-20: QoS 0 uses no quota."""
    peer = Peer(Limits(receive_maximum=1), 5)

    peer.send(*[from_client(0, 0) for _ in range(10)], from_client(1, 1))

    assert len(peer.routed) == 11


def test_resent_qos2_uses_no_further_quota() -> None:
    """FC-20: a PUBLISH with a remembered packet id uses no further quota."""
    peer = Peer(Limits(receive_maximum=1), 5)

    peer.send(from_client(1, 2))

    assert answers(peer.send(from_client(1, 2, dup=True))) == [pubrec(1)]


def test_no_receive_maximum_in_311() -> None:
    """FC-20: 3.1.1 has no Receive Maximum."""
    peer = Peer(Limits(receive_maximum=1))

    assert len(answers(peer.send(*[from_client(n, 1) for n in range(1, 50)]))) == 49


def test_not_mixed_with_the_window() -> None:
    """FC-20: neither max_inflight nor the client's Receive Maximum affects receive_maximum."""
    peer = Peer(Limits(max_inflight=1, receive_maximum=5), 5, receive_maximum=1)
    peer.deliver("a", "b", qos=1)

    peer.send(*[from_client(n, 2) for n in range(1, 6)])

    assert len(peer.routed) == 5
    assert texts(peer.puback(1)) == ["b"]


def test_quota_begins_anew_at_the_reconnect() -> None:
    """FC-20: QoS 2 ids of an earlier connection use no quota of the next [MQTT5 4.9]."""
    peer = Peer(Limits(receive_maximum=2), 5)
    peer.send(from_client(1, 2), from_client(2, 2))
    peer.disconnect()
    peer.connect(5)

    assert answers(peer.send(from_client(3, 2), from_client(4, 2))) == [pubrec(3), pubrec(4)]
    assert answers(peer.pubrel(1)) == [pubcomp(1)]
    with pytest.raises(MQTTError):
        peer.send(from_client(5, 2))


def test_resent_publish_counts_on_its_new_connection() -> None:
    """FC-20: a PUBLISH that is resent after a reconnect uses the new quota."""
    peer = Peer(Limits(receive_maximum=2), 5)
    peer.send(from_client(1, 2), from_client(2, 2))
    peer.disconnect()
    peer.connect(5)

    peer.send(from_client(1, 2, dup=True), from_client(3, 2))

    with pytest.raises(MQTTError):
        peer.send(from_client(4, 2))


def test_forgotten_ids_of_earlier_connections() -> None:
    """FC-20, FC-22: forgetting an id of an earlier connection leaves the quota unchanged."""
    peer = Peer(Limits(receive_maximum=1, await_rel_timeout=10 * SECOND), 5)
    peer.send(from_client(1, 2))
    peer.disconnect()
    peer.connect(5)
    peer.advance(10)

    peer.send(from_client(1, 2))

    with pytest.raises(MQTTError):
        peer.send(from_client(2, 2))


@pytest.mark.parametrize("version", [4, 5])
def test_an_overdue_id_is_routed_once(version: int) -> None:
    """FC-22a: a QoS 2 PUBLISH that comes again after `await_rel_timeout` is acknowledged, and not routed again.

    After its PUBREL nothing is kept of it.
    """
    peer = Peer(Limits(await_rel_timeout=10 * SECOND), version)
    peer.send(from_client(1, 2))
    peer.advance(10)
    assert peer.session.inbound.awaiting_rel_len == 0
    peer.disconnect()
    peer.connect(version)

    assert answers(peer.send(*[from_client(1, 2, dup=True) for _ in range(2)])) == [pubrec(1)] * 2
    assert len(peer.routed) == 1
    assert answers(peer.pubrel(1)) == [pubcomp(1)]
    ids = peer.session.inbound._ids
    assert ids is not None
    assert ids.forgotten is None
    peer.send(from_client(1, 2, dup=True))
    assert len(peer.routed) == 2


def test_an_overdue_id_without_dup_is_another_message() -> None:
    """FC-22a: a client that has given up a PUBLISH may use its id again: without DUP it is routed."""
    peer = Peer(Limits(await_rel_timeout=10 * SECOND))
    peer.send(from_client(1, 2))
    peer.advance(10)

    peer.send(from_client(1, 2))
    peer.send(from_client(1, 2, dup=True))

    assert len(peer.routed) == 2
    assert peer.session.inbound.awaiting_rel_len == 1


def test_overdue_ids_use_no_room() -> None:
    """FC-22a: ids that are overdue count neither against `max_awaiting_rel` nor against the Receive Maximum."""
    peer = Peer(Limits(max_awaiting_rel=2, receive_maximum=2, await_rel_timeout=10 * SECOND), 5)
    for first in (1, 3, 5):
        sent = peer.send(from_client(first, 2), from_client(first + 1, 2))
        assert answers(sent) == [pubrec(first), pubrec(first + 1)]
        peer.advance(10)

    assert answers(peer.send(*[from_client(packet_id, 2, dup=True) for packet_id in range(1, 7)])) == [
        pubrec(packet_id) for packet_id in range(1, 7)
    ]
    assert len(peer.routed) == 6


def test_too_many_ids_at_a_start_are_routed_once() -> None:
    """FC-22a, FC-27: of more ids than may wait after a restart the oldest are overdue, and not routed again either."""
    peer = Peer(Limits(max_awaiting_rel=2), 5)
    peer.session.inbound.restore([3, 1, 2], peer.now)
    assert peer.session.inbound.awaiting_rel_len == 2

    again = [from_client(each, 2, dup=True) for each in (3, 1, 2)]
    assert answers(peer.send(*again)) == [pubrec(each) for each in (3, 1, 2)]
    assert peer.routed == []
