"""FC-2 and FC-4: what is sent at once, what joins the mqueue, and how the mqueue drains."""

from sys import getrefcount

import pytest

from session.limits import Limits
from session.outbound import PASS_DELIVERIES
from session.sender import PASS_BYTES
from tests.support.session.messages import message, publishes, texts
from tests.support.session.peer import Peer

# -- FC-2


@pytest.mark.parametrize("qos", [1, 2])
def test_sent_when_there_is_room(qos: int) -> None:
    """FC-2: a QoS 1 or 2 delivery is sent if the window has room."""
    peer = Peer(Limits(max_inflight=2))

    assert peer.deliver("a", "b", qos=qos) == ["a", "b"]


@pytest.mark.parametrize("qos", [1, 2])
def test_tail_when_window_full(qos: int) -> None:
    """FC-2: without room in the window a QoS 1 or 2 delivery joins the mqueue's tail."""
    peer = Peer(Limits(max_inflight=1))
    peer.deliver("a", "b", qos=1)

    assert peer.deliver("c", qos=qos) == []
    assert peer.waiting() == ["b", "c"]


@pytest.mark.parametrize("waiting", [1, 2])
@pytest.mark.parametrize("qos", [1, 2])
def test_tail_behind_waiting_qos1_and_2(waiting: int, qos: int) -> None:
    """FC-2: though the window has room, a QoS 1 or 2 delivery does not overtake one that waits in the mqueue."""
    peer = Peer(Limits(max_inflight=30))
    peer.disconnect()
    peer.publish(*range(20), qos=waiting, size=10_000)
    peer.connect()  # seven of them are one pass's bytes; the window has room for more
    peer.publish("late", qos=qos)

    peer.outbound.run_pass(peer.now)

    assert peer.waiting()[-1] == "late"


def test_qos0_backlog_does_not_hold_back_qos1() -> None:
    """FC-2: waiting QoS 0 does not hold back QoS 1 and 2."""
    peer = Peer()
    peer.pause()
    peer.deliver("zero", qos=0)

    assert peer.deliver("one", qos=1) == ["one"]
    assert peer.waiting() == ["zero"]


# -- FC-4


def test_acknowledgement_drains() -> None:
    """FC-4: an acknowledgement drains the mqueue, first in, first out, as far as the window allows."""
    peer = Peer(Limits(max_inflight=2))
    peer.deliver(1, 2, 3, 4, 5, qos=1)

    assert texts(peer.puback(1, 2)) == ["3", "4"]
    assert peer.waiting() == ["5"]


def test_transport_resuming_drains() -> None:
    """FC-4: QoS 0 is sent when the transport resumes."""
    peer = Peer()
    peer.pause()
    peer.deliver("a", "b", qos=0)

    assert texts(peer.resume()) == ["a", "b"]


@pytest.mark.parametrize("qos", [1, 2])
def test_congestion_does_not_hold_back_qos1(qos: int) -> None:
    """FC-4: a QoS 1 or 2 head waits for a place in the window, not for the send path."""
    peer = Peer(Limits(max_inflight=1))
    peer.deliver("a", qos=1)
    peer.deliver("b", qos=qos)
    peer.pause()

    assert texts(peer.puback(1)) == ["b"]


def test_end_of_pass_drains() -> None:
    """FC-4: the end of a pass sends what the pass has queued, if it can be sent by then."""
    peer = Peer(Limits(max_inflight=1))
    peer.deliver("one", qos=1)

    assert peer.deliver("zero", qos=0) == ["zero"]


def test_qos0_head_needs_no_window() -> None:
    """FC-4: a QoS 0 head is sent though the window is full."""
    peer = Peer(Limits(max_inflight=1))
    peer.deliver("one", qos=1)
    peer.pause()
    peer.deliver("zero", qos=0)

    assert texts(peer.resume()) == ["zero"]
    assert peer.window_ids() == [1]


@pytest.mark.parametrize("qos", [1, 2])
def test_head_waits_and_so_does_what_follows(qos: int) -> None:
    """FC-4: a QoS 1 or 2 head waits for a place in the window, and what is behind it waits too, whatever its QoS."""
    peer = Peer(Limits(max_inflight=1))
    peer.deliver("sent", qos=1)
    peer.deliver("head", qos=qos)

    assert peer.deliver("zero", qos=0) == []
    assert peer.waiting() == ["head", "zero"]
    assert texts(peer.puback(1)) == ["head", "zero"]


def test_congestion_holds_a_qos0_head_and_what_follows() -> None:
    """FC-4: a QoS 0 head waits for the send path, and a QoS 1 behind it waits too though the window has room."""
    peer = Peer(Limits(max_inflight=1))
    peer.pause()
    peer.deliver("one", qos=1)
    peer.deliver("zero", qos=0)
    peer.deliver("two", qos=1)

    assert texts(peer.puback(1)) == []
    assert peer.waiting() == ["zero", "two"]
    assert texts(peer.resume()) == ["zero", "two"]


def test_reconnect_drains() -> None:
    """FC-4, FC-8: what waited for the client is sent after its reconnect, in order."""
    peer = Peer(online=False)
    peer.publish("a", qos=1)
    peer.publish("b", qos=0)
    peer.publish("c", qos=2)

    assert texts(peer.connect()) == ["a", "b", "c"]


# -- passes


def test_pass_takes_at_most_100() -> None:
    """A pass takes at most 100 deliveries from the mailbox, and asks for another pass."""
    peer = Peer()
    peer.publish(*range(PASS_DELIVERIES + 1), qos=0)

    more = peer.outbound.run_pass(peer.now)

    assert more
    assert texts(peer.flush()) == [str(n) for n in range(PASS_DELIVERIES)]
    assert peer.outbound.mailbox.length() == 1
    assert not peer.outbound.run_pass(peer.now)
    assert texts(peer.flush()) == [str(PASS_DELIVERIES)]


def test_pass_ends_when_its_bytes_are_many() -> None:
    """A pass stops taking deliveries when its outbox holds 256 KiB, so that congestion shows before more is sent."""
    peer = Peer()
    peer.publish(*range(40), qos=0, size=10_000)

    sent = peer.run_pass()

    assert len(sent) == 27
    assert sum(publish.size for publish in publishes(sent)) >= PASS_BYTES
    assert len(texts(peer.run())) == 13


def test_pass_of_a_client_that_is_behind_ends_earlier() -> None:
    """While deliveries wait in the mqueue a pass stops at 64 KiB: QoS 0 does not fill a slow send path (FC-3)."""
    peer = Peer(Limits(max_inflight=1, gate=False))
    peer.publish(1, 2, qos=1)
    peer.run()
    peer.publish(*range(40), qos=0, size=10_000)

    assert len(peer.run_pass()) == 7


def test_drain_ends_when_its_bytes_are_many() -> None:
    """FC-4: draining stops at 64 KiB too, and asks for another pass."""
    peer = Peer(Limits(max_inflight=0))
    peer.disconnect()
    peer.publish(*range(20), qos=1, size=10_000)

    assert len(peer.connect()) == 7
    assert peer.outbound.drain(peer.now)
    assert len(peer.flush()) == 7


def test_wakes_once_per_batch() -> None:
    """The router wakes the host for the first delivery of a batch only."""
    peer = Peer()

    peer.publish("a", "b", "c", qos=0)
    assert peer.host.wakes == 1
    peer.run()
    peer.publish("d", qos=0)
    assert peer.host.wakes == 2


def test_sent_messages_are_let_go() -> None:
    """What has been sent for good is let go at the end of the pass, not when the next message comes."""
    peer = Peer()
    publish = message("a", now=peer.now)
    references = getrefcount(publish)

    peer.route(publish, publish)
    peer.run()

    assert getrefcount(publish) == references
