"""FC-8 on reconnect: both versions resend everything in the window, before anything new."""

import pytest

from protocol import packet_types
from session.limits import NEVER, Limits
from session.window import Restored
from tests.support.session.messages import message, resent, texts
from tests.support.session.peer import Peer


@pytest.mark.parametrize("version", [4, 5])
def test_window_is_resent(version: int) -> None:
    """FC-8: a reconnect to a kept session resends the whole window in order, same packet ids, DUP set."""
    peer = Peer(version=version)
    peer.deliver("a", qos=1)
    peer.deliver("b", "c", qos=2)
    peer.deliver("d", qos=1)
    peer.pubrec(2)
    peer.disconnect()

    sent = resent(peer.connect(version))

    assert sent == [("dup", 1, "a"), ("rel", 2, ""), ("dup", 3, "c"), ("dup", 4, "d")]


@pytest.mark.parametrize("version", [4, 5])
def test_before_anything_new(version: int) -> None:
    """FC-8: the window is resent before the mqueue, and that is sent before new deliveries."""
    peer = Peer(Limits(max_inflight=3), version)
    peer.deliver("a", "b", qos=1)
    peer.disconnect()
    peer.publish("zero", qos=0)
    peer.publish("c", "d", qos=1)

    sent = resent(peer.connect(version))
    sent += resent(peer.run())

    assert sent == [("dup", 1, "a"), ("dup", 2, "b"), ("new", 0, "zero"), ("new", 3, "c")]


@pytest.mark.parametrize("version", [4, 5])
def test_every_reconnect_resends(version: int) -> None:
    """FC-8: what is still unacknowledged is resent at each reconnect, however short the connections."""
    peer = Peer(version=version)
    peer.deliver("a", qos=1)

    for _ in range(3):
        peer.disconnect()
        assert resent(peer.connect(version)) == [("dup", 1, "a")]


@pytest.mark.parametrize("version", [4, 5])
def test_pubrel_phase_is_kept(version: int) -> None:
    """FC-8: after a reconnect PUBREL is resent until PUBCOMP, and the PUBLISH never again."""
    peer = Peer(version=version)
    peer.deliver("a", qos=2)
    peer.pubrec(1)
    peer.disconnect()

    assert resent(peer.connect(version)) == [("rel", 1, "")]
    assert resent(peer.pubrec(1)) == [("rel", 1, "")]
    peer.pubcomp(1)
    peer.disconnect()
    assert peer.connect(version) == []
    assert texts(peer.packets) == ["a"]


def test_unwritten_first_transmission() -> None:
    """FC-8: deliveries in the outbox at a disconnect are in the window, and resent."""
    peer = Peer()
    peer.publish("a", qos=1)
    peer.outbound.run_pass(peer.now)
    peer.disconnect()

    assert resent(peer.connect()) == [("dup", 1, "a")]


def test_unwritten_control_packets_are_gone() -> None:
    """Control packets in the outbox at a disconnect are not written to the new connection."""
    peer = Peer()
    peer.outbound.sender.outbox.add_packet(b"\xd0\x00")
    peer.disconnect()

    assert peer.connect() == []


def test_infinity_still_resends_at_reconnect() -> None:
    """FC-8: with retry_interval `infinity` a reconnect resends the window nevertheless."""
    peer = Peer(Limits(retry_interval=NEVER))
    peer.deliver("a", qos=1)
    peer.disconnect()

    assert resent(peer.connect()) == [("dup", 1, "a")]


@pytest.mark.parametrize(("first", "second"), [(4, 5), (5, 4)])
def test_other_version(first: int, second: int) -> None:
    """FC-8: the kept window is resent in the form of the version that the client comes back with."""
    peer = Peer(version=first)
    peer.deliver("a", qos=1, expiry=100)
    peer.deliver("b", qos=2)
    peer.pubrec(2)
    peer.disconnect()

    assert resent(peer.connect(second)) == [("dup", 1, "a"), ("rel", 2, "")]


def test_acknowledged_in_between() -> None:
    """FC-8: what was acknowledged before the connection broke is not resent."""
    peer = Peer()
    peer.deliver("a", "b", "c", qos=1)
    peer.puback(2)
    peer.disconnect()

    assert resent(peer.connect()) == [("dup", 1, "a"), ("dup", 3, "c")]


def test_reconnect_resends_are_counted() -> None:
    """FC-8: resends at a reconnect are counted, by kind."""
    peer = Peer(version=5)
    peer.deliver("a", "b", qos=2)
    peer.pubrec(1)
    peer.disconnect()
    peer.take_counters()

    peer.connect(5)
    counters = peer.take_counters()

    assert (counters.uncommon.resent_publish, counters.uncommon.resent_pubrel) == (1, 1)
    assert counters.sent_qos2 == 0


@pytest.mark.parametrize("version", [4, 5])
def test_a_pass_at_a_time(version: int) -> None:
    """FC-38: what is resent goes out in passes as all else does, in order, and nothing new before its end."""
    peer = Peer(Limits(max_inflight=20), version)
    peer.deliver(*range(10), qos=1, size=30_000)
    peer.disconnect()

    came = resent(peer.connect(version))
    peer.publish("new", qos=1)
    lengths = [len(came)]
    while peer.session.sender.kept is not None:
        came += resent(peer.run_pass())
        lengths.append(len(came))
    came += resent(peer.run())

    assert lengths[:3] == [3, 6, 9]  # two of them have less than 64 KiB
    assert [kind for kind, _, _ in came] == ["dup"] * 10 + ["new"]
    assert [packet_id for _, packet_id, _ in came] == list(range(1, 12))


def test_the_next_pass_begins_with_the_first_packet_id() -> None:
    """FC-38: packet ids begin again at 1 after 65,535, and a pass may end before that one."""
    peer = Peer(Limits(max_inflight=20))
    peer.session.sender.window.restore(Restored(message("kept", 1, size=30_000), 65_530, received=False), peer.now)
    peer.deliver(*range(7), qos=1, size=30_000)
    peer.disconnect()

    peer.connect()

    assert [packet_id for _, packet_id, _ in resent(peer.run())] == [65_533, 65_534, 65_535, 1, 2]


def test_within_the_rate() -> None:
    """FC-38: `consumer_max_rate` counts a PUBLISH that is resent, and no PUBREL; what is new comes after them."""
    peer = Peer(Limits(consumer_max_rate=10, max_inflight=20))
    for number in range(6):
        peer.deliver(number, qos=2)
        peer.advance(1)
    peer.pubrec(6)
    peer.disconnect()

    first = resent([*peer.connect(), *peer.advance(0.1)])
    peer.publish("new", qos=0)
    peer.publish("new", qos=1)
    rest = resent([*peer.run(), *peer.advance(2)])

    assert first == [("dup", 1, "0"), ("dup", 2, "1"), ("dup", 3, "2")]
    assert rest[:3] == [("dup", 4, "3"), ("dup", 5, "4"), ("rel", 6, "")]
    assert [kind for kind, _, _ in rest[3:]] == ["new", "new"]
    assert peer.session.sender.kept is None


def test_acknowledged_before_it_is_resent() -> None:
    """FC-38: a delivery that is acknowledged while it waits to be resent is not resent."""
    peer = Peer(Limits(max_inflight=20))
    peer.deliver(*range(6), qos=1, size=30_000)
    peer.disconnect()

    assert len(peer.connect()) == 3
    peer.session.sender.acknowledge(packet_types.PUBACK, 5, 0, peer.now)

    assert [packet_id for _, packet_id, _ in resent(peer.run())] == [4, 6]


def test_one_by_one() -> None:
    """FC-8: what is resent singly waits for the release, then each for the last one; nothing new is sent before."""
    peer = Peer(version=5)
    peer.deliver("a", "b", qos=1)
    peer.disconnect()
    peer.publish("zero", qos=0)
    peer.publish("c", qos=1)
    sender = peer.session.sender
    sender.resends_singly = True

    assert resent(peer.connect(5)) == []
    kept = sender.kept
    assert kept is not None
    assert kept.alone(sender.window) == 0
    kept.release()
    assert resent(peer.run()) == [("dup", 1, "a")]
    assert kept.alone(sender.window) == 1
    assert resent(peer.puback(1)) == [("dup", 2, "b")]
    assert kept.alone(sender.window) == 2
    assert resent(peer.puback(2)) == [("new", 0, "zero"), ("new", 3, "c")]
