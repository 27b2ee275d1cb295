"""FC-11: `consumer_max_rate`, deliveries a second of a session."""

import pytest

from session.limits import Limits
from tests.support.session.messages import SECOND, texts
from tests.support.session.peer import Peer


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_what_exceeds_the_rate_waits(qos: int) -> None:
    """FC-11: a fifth of a second's worth is sent at once, the rest at the rate, in order, none lost."""
    peer = Peer(Limits(consumer_max_rate=10, max_inflight=0, retry_interval=0))

    assert peer.deliver(*range(30), qos=qos) == ["0", "1"]
    assert texts(peer.advance(1)) == [str(number) for number in range(2, 12)]
    assert texts(peer.advance(1.8)) == [str(number) for number in range(12, 30)]
    assert peer.waiting() == []


def test_gated_by_the_rate() -> None:
    """FC-11: QoS 0 that waits only for the rate is counted as gated by it."""
    peer = Peer(Limits(consumer_max_rate=5))

    peer.deliver("a", "b", "c", qos=0)

    counters = peer.take_counters()
    assert counters.uncommon.gated_rate == 1
    assert counters.uncommon.gated_backlog == 1
    assert counters.sent_qos0 == 1


def test_resends_are_free() -> None:
    """FC-8, FC-11: the rate counts first transmissions; resends are sent when they are due."""
    peer = Peer(Limits(consumer_max_rate=5, retry_interval=10 * SECOND))
    peer.deliver("a", qos=1)
    peer.advance(9)
    peer.deliver("b", qos=1)

    assert texts(peer.advance(1)) == ["a"]
    assert peer.deliver("c", qos=1) == ["c"]


def test_time_is_counted() -> None:
    """FC-11: the counters have the time for which the head waited for the rate."""
    peer = Peer(Limits(consumer_max_rate=2))
    peer.deliver(*range(5), qos=0)  # one goes at once, four wait half a second each
    peer.advance(10)

    assert 1.9 * SECOND <= peer.take_counters().uncommon.rate_limited_us <= 2 * SECOND


def test_timer_goes_on_for_the_rest() -> None:
    """FC-8, FC-11: the timer of the rate does not replace those of resends and of packet ids."""
    peer = Peer(Limits(consumer_max_rate=5, retry_interval=2 * SECOND, max_inflight=2))

    peer.deliver(*range(4), qos=1)
    assert texts(peer.advance(1)) == ["1"]
    assert texts(peer.advance(1)) == ["0"]
    assert texts(peer.advance(0.5)) == ["1"]
    assert texts(peer.puback(1, 2)) == ["2"]
    assert texts(peer.advance(1)) == ["3"]


def test_overflow_of_what_waits_for_the_rate() -> None:
    """FC-5, FC-11: deliveries that wait for the rate overflow as others do."""
    peer = Peer(Limits(consumer_max_rate=5, max_mqueue_len=3))

    peer.deliver(*range(10), qos=0)

    assert peer.waiting() == ["7", "8", "9"]
    assert (peer.take_counters().drops or {}) == {"dropped_queue_full_qos0": 6}
