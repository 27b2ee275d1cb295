"""The session as a whole: one timer for two purposes, and which intervals have a row."""

import pytest

from session.limits import Limits
from tests.support.session.inbound import from_client
from tests.support.session.messages import SECOND, texts
from tests.support.session.peer import START, Peer


def test_one_timer_serves_both_directions() -> None:
    """FC-8, FC-22: the timer is set for the earlier of the next resend and the next id to forget."""
    peer = Peer(Limits(retry_interval=30 * SECOND, await_rel_timeout=50 * SECOND))
    peer.send(from_client(1, 2))
    assert peer.outbound.sender.timer_at == START + 50 * SECOND
    peer.deliver("a", qos=1)
    assert peer.outbound.sender.timer_at == START + 30 * SECOND

    assert texts(peer.advance(30)) == ["a"]
    assert peer.outbound.sender.timer_at == START + 50 * SECOND
    assert peer.advance(20) == []
    assert peer.take_counters().uncommon.awaiting_rel_expired == 1
    assert peer.outbound.sender.timer_at == START + 60 * SECOND


@pytest.mark.parametrize(("retry", "forget"), [(10, 0), (0, 10)])
def test_timer_of_one_direction(retry: int, forget: int) -> None:
    """FC-8, FC-22: where one of the two is never due, the timer is set for the other."""
    peer = Peer(Limits(retry_interval=retry * SECOND, await_rel_timeout=forget * SECOND))
    peer.send(from_client(1, 2))
    peer.deliver("a", qos=1)

    peer.advance(9)
    assert peer.outbound.sender.timer_at == START + 10 * SECOND
    sent = peer.advance(1)

    assert texts(sent) == (["a"] if retry else [])
    assert peer.take_counters().uncommon.awaiting_rel_expired == (0 if retry else 1)
    assert peer.outbound.sender.timer_at == (START + 20 * SECOND if retry else 0)


def test_ended_session_asks_for_nothing() -> None:
    """FC-8, FC-22: a session that has ended has no timer, and a late one does nothing."""
    peer = Peer()
    peer.send(from_client(1, 2), from_client(2, 2))
    peer.deliver("a", qos=1)

    peer.outbound.end(peer.now)

    assert peer.outbound.sender.timer_at == 0
    peer.session.on_timer(peer.now + 100 * SECOND)
    assert peer.flush() == []
    assert peer.outbound.sender.timer_at == 0


def test_new_session_is_quiet() -> None:
    """A session without events has no row."""
    assert not Peer().session.active()


def test_what_happens_makes_it_active() -> None:
    """Each kind of event gives its interval a row, and the next interval none."""
    peer = Peer(Limits(max_awaiting_rel=1, await_rel_timeout=10 * SECOND))
    peer.deliver("a", qos=1)
    assert active_once(peer)
    peer.puback(1)
    assert active_once(peer)
    peer.send(from_client(1, 2))
    assert active_once(peer)
    peer.send(from_client(2, 2))  # refused
    assert active_once(peer)
    peer.advance(10)  # forgotten
    assert active_once(peer)
    peer.deliver("b", qos=1)
    peer.take_counters()
    peer.advance(30)  # resent
    assert active_once(peer)


def test_mailbox_makes_it_active() -> None:
    """A delivery in the mailbox gives the interval a row."""
    peer = Peer()
    peer.publish("a", qos=0)

    assert peer.session.active()
    peer.run()
    assert active_once(peer)


def test_conditions_make_it_active() -> None:
    """Every interval with a full window or a congested send path has a row."""
    peer = Peer(Limits(max_inflight=1))
    peer.deliver("a", qos=1)
    peer.take_counters()
    assert peer.session.active()
    peer.puback(1)
    peer.take_counters()
    assert not peer.session.active()

    peer.pause()
    peer.take_counters()
    assert peer.session.active()
    peer.resume()
    peer.take_counters()
    assert not peer.session.active()


def active_once(peer: Peer) -> bool:
    """Whether the session is active now, and no longer once its counters are taken."""
    active = peer.session.active()
    peer.take_counters()
    return active and not peer.session.active()
