"""The totals of a session: counters of exported intervals stay in them."""

from session.counters import SessionTotals
from session.limits import Limits
from tests.support.session.messages import SECOND, message
from tests.support.session.peer import Peer


def sums(totals: SessionTotals) -> tuple[int, int, int, float]:
    """Sent, acknowledged, dropped, and seconds for which the window was full."""
    return totals.sent, totals.acknowledged, totals.dropped, totals.window_full_us / SECOND


def test_totals_span_intervals() -> None:
    """Sent, acknowledged and dropped deliveries add up over intervals."""
    peer = Peer(Limits(max_inflight=1, max_mqueue_len=1))
    peer.deliver("a", "b", "c", qos=1)
    assert sums(peer.session.totals(peer.now)) == (1, 0, 1, 0)

    peer.take_counters()
    assert sums(peer.session.totals(peer.now)) == (1, 0, 1, 0)

    peer.puback(1)
    peer.take_counters()
    peer.take_counters()
    peer.deliver("d", qos=0)
    assert sums(peer.session.totals(peer.now)) == (3, 1, 1, 0)


def test_time_of_a_full_window() -> None:
    """The time of a full window adds up to the present, over intervals and reconnects."""
    peer = Peer(Limits(max_inflight=1))
    peer.deliver("a", qos=1)
    peer.now += 2 * SECOND
    assert sums(peer.session.totals(peer.now))[3] == 2

    peer.take_counters()
    peer.now += SECOND
    assert sums(peer.session.totals(peer.now))[3] == 3

    peer.disconnect()
    peer.now += SECOND
    assert sums(peer.session.totals(peer.now))[3] == 3


def test_patience() -> None:
    """FC-16: the time for which publishers were paced adds up to the present, over intervals and reconnects."""
    peer, publisher = Peer(Limits(max_inflight=1, max_mqueue_len=1), patience=5 * SECOND), Peer(patience=5 * SECOND)
    for label in "abc":
        peer.route(message(label, 1, now=peer.now), publisher=publisher)
        peer.run()
    assert peer.session.totals(peer.now).paced_for_us == 0

    peer.route(message("d", 1, now=peer.now), publisher=publisher)
    peer.now += SECOND // 20
    assert peer.session.totals(peer.now).paced_for_us == SECOND // 20

    peer.take_counters()
    peer.now += SECOND // 20
    assert peer.session.totals(peer.now).paced_for_us == SECOND // 10

    peer.disconnect()
    peer.now += SECOND
    assert peer.session.totals(peer.now).paced_for_us == SECOND // 10


def test_looking_takes_nothing() -> None:
    """Reading the totals does not change the counters."""
    peer = Peer(Limits(max_inflight=1))
    peer.deliver("a", qos=1)
    peer.now += SECOND
    peer.session.totals(peer.now)

    counters = peer.take_counters()

    assert (counters.sent_qos1, counters.uncommon.window_full_us) == (1, SECOND)
