"""FC-14: slow consumers and stalled windows."""

import pytest

from config.models import Config
from protocol import reason_codes
from session.limits import Limits
from session.watch import SLOW, Watch
from session.window import Window
from tests.support.session.messages import SECOND
from tests.support.session.peer import Peer

PERIOD = 5


def watched(threshold: float = 2, **limits: int | bool) -> Peer:
    """A peer whose session is watched, with a window of 2 and no resends."""
    own = {"max_inflight": 2, "retry_interval": 0, "stalled_window": 0, **limits}
    return Peer(Limits(slow_threshold=threshold, slow_check_period=PERIOD * SECOND, **own))  # type: ignore[arg-type]


def test_slow_consumer_is_reported_once() -> None:
    """FC-14: fewer than threshold acknowledgements a second while there is a backlog are reported, once per episode."""
    peer = watched()
    peer.deliver(*range(50), qos=1)

    peer.advance(PERIOD - 1)
    assert peer.host.reports == []
    peer.advance(1)
    assert peer.host.reports == ["slow_consumer"]
    peer.advance(10 * PERIOD)
    assert peer.host.reports == ["slow_consumer"]
    assert peer.take_counters().uncommon.slow_consumer == 1
    assert peer.host.disconnects == []


@pytest.mark.parametrize(("per_period", "slow"), [(9, True), (10, False)])
def test_threshold(per_period: int, slow: bool) -> None:
    """FC-14: a client at the threshold is not slow, below it it is."""
    peer = watched(2)
    peer.deliver(*range(50), qos=1)

    for _ in range(per_period):
        peer.puback(peer.window_ids()[0])
    peer.advance(PERIOD)

    assert (peer.host.reports == ["slow_consumer"]) is slow


@pytest.mark.parametrize(("seconds", "slow"), [(1, False), (1.9, False), (3, True)])
def test_one_at_a_time(seconds: float, slow: bool) -> None:
    """FC-14: by default who takes a message a second while more wait is not slow, though timers are late."""
    peer = watched(Config().session.slow_consumer.threshold or 0.0, max_inflight=1)
    peer.deliver(*range(20), qos=1)

    for _ in range(10):
        peer.now += round(seconds * SECOND)
        peer.puback(peer.window_ids()[0])
        peer.advance(0)

    assert (peer.host.reports == ["slow_consumer"]) is slow


def test_draining_counts() -> None:
    """FC-14: QoS 0 that is sent at the threshold counts, though it is never acknowledged."""
    peer = watched(2, consumer_max_rate=3)
    peer.deliver(*range(40), qos=0)

    peer.advance(2 * PERIOD)

    assert peer.host.reports == []


def test_draining_to_make_room_counts() -> None:
    """FC-6, FC-14: deliveries that are sent to make room in a full queue count."""
    peer = watched(2, consumer_max_rate=10, max_mqueue_len=1)
    peer.deliver(*range(3), qos=0)
    for _ in range(PERIOD):
        peer.now += SECOND  # timers are late
        peer.deliver(*range(4), qos=0)
    peer.advance(0)

    assert peer.host.reports == ["mqueue_full"]


def test_backlog_of_one() -> None:
    """FC-14: a backlog lasts while new deliveries replace those that were sent."""
    peer = watched(max_mqueue_len=1)
    peer.deliver(*range(3), qos=1)
    for number in range(PERIOD):
        peer.advance(1)
        peer.deliver(number, qos=1)

    assert peer.host.reports == ["mqueue_full", "slow_consumer"]


def test_no_backlog_no_slow_consumer() -> None:
    """FC-14: only periods in which something waited all the time count."""
    peer = watched(100)
    for _ in range(PERIOD * 4):
        peer.deliver("a", "b", "c", qos=1)
        peer.advance(0.5)
        peer.puback(*peer.window_ids())
        peer.puback(*peer.window_ids())
        peer.advance(0.5)

    assert peer.host.reports == []


def test_backlog_that_has_gone() -> None:
    """FC-14: a client without a backlog is not slow, however little it gets."""
    peer = watched(2)
    peer.deliver(*range(4 * PERIOD), qos=1)
    while peer.window_ids():
        peer.puback(*peer.window_ids())
    peer.advance(10 * PERIOD)

    assert peer.host.reports == []


def test_acknowledging_counts() -> None:
    """FC-14: a client that acknowledges at the threshold is not slow, though QoS 0 waits for its send path."""
    peer = watched(2)
    peer.pause()
    peer.deliver("zero")
    for _ in range(4 * PERIOD):
        peer.deliver("a", "b", qos=1)
        peer.puback(*peer.window_ids())
        peer.advance(0.5)

    assert peer.waiting() == ["zero"]
    assert peer.host.reports == []


def test_new_episode_is_reported_again() -> None:
    """FC-14: a new backlog that does not drain is reported again."""
    peer = watched()
    peer.deliver(*range(4), qos=1)
    peer.advance(PERIOD)
    while peer.window_ids():
        peer.puback(*peer.window_ids())
    peer.deliver(*range(4), qos=1)
    peer.advance(PERIOD)

    assert peer.host.reports == ["slow_consumer", "slow_consumer"]


def test_a_first_delivery_at_the_moment_of_a_check() -> None:
    """FC-14: a first delivery that waits, in the moment of a check, does not end the episode: a report comes once."""
    watch = Watch(Limits(slow_threshold=2, slow_check_period=PERIOD * SECOND))
    window = Window()
    at = watch.begin_backlog(SECOND)
    assert watch.check(window, at) == SLOW
    at = watch.begin_backlog(at + SECOND)
    assert watch.check(window, at - PERIOD * SECOND) == 0
    assert watch.check(window, at) == 0


def test_policy_disconnect() -> None:
    """FC-14: with `disconnect` a slow consumer is disconnected with 0x97."""
    peer = watched(slow_disconnect=True)
    peer.deliver(*range(50), qos=1)

    peer.advance(PERIOD)

    assert peer.host.disconnects == [reason_codes.QUOTA_EXCEEDED]


def test_offline_is_not_slow() -> None:
    """FC-14: an offline client is not slow; the period begins anew with its reconnect."""
    peer = watched()
    peer.deliver(*range(50), qos=1)
    peer.advance(1)
    peer.disconnect()
    peer.advance(10 * PERIOD)
    assert peer.host.reports == []

    peer.connect()
    peer.advance(PERIOD)
    assert peer.host.reports == ["slow_consumer"]


def test_reported_again_after_a_reconnect() -> None:
    """FC-14: a slow consumer is reported once in each connection, though its backlog stays."""
    peer = watched()
    peer.deliver(*range(50), qos=1)
    peer.advance(2 * PERIOD)
    peer.disconnect()
    peer.connect()
    peer.advance(2 * PERIOD)
    assert peer.host.reports == ["slow_consumer", "slow_consumer"]


def test_stalled_window() -> None:
    """FC-14: a window that is full for `stalled_window` without an acknowledgement is reported, once."""
    peer = watched(0, stalled_window=60 * SECOND)
    peer.deliver("a", "b", qos=1)

    peer.advance(59)
    assert peer.host.reports == []
    peer.advance(1)
    assert peer.host.reports == ["stalled_window"]
    peer.advance(600)
    assert peer.host.reports == ["stalled_window"]
    assert peer.take_counters().uncommon.stalled_window == 1


def test_any_acknowledgement_is_progress() -> None:
    """FC-14: a PUBREC, which frees no slot, is progress: the time begins anew."""
    peer = watched(0, stalled_window=60 * SECOND)
    peer.deliver("a", "b", qos=2)

    peer.advance(50)
    peer.pubrec(1)
    peer.advance(59)
    assert peer.host.reports == []
    peer.advance(1)
    assert peer.host.reports == ["stalled_window"]


def test_acknowledgement_of_a_window_that_stays_full() -> None:
    """FC-14: a PUBACK is progress also if the window stays full after a reconnect with a smaller one."""
    peer = watched(0, max_inflight=3, stalled_window=60 * SECOND)
    peer.deliver("a", "b", "c", qos=1)
    peer.disconnect()
    peer.connect(5, receive_maximum=1)

    peer.advance(50)
    peer.puback(1)
    peer.advance(59)
    assert peer.host.reports == []
    peer.advance(1)
    assert peer.host.reports == ["stalled_window"]


def test_window_that_a_new_connection_fills() -> None:
    """FC-14: a kept window that a smaller new one makes full is watched."""
    peer = watched(0, stalled_window=60 * SECOND)
    peer.deliver("a", qos=1)
    peer.disconnect()
    peer.connect(5, receive_maximum=1)

    peer.advance(60)

    assert peer.host.reports == ["stalled_window"]


def test_stalls_again() -> None:
    """FC-14: a window that stalls again after progress is reported again; one with room is not."""
    peer = watched(0, stalled_window=60 * SECOND)
    peer.deliver("a", "b", "c", qos=1)
    peer.advance(60)
    peer.puback(1)
    peer.advance(60)
    assert peer.host.reports == ["stalled_window", "stalled_window"]

    peer.puback(2)
    peer.advance(600)
    assert peer.host.reports == ["stalled_window", "stalled_window"]


def test_time_begins_when_the_window_fills() -> None:
    """FC-14: the time counts from when the window became full, not from its last acknowledgement."""
    peer = watched(0, stalled_window=60 * SECOND)
    peer.deliver("a", "b", qos=1)
    peer.puback(1)
    peer.advance(50)
    peer.deliver("c", qos=1)
    peer.advance(59)
    assert peer.host.reports == []
    peer.advance(1)
    assert peer.host.reports == ["stalled_window"]


def test_off() -> None:
    """FC-14: with both switched off nothing is watched, and no timer is set."""
    peer = watched(0)
    peer.deliver(*range(50), qos=1)

    assert peer.host.arms == []
