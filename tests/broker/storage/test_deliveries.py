"""Which deliveries of a session are pending (FC-27)."""

from hypothesis import given
from hypothesis import strategies as st

from broker.storage import records
from broker.storage.deliveries import Deliveries


def told(record: bytes) -> list[int]:
    """The deliveries that a record says are done."""
    if not record:
        return []
    ((kind, body),) = records.each(record, 0)
    assert kind == records.DONE
    queue, ranges = records.read_done(body)
    assert queue == 1
    return [number for first, count in ranges for number in range(first, first + count)]


@given(st.permutations(range(12)), st.integers(0, 12), st.sets(st.integers(0, 11)))
def test_whatever_the_order(order: list[int], count: int, commits: set[int]) -> None:
    """Wherever commits fall, the records together say what is done, each delivery once."""
    deliveries = Deliveries(1)
    assert [deliveries.begin() for _ in range(12)] == list(range(12))
    said: list[int] = []
    for position, number in enumerate(order[:count]):
        deliveries.finish(number)
        assert not deliveries.finish(number)
        if position in commits:
            said += told(deliveries.take_record())
    said += told(deliveries.take_record())
    assert sorted(said) == sorted(order[:count])
    assert deliveries.pending == set(order[count:])
    assert deliveries.take_record() == b""


def test_the_first_one_asks_for_a_record() -> None:
    """Only the first delivery since the last record says that there is one to be written."""
    deliveries = Deliveries(1)
    numbers = [deliveries.begin() for _ in range(3)]
    assert [deliveries.finish(number) for number in numbers] == [True, False, False]
    deliveries.take_record()
    assert deliveries.finish(deliveries.begin())


@given(st.sets(st.integers(0, 2**63)))
def test_ranges(numbers: set[int]) -> None:
    """Neighbours are told together."""
    body = records.done(1, list(numbers))[records.HEAD_SIZE :]
    _, ranges = records.read_done(body)
    assert {number for first, count in ranges for number in range(first, first + count)} == numbers
    assert len(ranges) == len([number for number in numbers if number - 1 not in numbers])
