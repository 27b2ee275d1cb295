"""FC-1 at a reconnect: the quota starts anew, less what is resent, also if the new window is smaller or larger."""

from protocol import packet_types
from session.limits import Limits
from tests.support.session.messages import resent, texts
from tests.support.session.peer import Peer


def peer_with_kept(count: int, *, waiting: int = 0, qos: int = 1) -> Peer:
    """An offline MQTT 5 session whose window keeps 1 to `count`, and whose mqueue holds what follows."""
    peer = Peer(Limits(max_inflight=count), 5)
    peer.deliver(*range(1, count + waiting + 1), qos=qos)
    peer.disconnect()
    return peer


def test_quota_anew_less_what_is_resent() -> None:
    """FC-1: after a reconnect resends take their slots, and all others are free."""
    peer = Peer(Limits(max_inflight=4), 5)
    peer.deliver(1, 2, 3, 4, 5, 6, 7, 8, qos=1)
    peer.puback(1, 2)  # 5 and 6 follow
    peer.disconnect()

    assert [text for _, _, text in resent(peer.connect(5))] == ["3", "4", "5", "6"]
    assert texts(peer.run()) == []
    assert texts(peer.puback(3)) == ["7"]


def test_quota_is_not_carried_over() -> None:
    """FC-1: what was acknowledged or lost on the old connection does not count in the new quota."""
    peer = Peer(Limits(max_inflight=4), 5, receive_maximum=1)
    peer.deliver(1, 2, 3, 4, 5, 6, qos=1)
    peer.disconnect()

    assert resent(peer.connect(5)) == [("dup", 1, "1"), ("new", 2, "2"), ("new", 3, "3"), ("new", 4, "4")]


def test_larger_receive_maximum_after_reconnect() -> None:
    """FC-1: a larger Receive Maximum after a reconnect holds once the kept window is resent."""
    peer = Peer(Limits(max_inflight=10), 5, receive_maximum=2)
    peer.deliver(*range(1, 7), qos=1)
    peer.disconnect()

    sent = resent(peer.connect(5, receive_maximum=5))

    assert sent == [("dup", 1, "1"), ("dup", 2, "2"), ("new", 3, "3"), ("new", 4, "4"), ("new", 5, "5")]


def test_smaller_receive_maximum_holds_back_resends() -> None:
    """FC-1: with a smaller Receive Maximum never more PUBLISHes are unacknowledged than it allows."""
    peer = peer_with_kept(5, waiting=2)

    assert resent(peer.connect(5, receive_maximum=2)) == [("dup", 1, "1"), ("dup", 2, "2")]
    assert resent(peer.run()) == []
    assert resent(peer.puback(1)) == [("dup", 3, "3")]
    assert resent(peer.puback(2, 3)) == [("dup", 4, "4"), ("dup", 5, "5")]
    assert resent(peer.puback(4)) == [("new", 6, "6")]
    assert resent(peer.puback(5)) == [("new", 7, "7")]


def test_nothing_new_before_all_is_resent() -> None:
    """FC-1, FC-8: while a part of the kept window is held back, new QoS 1 and 2 wait, and QoS 0 is gated."""
    peer = peer_with_kept(3)
    peer.connect(5, receive_maximum=1)

    peer.publish("new", qos=1)
    peer.publish("zero", qos=0)

    assert texts(peer.run()) == []
    assert resent(peer.puback(1)) == [("dup", 2, "2")]
    assert peer.waiting() == ["new", "zero"]
    assert resent(peer.puback(2)) == [("dup", 3, "3")]
    assert resent(peer.puback(3)) == [("new", 4, "new"), ("new", 0, "zero")]


def test_waiting_qos0_comes_after_what_is_held_back() -> None:
    """FC-8: queued QoS 0 is sent after the whole kept window, though it needs no slot."""
    peer = peer_with_kept(3)
    peer.deliver(4, qos=0)

    assert resent(peer.connect(5, receive_maximum=1)) == [("dup", 1, "1")]
    assert resent(peer.run()) == []
    assert resent(peer.puback(1)) == [("dup", 2, "2")]
    assert texts(peer.puback(2)) == ["3", "4"]


def test_held_back_once_more() -> None:
    """FC-1, FC-8: what was held back on one connection is resent on the next, in the order first sent."""
    peer = peer_with_kept(4)
    peer.connect(5, receive_maximum=1)
    peer.puback(1)
    peer.disconnect()

    assert resent(peer.connect(5)) == [("dup", 2, "2"), ("dup", 3, "3"), ("dup", 4, "4")]


def test_early_puback_of_what_is_held_back() -> None:
    """FC-1: a PUBACK for a delivery that waits to be resent completes it; the order is kept."""
    peer = peer_with_kept(4)
    peer.connect(5, receive_maximum=1)

    assert resent(peer.puback(3)) == []
    assert resent(peer.puback(1)) == [("dup", 2, "2")]
    assert resent(peer.puback(2)) == [("dup", 4, "4")]
    assert resent(peer.puback(4)) == []
    assert peer.window_ids() == []
    assert peer.deliver("new", qos=1) == ["new"]


def test_early_puback_of_all_that_is_held_back() -> None:
    """FC-1: when the client acknowledges before the resend, the slots are free."""
    peer = peer_with_kept(3)
    peer.connect(5, receive_maximum=1)

    peer.puback(2, 3)

    assert peer.deliver("new", qos=1) == []
    assert resent(peer.puback(1)) == [("new", 4, "new")]


def test_early_pubrec_of_what_is_held_back() -> None:
    """FC-1: a PUBREC for a QoS 2 delivery that waits to be resent is answered; its PUBLISH is not resent."""
    peer = peer_with_kept(2, qos=2)
    peer.connect(5, receive_maximum=1)

    assert resent(peer.pubrec(2)) == [("rel", 2, "")]
    peer.acknowledge(packet_types.PUBREC, 1, 0x80)
    assert "2" not in texts(peer.packets[-3:])
    peer.pubcomp(2)
    assert peer.window_ids() == []


def test_new_window_by_version() -> None:
    """FC-1: a 3.1.1 client that resumes the session has no Receive Maximum."""
    peer = Peer(Limits(max_inflight=3), 5, receive_maximum=1)
    peer.deliver(1, 2, 3, 4, qos=1)
    peer.disconnect()

    assert resent(peer.connect(4)) == [("dup", 1, "1"), ("new", 2, "2"), ("new", 3, "3")]
