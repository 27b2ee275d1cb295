"""The memory watermark (FC-32): when it is reached and left, and what it makes of the limits of queues."""

from hypothesis import given
from hypothesis import strategies as st

from broker.quotas.watermark import LARGE_BYTES, LARGE_LEN, Narrowed, Watermark
from protocol.publish import Publish
from session.limits import DROP_ARRIVAL, DROP_OLDEST, Limits
from session.mqueue import MQueue
from session.new_mqueue import new_mqueue
from session.priorities import Priorities

MIB = 1024 * 1024


@given(st.lists(st.integers(0, 200)))
def test_hysteresis(sizes: list[int]) -> None:
    """FC-32: it begins at the watermark and ends below nine tenths of it; each change is told once."""
    watermark = Watermark(100)
    reached = False
    for size in sizes:
        expected = size >= 100 or (reached and size >= 90)
        assert watermark.look(size) == (expected != reached)
        reached = expected
        assert watermark.reached == reached


def test_off() -> None:
    """FC-32: without a watermark nothing is ever reached, and one that is taken away ends."""
    watermark = Watermark()
    assert not watermark.look(10**15)
    watermark.high = 100
    assert watermark.look(100)
    watermark.high = 0
    assert watermark.look(10**15)
    assert not watermark.reached


@given(st.integers(0, 10_000), st.integers(0, MIB))
def test_limits_are_narrowed_and_come_back(length: int, size: int) -> None:
    """FC-32: limits are lowered, never raised, and are what they were when it ends."""
    limits = Limits(max_mqueue_len=length, max_mqueue_bytes=size)
    narrowed = Narrowed(limits)
    assert limits.max_mqueue_len == (min(length, LARGE_LEN) if length else LARGE_LEN)
    assert limits.max_mqueue_bytes == (min(size, LARGE_BYTES) if size else LARGE_BYTES)
    narrowed.end()
    assert (limits.max_mqueue_len, limits.max_mqueue_bytes) == (length, size)
    assert limits.mqueue_overflow == DROP_OLDEST


@given(st.lists(st.sampled_from([b"a", b"b", b"c"]), max_size=300), st.booleans())
def test_what_waits_stays(topics: list[bytes], weighted: bool) -> None:
    """FC-32: a queue that is larger than the narrowed limits drops what arrives, whatever the weights."""
    limits = Limits(max_mqueue_len=0, priorities=Priorities([("a", 5), ("b", 2)]) if weighted else None)
    queue: MQueue = new_mqueue(limits)
    for topic in topics:
        queue.append(Publish(topic, b"", 1))
    Narrowed(limits)
    assert limits.mqueue_overflow == DROP_ARRIVAL
    arrival = Publish(b"a", b"", 2)
    if not queue.fits(arrival, limits):
        assert queue.victim(arrival, limits) is arrival
    assert queue.length == len(topics)
