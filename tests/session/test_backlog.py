"""What waits for a session is in its backlog: without one there is nothing to drain."""

from collections.abc import Callable

import pytest

from session.limits import Limits
from session.source import EMPTY, Consumer, Source
from tests.support.session.messages import message
from tests.support.session.peer import Peer


class Nothing(Source):
    """A source that is empty."""

    def pull(self, consumer: Consumer, now: int) -> int:
        """Deliver nothing."""
        return EMPTY


def queued(peer: Peer) -> None:
    """A delivery waits for a slot."""
    peer.deliver("a", "b", qos=1)


def kept(peer: Peer) -> None:
    """The kept window does not fit into the new one."""
    peer.deliver("a", qos=1)
    peer.disconnect()
    peer.connect(4)


def pulled(peer: Peer) -> None:
    """A group may have something."""
    peer.outbound.pull_later(Nothing())


def offline(peer: Peer) -> None:
    """The client is away."""
    peer.disconnect()
    peer.publish("a", qos=1)


@pytest.mark.parametrize("wait", [queued, kept, pulled, offline], ids=lambda wait: wait.__name__)
def test_what_waits_is_in_the_backlog(wait: Callable[[Peer], None]) -> None:
    """FC-4, FC-8, FC-13: mqueue, kept window and sources are drained because a session that has them has a backlog."""
    peer = Peer(Limits(max_inflight=1))
    peer.deliver("first", qos=1)
    peer.puback(1)
    assert peer.outbound.backlog is None
    wait(peer)
    assert peer.outbound.backlog is not None


@pytest.mark.parametrize("limits", [Limits(consumer_window_size=10), Limits(consumer_max_rate=5)])
def test_limits_that_make_wait(limits: Limits) -> None:
    """FC-10, FC-11: a session with a byte window or a rate has a backlog from its beginning."""
    assert Peer(limits).outbound.backlog is not None


def test_a_fast_client_has_no_backlog() -> None:
    """FC-2, FC-3: deliveries that are sent at once leave no backlog behind."""
    peer = Peer()
    for qos in range(3):
        peer.route(message(qos, qos, now=peer.now))
    peer.run()
    assert peer.outbound.backlog is None
    assert not peer.outbound.drain(peer.now)


def test_an_ended_session_has_nothing_waiting() -> None:
    """The end of a session drops and counts what waits, and nothing is drained afterwards."""
    peer = Peer(Limits(max_inflight=1))
    queued(peer)
    peer.session.end(peer.now)
    assert peer.outbound.backlog is None
    assert peer.take_counters().drops == {"dropped_session_ended_qos1": 1}
