"""Which deliveries of a session are pending (FC-27)."""

from hypothesis import given
from hypothesis import strategies as st

from broker.storage import records
from broker.storage.deliveries import Deliveries
from broker.storage.message import Frame, Memory, Message

MESSAGE = Message(Frame(1), 12, Memory(0))


def done(told: list[bytes]) -> list[int]:
    """The deliveries that records say are done."""
    found = []
    for kind, body in records.each(b"".join(told), 0):
        if kind == records.DONE:
            queue, ranges = records.read_done(body)
            assert queue == 1
            found += [number for first, count in ranges for number in range(first, first + count)]
    return found


def sent(told: list[bytes]) -> list[tuple[int, int]]:
    """The deliveries that records say are sent, with their packet ids."""
    found = []
    for kind, body in records.each(b"".join(told), 0):
        if kind == records.SENT:
            _, ranges = records.read_sent(body)
            found += [(first + each, own + each) for first, own, count in ranges for each in range(count)]
    return found


@given(st.permutations(range(12)), st.integers(0, 12), st.sets(st.integers(0, 11)))
def test_whatever_the_order(order: list[int], count: int, commits: set[int]) -> None:
    """The records of all commits together name each finished delivery once, wherever commits fall."""
    deliveries = Deliveries(1)
    assert [deliveries.begin(MESSAGE) for _ in range(12)] == list(range(12))
    said: list[int] = []
    for position, number in enumerate(order[:count]):
        deliveries.finish(number)
        deliveries.finish(number)
        if position in commits:
            said += done(deliveries.take_records())
    said += done(deliveries.take_records())
    assert sorted(said) == sorted(order[:count])
    assert set(deliveries.pending) == set(order[count:])
    assert deliveries.take_records() == []


def test_what_is_sent() -> None:
    """What is sent is told with its packet id, in the order of sending, but not if it is done before the commit."""
    deliveries = Deliveries(1)
    for _ in range(4):
        deliveries.begin(MESSAGE)
    for number, packet_id in ((1, 9), (0, 10), (2, 11)):
        deliveries.note_sent(number, packet_id)
    deliveries.finish(0)
    told = deliveries.take_records()
    assert (sent(told), done(told)) == ([(1, 9), (2, 11)], [0])
    deliveries.finish(1)
    deliveries.note_sent(3, 12)
    told = deliveries.take_records()
    assert (sent(told), done(told)) == ([(3, 12)], [1])
    assert deliveries.all_inflight() == [(2, 11), (3, 12)]


def test_all_that_is_sent() -> None:
    """Whoever records all that is sent gets what no record has told yet, and later records do not tell it again."""
    deliveries = Deliveries(1)
    for packet_id in (9, 10, 11):
        deliveries.note_sent(deliveries.begin(MESSAGE), packet_id)
    deliveries.finish(1)
    assert deliveries.all_inflight() == [(0, 9), (2, 11)]
    assert sent(deliveries.take_records()) == []
    deliveries.finish(2)
    assert deliveries.all_inflight() == [(0, 9)]


def test_whether_there_is_something_to_record() -> None:
    """Until the next record, from the first delivery on that is sent or done."""
    deliveries = Deliveries(1)
    number = deliveries.begin(MESSAGE)
    assert not deliveries.noted
    deliveries.finish(number)
    assert deliveries.noted
    deliveries.take_records()
    deliveries.finish(number)
    assert not deliveries.noted


@given(st.sets(st.integers(-(2**63), 2**63 - 1)))
def test_ranges(numbers: set[int]) -> None:
    """Consecutive deliveries are recorded as a range."""
    body = records.done(1, list(numbers))[records.HEAD_SIZE :]
    _, ranges = records.read_done(body)
    assert {number for first, count in ranges for number in range(first, first + count)} == numbers
    assert len(ranges) == len([number for number in numbers if number - 1 not in numbers])
