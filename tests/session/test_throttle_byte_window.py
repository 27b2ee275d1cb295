"""FC-10: `consumer_window_size`, the byte window of a session."""

import pytest

from session.limits import Limits
from tests.support.session.messages import texts
from tests.support.session.peer import Peer


@pytest.mark.parametrize("qos", [1, 2])
def test_unacknowledged_bytes(qos: int) -> None:
    """FC-10: unacknowledged payload bytes stay within the window; more waits, and is not lost."""
    peer = Peer(Limits(consumer_window_size=100))

    assert peer.deliver("a", "b", "c", qos=qos, size=40) == ["a", "b"]
    assert peer.waiting() == ["c"]
    if qos == 1:
        assert texts(peer.puback(1)) == ["c"]
    else:
        assert texts(peer.pubrec(1)) == []
        assert texts(peer.pubcomp(1)) == ["c"]


def test_larger_than_the_window_goes_alone() -> None:
    """FC-10: a delivery larger than the window is sent alone."""
    peer = Peer(Limits(consumer_window_size=100))
    peer.deliver("a", qos=1, size=10)

    assert peer.deliver("huge", "b", qos=1, size=500) == []
    assert texts(peer.puback(1)) == ["huge"]
    assert texts(peer.puback(2)) == ["b"]


@pytest.mark.parametrize("size", [0, 1, 50])
def test_one_at_a_time(size: int) -> None:
    """FC-10: with 0 each delivery waits for the acknowledgement of the one before, also without payload."""
    peer = Peer(Limits(consumer_window_size=0))

    peer.deliver("", "", "", qos=1, size=size)
    for packet_id in (1, 2, 3):
        assert peer.window_ids() == [packet_id]
        peer.puback(packet_id)
    assert peer.window_ids() == []


def test_qos0_in_the_transport_counts() -> None:
    """FC-10: QoS 0 counts until the transport is empty."""
    peer = Peer(Limits(consumer_window_size=100))
    peer.publish("zero", qos=0, size=80)
    peer.outbound.run_pass(peer.now)
    peer.pause()  # as the transport does that could not write it all at once
    assert texts(peer.flush()) == ["zero"]

    assert peer.deliver("one", qos=1, size=40) == []
    assert peer.deliver("small", qos=1, size=20) == []  # FC-2: behind the other one
    assert texts(peer.resume()) == ["one", "small"]


def test_qos0_goes_on_as_it_is_written() -> None:
    """FC-10: QoS 0 beyond the window is sent in later passes, when the transport has written."""
    peer = Peer(Limits(consumer_window_size=100))

    peer.publish(*range(10), qos=0, size=40)
    first = texts(peer.run_pass())
    rest = texts(peer.run())

    assert first == ["0", "1"]
    assert first + rest == [str(number) for number in range(10)]


def test_qos0_waits_for_acknowledgements() -> None:
    """FC-10: unacknowledged QoS 1 and 2 leave less for QoS 0, counted as gated by a full window."""
    peer = Peer(Limits(consumer_window_size=100))
    peer.deliver("one", qos=1, size=90)

    assert peer.deliver("zero", qos=0, size=20) == []
    assert peer.take_counters().uncommon.gated_window_full == 1
    assert texts(peer.puback(1)) == ["zero"]


def test_order_holds() -> None:
    """FC-9, FC-10: a small delivery does not overtake a large one that has to wait."""
    peer = Peer(Limits(consumer_window_size=100))

    assert peer.deliver("a", "b", qos=1, size=90) == ["a"]
    assert peer.deliver("c", qos=1, size=1) == []
    assert texts(peer.puback(1)) == ["b", "c"]


def test_unacknowledged_bytes_outlive_the_connection() -> None:
    """FC-8, FC-10: the kept window is resent, and its bytes count on the new connection."""
    peer = Peer(Limits(consumer_window_size=100))
    peer.deliver("a", "b", "c", qos=1, size=40)
    peer.disconnect()

    assert texts(peer.connect()) == ["a", "b"]
    assert peer.waiting() == ["c"]
    assert texts(peer.puback(1)) == ["c"]


def test_too_large_for_the_new_connection() -> None:
    """FC-10: a delivery that is too large for the client after a reconnect frees its bytes."""
    peer = Peer(Limits(consumer_window_size=100))
    peer.deliver("big", "b", qos=1, size=80)
    peer.disconnect()

    peer.connect(5, maximum_packet_size=50)

    assert peer.waiting() == []  # too large as well
    assert peer.deliver("c", qos=1, size=30) == ["c"]
    assert peer.take_counters().uncommon.window_bytes == 30


def test_the_transport_goes_with_its_connection() -> None:
    """FC-10: bytes in the transport of a broken connection no longer count; unacknowledged ones do."""
    peer = Peer(Limits(consumer_window_size=100))
    peer.deliver("one", qos=1, size=30)
    peer.publish("zero", size=50)
    peer.outbound.run_pass(peer.now)
    peer.pause()
    peer.disconnect()

    assert peer.take_counters().uncommon.window_bytes == 30


def test_what_has_been_written_does_not_count() -> None:
    """FC-6, FC-10: a new pass with an empty transport sends before a full queue drops."""
    peer = Peer(Limits(consumer_window_size=0, max_mqueue_len=1))
    peer.publish("a")
    peer.run_pass()
    peer.publish("b", "c")
    peer.run_pass()

    assert texts(peer.run()) == ["c"]
    assert texts(peer.packets) == ["a", "b", "c"]


def test_answers_do_not_count() -> None:
    """FC-10, FC-15: acknowledgements in the transport hold back no delivery."""
    peer = Peer(Limits(consumer_window_size=0))
    peer.publish("a", "b")
    peer.run_pass()

    peer.session.inbound.release(1)
    peer.outbound.drain(peer.now)

    assert texts(peer.flush()) == ["b"]


def test_nothing_counts_at_the_end() -> None:
    """FC-10: a session that has ended has no bytes under way."""
    peer = Peer(Limits(consumer_window_size=100))
    peer.deliver("a", "b", qos=1, size=60)
    peer.outbound.end(peer.now)
    peer.now += 1

    counters = peer.take_counters()

    assert counters.uncommon.window_bytes == 0
    assert counters.uncommon.window_bytes_full_us == 0


def test_counters() -> None:
    """FC-10: the counters have the time for which the head waited for bytes, and the bytes under way."""
    peer = Peer(Limits(consumer_window_size=100, retry_interval=0))
    peer.deliver("a", "b", qos=1, size=60)
    peer.advance(3)
    peer.puback(1)
    peer.advance(2)

    counters = peer.take_counters()

    assert counters.uncommon.window_bytes_full_us == 3_000_000
    assert counters.uncommon.window_bytes == 60


def test_off_by_default() -> None:
    """FC-10: by default there is no byte window."""
    peer = Peer()

    assert len(peer.deliver(*range(32), qos=1, size=1_000_000)) == 32
    assert peer.outbound.sender.throttle is None
