"""FC-39: a session whose client comes back with other limits, such as those of another listener."""

import pytest

from protocol.errors import MQTTError
from protocol.publish import Publish
from session.limits import Limits
from session.session import use_limits
from tests.support.session.messages import SECOND, texts
from tests.support.session.peer import Peer


def test_the_window_is_of_the_connection() -> None:
    """The window keeps its size until the client connects again; what has waited fills the larger one then."""
    peer = Peer(Limits(max_inflight=1))
    peer.deliver("a", "b", "c", "d", qos=1)
    use_limits(peer.session, Limits(max_inflight=3))
    assert texts(peer.puback(1)) == ["b"]
    peer.disconnect()
    assert texts(peer.connect()) == ["b", "c", "d"]


def test_the_mqueue_at_once() -> None:
    """The limits of the mqueue hold from now on; what exceeds them already stays."""
    peer = Peer(Limits(max_mqueue_len=3), online=False)
    peer.publish("a", "b", "c", qos=1)
    use_limits(peer.session, Limits(max_mqueue_len=2))
    assert peer.waiting() == ["a", "b", "c"]
    peer.publish("d", qos=1)
    assert peer.waiting() == ["c", "d"]


@pytest.mark.parametrize(("before", "after", "sent"), [(-1, 100, ["c"]), (100, -1, ["c", "d"]), (1000, 100, ["c"])])
def test_the_byte_window_of_the_connection(before: int, after: int, sent: list[str]) -> None:
    """FC-10: a byte window that begins with a connection counts what is unacknowledged since before."""
    peer = Peer(Limits(consumer_window_size=before))
    peer.deliver("a", "b", qos=1, size=40)
    use_limits(peer.session, Limits(consumer_window_size=after))
    peer.disconnect()
    assert texts(peer.connect()) == ["a", "b"]
    assert peer.deliver("c", "d", qos=1, size=40) == (["c", "d"] if after < 0 else [])
    if after >= 0:
        assert texts(peer.puback(1)) == sent


def test_the_rate_of_the_connection() -> None:
    """FC-11: a rate begins, and ends, with a connection."""
    peer = Peer(Limits())
    use_limits(peer.session, Limits(consumer_max_rate=1))
    assert peer.deliver("a", "b", "c") == ["a", "b", "c"]
    peer.disconnect()
    peer.connect()
    assert peer.deliver("d", "e") == ["d"]
    use_limits(peer.session, Limits())
    peer.disconnect()
    assert texts(peer.connect()) == ["e"]
    assert peer.deliver("f", "g") == ["f", "g"]


def test_the_watch_follows() -> None:
    """FC-14: a stalled window is reported after the time that counts now."""
    peer = Peer(Limits(max_inflight=1, stalled_window=100 * SECOND, retry_interval=0))
    peer.deliver("a", qos=1)
    peer.disconnect()
    use_limits(peer.session, Limits(max_inflight=1, stalled_window=5 * SECOND, retry_interval=0))
    peer.connect()
    peer.advance(6)
    assert peer.take_counters().begin_uncommon().stalled_window == 1


def test_received_ids_follow() -> None:
    """FC-20, FC-22: the ids that wait for PUBREL have the bound that counts now."""
    peer = Peer(Limits(receive_maximum=1), 5)
    peer.send(Publish(b"t", b"", 2, packet_id=1))
    use_limits(peer.session, Limits(receive_maximum=2))
    peer.send(Publish(b"t", b"", 2, packet_id=2))
    with pytest.raises(MQTTError):
        peer.send(Publish(b"t", b"", 2, packet_id=3))


def test_an_age_begins() -> None:
    """FC-36: what waits already is dropped when it is too old by the age that counts now."""
    peer = Peer(Limits(max_inflight=1, retry_interval=0))
    peer.deliver("a", "b", qos=1)
    peer.disconnect()
    use_limits(peer.session, Limits(max_inflight=1, retry_interval=0, max_mqueue_age=8 * SECOND))
    peer.connect()
    peer.advance(10)
    assert peer.waiting() == []
