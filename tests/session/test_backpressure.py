"""FC-34: when a session tells publishers that its queue is full, by a clock of the test's own."""

from typing import Any

import pytest

from protocol.publish import Publish
from session.conflation import Conflation
from session.flows import PUBLISHER, flow_of
from session.limits import BLOCK, REJECT, Limits
from tests.support.session.messages import SECOND, message
from tests.support.session.peer import Peer
from tests.support.session.sharing import Group


def full_peer(policy: str = BLOCK, **limits: Any) -> Peer:
    """A peer with a window of one and a queue of two, both full."""
    peer = Peer(Limits(max_inflight=1, max_mqueue_len=2, mqueue_overflow=policy, **limits))
    peer.deliver("sent", "a", "b", qos=1)
    return peer


def lacks_room(peer: Peer, size: int = 0) -> bool:
    """Whether the publisher of a QoS 1 message would be told that there is no room."""
    new = message("new", 1, size=size, now=peer.now)
    return peer.outbound.begin_backlog().lacking(new, 1, True, peer.now) is not None


@pytest.mark.parametrize("policy", [BLOCK, REJECT])
def test_a_full_queue_tells(policy: str) -> None:
    """FC-34: a queue tells once window and mqueue are full, and no longer when the client has acknowledged one."""
    peer = full_peer(policy)
    assert lacks_room(peer)
    peer.puback(1)
    assert not lacks_room(peer)


def test_the_mailbox_counts() -> None:
    """FC-34: what no pass has taken yet needs its room too."""
    peer = Peer(Limits(max_inflight=1, max_mqueue_len=2, mqueue_overflow=BLOCK))
    told = []
    for label in "abcd":
        told.append(lacks_room(peer))
        peer.publish(label, qos=1)
    assert told == [False, False, False, True]


def test_who_takes_nothing_stops_nobody_for_ever() -> None:
    """FC-34: after `overflow_timeout` without progress nobody is told; once the client goes on, they are again."""
    peer = full_peer(overflow_timeout=3 * SECOND)
    assert lacks_room(peer)
    peer.now += 3 * SECOND - 1
    assert lacks_room(peer)
    peer.now += 1
    assert not lacks_room(peer)
    peer.deliver("c", qos=1)
    assert peer.waiting() == ["b", "c"]  # the oldest was dropped
    peer.puback(1)
    peer.deliver("d", qos=1)
    assert lacks_room(peer)


def test_progress_counts() -> None:
    """FC-34: a client that is slow, but takes something within `overflow_timeout`, is waited for."""
    peer = full_peer(overflow_timeout=3 * SECOND)
    for packet_id in range(1, 6):
        assert lacks_room(peer)
        peer.now += 2 * SECOND
        peer.puback(packet_id)
        assert not lacks_room(peer)
        peer.deliver("more", qos=1)


OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "takes the place of an older one": ({"conflation": Conflation(["a"])}, "a"),
    "is of a quiet publisher": ({"fairness": PUBLISHER}, "c"),
}


@pytest.mark.parametrize(("more", "topic"), OTHERS.values(), ids=list(OTHERS))
def test_what_joins_a_full_queue_is_no_progress(more: dict[str, Any], topic: str) -> None:
    """FC-34, FC-33, FC-37: publishers wait once for a client that takes nothing, whatever joins its full queue."""
    peer = Peer(Limits(max_inflight=1, max_mqueue_len=2, mqueue_overflow=BLOCK, overflow_timeout=3 * SECOND, **more))

    def of(topic: str) -> Publish:
        new = message("new", 1, topic, now=peer.now)
        new.flow = flow_of(topic, "")  # each topic has a publisher of its own
        return new

    def lacks(topic: str) -> bool:
        return peer.outbound.begin_backlog().lacking(of(topic), 1, True, peer.now) is not None

    other = "b" if topic == "a" else "a"
    for each in ("sent", "a", other):
        peer.route(of(each))
        peer.run()
    assert lacks(other)
    for _ in range(3):
        peer.now += SECOND
        assert not lacks(topic)
    assert not lacks(other)


def test_who_is_away_stops_nobody_past_the_grace() -> None:
    """FC-34: a client that is away tells for `overflow_offline_grace`, and at once when it is back."""
    peer = full_peer(overflow_offline_grace=5 * SECOND)
    peer.disconnect()
    peer.now += 5 * SECOND - 1
    assert lacks_room(peer)
    peer.now += 1
    assert not lacks_room(peer)
    peer.connect()
    assert lacks_room(peer)


def test_what_expires_makes_room() -> None:
    """FC-5, FC-34: expired deliveries make room before anybody is told."""
    peer = Peer(Limits(max_inflight=1, max_mqueue_len=2, mqueue_overflow=BLOCK))
    peer.deliver("sent", qos=1)
    peer.deliver("short", qos=1, expiry=1)
    peer.deliver("long", qos=1)
    assert lacks_room(peer)
    peer.now += 2 * SECOND
    assert not lacks_room(peer)


def test_what_expires_begins_the_timeout_anew() -> None:
    """FC-5, FC-34: once a PUBLISH has found room that an expired one left, publishers have the whole timeout again."""
    peer = Peer(Limits(max_inflight=1, max_mqueue_len=2, mqueue_overflow=BLOCK, overflow_timeout=3 * SECOND))
    peer.deliver("sent", qos=1)
    peer.deliver("short", qos=1, expiry=2)
    peer.deliver("long", qos=1)
    assert lacks_room(peer)
    peer.now += 2 * SECOND
    assert not lacks_room(peer)
    peer.deliver("new", qos=1)
    assert lacks_room(peer)
    peer.now += 3 * SECOND - 1
    assert lacks_room(peer)
    peer.now += 1
    assert not lacks_room(peer)


def test_what_expires_in_a_group_begins_the_timeout_anew() -> None:
    """FC-34: once a PUBLISH has found room in a group's queue, publishers have the whole timeout again."""
    group = Group(1, Limits(max_inflight=1, max_mqueue_len=2, mqueue_overflow=BLOCK, overflow_timeout=3 * SECOND))
    peer = group.peers[0]

    def lacks() -> bool:
        return group.queue.lacking(message("new", 1, now=peer.now), True, peer.now) is not None

    for expiry in (0, 2, 0):
        group.queue.deliver(message("old", 1, expiry=expiry, now=peer.now), None, peer.now)
    assert lacks()
    peer.now += 2 * SECOND
    assert not lacks()
    group.deliver("new")
    assert lacks()
    peer.now += 3 * SECOND - 1
    assert lacks()
    peer.now += 1
    assert not lacks()


def test_too_large_to_wait() -> None:
    """FC-6, FC-34: a message that no queue could hold has room while it can be sent at once."""
    peer = Peer(Limits(max_inflight=1, max_mqueue_bytes=100, mqueue_overflow=BLOCK))
    assert not lacks_room(peer, 200)
    peer.deliver("large", qos=1, size=200)
    assert lacks_room(peer, 200)
    assert not lacks_room(peer, 100)


@pytest.mark.parametrize("is_taken", [True, False])
def test_room_for_the_last_byte(is_taken: bool) -> None:
    """FC-34: a message has room that fills a queue to its last byte, what is still in the mailbox counted in."""
    peer = Peer(Limits(max_inflight=1, max_mqueue_bytes=3, mqueue_overflow=BLOCK))
    peer.deliver("sent", qos=1)
    peer.publish("ab", qos=1)
    if is_taken:
        peer.run()
    backlog = peer.outbound.begin_backlog()
    lacking = [backlog.lacking(message(text, 1), 1, True, peer.now) is not None for text in ("c", "cd")]
    assert lacking == [False, True]


def test_qos0_takes_the_place_of_nothing() -> None:
    """FC-34: QoS 0 is dropped at a full queue, also where publishers are not told any more."""
    peer = full_peer(overflow_timeout=3 * SECOND)
    assert lacks_room(peer)
    peer.now += 3 * SECOND
    assert not lacks_room(peer)
    peer.deliver("noise", qos=0)
    assert peer.waiting() == ["a", "b"]
    peer.deliver("c", qos=1)
    assert peer.waiting() == ["b", "c"]


def test_the_report_counts_the_mailbox() -> None:
    """FC-34: what is reported as full is what is full, also while its deliveries are still in the mailbox."""
    peer = Peer(Limits(max_inflight=1, max_mqueue_len=2, mqueue_overflow=REJECT))
    peer.publish("a", "b", "c", qos=1)
    assert lacks_room(peer)
    assert peer.host.details == ["3 deliveries wait, max_mqueue_len is 2; mqueue_overflow is reject"]
