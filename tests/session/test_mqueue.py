"""The mqueue by itself: order, what fits, and what each policy drops (FC-4, FC-5)."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.publish import Publish
from session.flows import PUBLISHER
from session.limits import DROP_NEWEST, DROP_OLDEST, DROP_OLDEST_QOS0, Limits
from session.mqueue import MQueue
from session.new_mqueue import new_mqueue
from session.priorities import Priorities
from tests.support.session.messages import message, text_of, texts

POLICIES = [DROP_OLDEST, DROP_OLDEST_QOS0, DROP_NEWEST]


def queue_of(qos_of_each: Iterable[int], size: int = 1) -> MQueue:
    """A queue of messages 0, 1, 2 ... of the given QoS and size."""
    mqueue = MQueue()
    for number, qos in enumerate(qos_of_each):
        mqueue.append(message(number, qos, size=size))
    return mqueue


def test_first_in_first_out() -> None:
    """FC-4: what joined first leaves first, whatever its QoS."""
    mqueue = queue_of([1, 0, 2])

    assert mqueue.head() is next(iter(mqueue))
    assert [text_of(mqueue.pop()) for _ in range(3)] == ["0", "1", "2"]


def test_empty_queue_has_no_head() -> None:
    """FC-4: an empty queue has no head, and `pop` raises IndexError."""
    assert MQueue().head() is None
    with pytest.raises(IndexError):
        MQueue().pop()


@pytest.mark.parametrize("fairness", [-1, PUBLISHER])
@pytest.mark.parametrize("weighted", [False, True])
def test_oldest(fairness: int, weighted: bool) -> None:
    """Who asks for the age of what waits gets that of the oldest delivery, whichever lane is next (FC-12, FC-33)."""
    mqueue = new_mqueue(Limits(priorities=Priorities([("a", 3)]) if weighted else None, fairness=fairness))
    assert mqueue.oldest() == 0
    for number in range(1, 7):
        publish = message(number, 1, "ba"[number % 2], now=number)
        publish.flow = number % 3
        mqueue.append(publish)

    waiting = set(range(1, 7))
    while waiting:
        assert mqueue.oldest() == min(waiting)
        waiting.remove(mqueue.pop().received_at)
    assert mqueue.oldest() == 0


@pytest.mark.parametrize(("length", "fits"), [(2, True), (3, False), (4, False)])
def test_fits_by_length(length: int, fits: bool) -> None:
    """FC-5: max_mqueue_len deliveries fit, one more does not."""
    assert queue_of([0] * length).fits(message("new"), Limits(max_mqueue_len=3)) is fits


@pytest.mark.parametrize(("size", "fits"), [(4, True), (5, False)])
def test_fits_by_bytes(size: int, fits: bool) -> None:
    """FC-5: max_mqueue_bytes payload bytes fit, one more does not."""
    mqueue = queue_of([0, 1], size=3)

    assert mqueue.fits(message("new", size=size), Limits(max_mqueue_bytes=10)) is fits


def test_zero_is_no_limit() -> None:
    """FC-5: a limit of 0 is no limit, of length and of bytes."""
    mqueue = queue_of([0] * 2000, size=100)

    assert mqueue.fits(message("new", size=10**6), Limits(max_mqueue_len=0, max_mqueue_bytes=0))


@pytest.mark.parametrize(
    ("policy", "waiting", "arrival", "dropped", "left"),
    [
        (DROP_OLDEST, [1, 0, 2], 0, "0", "12"),
        (DROP_OLDEST, [1, 0, 2], 2, "0", "12"),
        (DROP_NEWEST, [1, 0, 2], 0, "new", "012"),
        (DROP_NEWEST, [0, 0, 0], 2, "new", "012"),
        (DROP_OLDEST_QOS0, [1, 0, 0], 2, "1", "02"),
        (DROP_OLDEST_QOS0, [1, 0, 0], 0, "1", "02"),
        (DROP_OLDEST_QOS0, [0, 1, 2], 1, "0", "12"),
        (DROP_OLDEST_QOS0, [1, 2, 2], 1, "0", "12"),
        (DROP_OLDEST_QOS0, [1, 2, 2], 0, "new", "012"),
    ],
)
def test_victim(policy: str, waiting: list[int], arrival: int, dropped: str, left: str) -> None:
    """FC-5: drop_oldest takes the head, drop_newest the new delivery, drop_oldest_qos0 the first QoS 0 if any."""
    mqueue = queue_of(waiting)

    victim = mqueue.victim(message("new", arrival), Limits(mqueue_overflow=policy))

    assert text_of(victim) == dropped
    assert "".join(texts(mqueue)) == left


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("qos", [0, 1])
def test_larger_than_the_byte_limit(policy: str, qos: int) -> None:
    """FC-5: a delivery larger than max_mqueue_bytes is dropped itself, and no other for it."""
    mqueue = queue_of([0, 1, 2])
    arrival = message("new", qos, size=11)

    assert mqueue.victim(arrival, Limits(max_mqueue_bytes=10, mqueue_overflow=policy)) is arrival
    assert len(mqueue) == 3


def test_exactly_the_byte_limit() -> None:
    """FC-5: a delivery of exactly max_mqueue_bytes can wait, alone."""
    limits = Limits(max_mqueue_bytes=10)
    mqueue = queue_of([1, 1], size=5)
    arrival = message("new", 1, size=10)

    while not mqueue.fits(arrival, limits):
        assert mqueue.victim(arrival, limits) is not arrival
    assert len(mqueue) == 0


def test_oldest_qos0_is_found_again() -> None:
    """FC-5: drop_oldest_qos0 finds the oldest QoS 0 after others before it were dropped or sent."""
    limits = Limits(mqueue_overflow=DROP_OLDEST_QOS0)
    mqueue = queue_of([1, 1, 1, 0, 2])
    assert text_of(mqueue.victim(message("new", 1), limits)) == "3"
    for _ in range(4):
        mqueue.pop()

    for text in ("a", "b", "c"):
        mqueue.append(message(text, 0))

    assert text_of(mqueue.victim(message("new", 1), limits)) == "a"
    assert text_of(mqueue.victim(message("new", 1), limits)) == "b"


class PlainQueue:
    """What an MQueue does, said with one list and no bookkeeping."""

    def __init__(self) -> None:
        self.waiting: list[Publish] = []

    def drop_oldest_qos0(self, arrival: Publish) -> Publish:
        """The first QoS 0 there is, counting the arrival, else the head."""
        for publish in self.waiting:
            if publish.qos == 0:
                self.waiting.remove(publish)
                return publish
        return arrival if arrival.qos == 0 or not self.waiting else self.waiting.pop(0)


@given(st.lists(st.tuples(st.sampled_from(["append", "pop", "victim"]), st.integers(0, 2), st.integers(1, 9))))
def test_bookkeeping_equals_a_plain_list(steps: list[tuple[str, int, int]]) -> None:
    """FC-5: after any appends, pops and drops, order, bytes and counts by QoS are those of a plain list."""
    limits = Limits(mqueue_overflow=DROP_OLDEST_QOS0)
    mqueue, plain = MQueue(), PlainQueue()
    for number, (step, qos, size) in enumerate(steps):
        publish = message(number, qos, size=size)
        if step == "append":
            mqueue.append(publish)
            plain.waiting.append(publish)
        elif step == "pop" and plain.waiting:
            assert mqueue.pop() is plain.waiting.pop(0)
        elif step == "victim":
            assert mqueue.victim(publish, limits) is plain.drop_oldest_qos0(publish)

        assert list(mqueue) == plain.waiting
        assert mqueue.bytes == sum(waiting.size for waiting in plain.waiting)
        by_qos = [sum(waiting.qos == wanted for waiting in plain.waiting) for wanted in range(3)]
        assert [mqueue.waiting_qos0, mqueue.waiting_qos1, mqueue.waiting_qos2] == by_qos
        assert mqueue.waiting_qos1 + mqueue.waiting_qos2 == by_qos[1] + by_qos[2]
