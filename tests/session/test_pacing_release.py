"""FC-16: what ends the pacing of a publisher: half of the limit, a stalled queue, or the end of a connection."""

import pytest

from session.limits import Limits
from tests.support.session.messages import SECOND
from tests.support.session.pacing import PATIENCE, Scene, dropped

# -- half of the limit


def held(limits: Limits, *, size: int = 0) -> Scene:
    """A publisher that is held back, with two deliveries in the mailbox."""
    scene = Scene(limits)
    while not scene.publisher.host.paused:
        scene.bring(1, size=size)
    return scene


@pytest.mark.parametrize(
    ("most", "most_bytes", "size", "acknowledged", "left"),
    [(10, 0, 0, 6, 5), (0, 100, 20, 4, 2)],
    ids=["length", "bytes"],
)
def test_ends_at_half(most: int, most_bytes: int, size: int, acknowledged: int, left: int) -> None:
    """FC-16: the publisher resumes when mailbox and mqueue together hold half of a limit, and not before."""
    scene = held(Limits(max_inflight=1, max_mqueue_len=most, max_mqueue_bytes=most_bytes), size=size)
    assert scene.receiver.outbound.mailbox.length() == 2
    for _ in range(acknowledged):
        scene.acknowledge()
        assert scene.publisher.host.paused
    scene.acknowledge()
    assert len(scene.receiver.waiting()) == left
    assert not scene.publisher.host.paused


def test_does_not_flutter_over_bytes() -> None:
    """FC-16: a delivery larger than half of max_mqueue_bytes waits in the mailbox without passes in between."""
    scene = Scene(Limits(max_inflight=1, max_mqueue_len=1000, max_mqueue_bytes=60))
    scene.bring(1)
    scene.bring(1, size=25)
    scene.bring(2, size=50)  # `Peer.run` fails if passes do not end
    assert scene.publisher.host.paused
    scene.acknowledge()
    assert scene.publisher.host.paused
    assert scene.receiver.waiting() == ["2"]
    scene.acknowledge()
    scene.acknowledge()
    assert not scene.publisher.host.paused
    assert dropped(scene.receiver) == 0


# -- a stalled queue


def test_stalled() -> None:
    """FC-16: a queue that drains nothing for 300 ms releases its publishers and drops by its policy."""
    scene = Scene()
    scene.overfill()
    scene.advance(0.299)
    assert scene.publisher.host.paused
    scene.advance(0.002)
    assert not scene.publisher.host.paused
    assert dropped(scene.receiver) == 2

    assert scene.bring(10) == 10
    assert not scene.publisher.host.paused
    assert dropped(scene.receiver) == 12
    assert scene.receiver.host.reports == ["mqueue_full"]
    assert scene.publisher.take_counters().uncommon.publish_paced_us == pytest.approx(0.3 * SECOND, abs=10)
    scene.check_books()


@pytest.mark.parametrize(("policy", "kept"), [("drop_oldest", range(4, 14)), ("drop_newest", range(2, 12))])
def test_policies_afterwards(policy: str, kept: range) -> None:
    """FC-16, FC-5: after a stall the policy treats deliveries of the mailbox in the order of their arrival."""
    scene = Scene(Limits(max_inflight=2, max_mqueue_len=10, mqueue_overflow=policy))
    scene.fill()
    scene.bring(2)
    scene.advance(1.1)
    assert scene.receiver.waiting() == [str(number) for number in kept]


def test_draining_goes_on() -> None:
    """FC-16: a queue that drains something within 300 ms goes on pacing its publisher."""
    scene = Scene()
    scene.overfill()
    for _ in range(4):
        scene.advance(0.29)
        scene.acknowledge()
        assert scene.publisher.host.paused


@pytest.mark.parametrize(("pause", "then"), [(0.05, 0.3), (0.1, 0.4), (0.2, 0.8), (0.29, 1.0)])
def test_longer_after_pauses(pause: float, then: float) -> None:
    """FC-16: a queue that has drained after a pause stalls after four such pauses, 300 ms at least, 1 s at most."""
    scene = Scene()
    scene.overfill()
    scene.advance(pause)
    scene.acknowledge()
    scene.advance(then - 0.001)
    assert scene.publisher.host.paused
    scene.advance(0.002)
    assert not scene.publisher.host.paused


def test_pauses_of_another_connection() -> None:
    """FC-16: how long the client of an earlier connection paused is forgotten."""
    scene = Scene()
    scene.overfill()
    scene.advance(0.29)
    scene.acknowledge()
    scene.receiver.disconnect()
    scene.receiver.connect()
    scene.run()
    scene.bring(12)
    assert scene.publisher.host.paused
    scene.advance(0.301)
    assert not scene.publisher.host.paused


def test_pauses_without_pacing() -> None:
    """FC-16: a pause counts only if the queue paced publishers, since otherwise little may have waited."""
    scene = Scene()
    scene.overfill()
    scene.drain()
    assert not scene.publisher.host.paused
    scene.fill()
    scene.advance(0.29)
    scene.acknowledge()
    scene.bring(12)
    assert scene.publisher.host.paused
    scene.advance(0.301)
    assert not scene.publisher.host.paused


@pytest.mark.parametrize("rest", [0.0, 0.4, 600.0])
def test_stall_counts_from_pacing(rest: float) -> None:
    """FC-16: the time of a stall begins with pacing, however long the queue has not drained before."""
    scene = Scene()
    scene.overfill()
    scene.drain()
    assert not scene.publisher.host.paused
    scene.fill()
    scene.advance(rest)
    scene.bring(3)
    assert scene.publisher.host.paused
    scene.advance(0.299)
    assert scene.publisher.host.paused
    scene.advance(0.002)
    assert not scene.publisher.host.paused


def test_rest_of_an_empty_queue() -> None:
    """FC-16: a queue that was empty for long has not stalled."""
    scene = Scene()
    for _ in range(2):
        scene.overfill()
        assert scene.publisher.host.paused
        scene.drain()
        assert not scene.publisher.host.paused
        scene.advance(600)
    assert dropped(scene.receiver) == 0


def test_stall_counts_from_the_connection() -> None:
    """FC-16: the time of a stall begins again when a session with a full queue reconnects."""
    scene = Scene()
    scene.fill()
    scene.bring(1)
    scene.advance(1)
    scene.receiver.disconnect()
    scene.advance(10)
    scene.receiver.connect()
    scene.run()
    scene.bring(5)
    assert scene.publisher.host.paused
    scene.advance(1.001)
    assert not scene.publisher.host.paused


def test_a_queue_that_has_moved_again_may_hold_back_again() -> None:
    """FC-16: a stalled queue can pace publishers again when it has drained something."""
    scene = Scene()
    scene.overfill()
    scene.advance(1.1)
    scene.acknowledge()
    assert scene.bring(5) < 5
    assert scene.publisher.host.paused


# -- the end of a connection


def test_receiver_disconnects() -> None:
    """FC-16, FC-7: the end of a subscriber's connection releases all publishers, and its queue overflows."""
    scene = Scene(publishers=2)
    scene.fill()
    for publisher in scene.publishers:
        scene.bring(5, publisher)
    scene.receiver.disconnect()
    assert [publisher.host.paused for publisher in scene.publishers] == [False, False]
    assert scene.bring(5) == 5
    assert not scene.receiver.outbound.paces()
    scene.check_books()


def test_receiver_ends() -> None:
    """FC-16: the end of a subscriber's session releases its publisher."""
    scene = Scene()
    scene.overfill()
    scene.receiver.outbound.end(scene.now)
    assert not scene.publisher.host.paused
    scene.check_books()


def test_publisher_disconnects() -> None:
    """FC-16: the end of a publisher's connection releases only this publisher."""
    scene = Scene(publishers=2)
    first, second = scene.publishers
    scene.fill()
    scene.bring(5, first)
    scene.bring(5, second)
    first.disconnect()
    assert [first.host.paused, second.host.paused] == [False, True]
    first.connect()
    scene.bring(1, first)
    assert first.host.paused


def test_paused_time_stops_with_the_connection() -> None:
    """FC-16: publisher and subscriber count no paced time after the publisher's connection has ended."""
    scene = Scene()
    scene.overfill()
    scene.advance(0.1)
    scene.publisher.disconnect()
    scene.advance(0.1)
    assert scene.publisher.take_counters().uncommon.publish_paced_us == 0.1 * SECOND
    assert scene.receiver.take_counters().uncommon.paced_for_us == 0.1 * SECOND


@pytest.mark.parametrize("patience", [PATIENCE, SECOND // 2])
def test_its_own_subscriber(patience: int) -> None:
    """FC-16: a client that publishes to itself is paced and released like any other publisher."""
    scene = Scene(patience=patience)
    client = scene.receiver
    scene.publishers = [client]
    scene.publisher = client
    scene.overfill()
    assert client.host.paused
    while client.host.paused:
        scene.acknowledge()
    assert len(client.waiting()) == 5
    scene.bring(20)
    scene.advance(1.1)
    assert not client.host.paused
    client.outbound.end(scene.now)
    scene.check_books()
