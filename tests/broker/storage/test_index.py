"""FC-30: the index of deliveries that are on disk only."""

from hypothesis import given
from hypothesis import strategies as st

from broker.storage.index import Entry, Index
from session.address import Address, AddressRule

ADDRESSES = [Address(b"%d" % number, AddressRule(1)) for number in range(2)]

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 200), st.integers(0, 2**28)),
        st.tuples(st.just("remove"), st.integers(0, 300), st.just(0)),
        st.tuples(st.just("first"), st.integers(1, 80), st.just(0)),
        st.tuples(st.just("move"), st.integers(0, 300), st.integers(1, 2**28)),
        st.tuples(st.just("replace"), st.integers(0, 300), st.integers(0, 2**28)),
    ),
    max_size=60,
)


def entry_of(number: int, size: int) -> Entry:
    """An entry of its own kind: of its size depends whether it has an address, and which."""
    address = [None, *ADDRESSES][size % 3]
    cost = 0 if address is None else size + 2**33
    return Entry(number, 1 + number, size + 17, size, 1 + number % 2, number * 10**6, address, cost)


@given(STEPS)
def test_equals_a_plain_dictionary(steps: list[tuple[str, int, int]]) -> None:
    """FC-37 too: after additions, removals, moves and replacements it has the items of a dictionary, in order."""
    index = Index()
    plain: dict[int, Entry] = {}
    following = 0
    for step, number, size in steps:
        if step == "add":
            for _ in range(number):
                entry = entry_of(following, size)
                index.add(entry)
                plain[following] = entry
                following += 1 + size % 3
        elif step == "remove":
            assert index.remove(number) == plain.pop(number, None)
        elif step == "first":
            for _ in range(min(number, len(plain))):
                first = index.first()
                assert index.remove(first.delivery) == first == plain.pop(next(iter(plain)))
        elif step == "replace":
            if number in plain:
                entry = entry_of(following, size)
                assert index.replace(number, entry) == plain[number]
                plain = {
                    (following if each == number else each): (entry if each == number else plain[each])
                    for each in plain
                }
                assert not index.holds(number)
                assert index.find(following) == entry
                following += 1
        else:
            assert index.move(number, size, 2**31) == plain.get(number)
            if number in plain:
                plain[number] = plain[number]._replace(frame=size, offset=2**31)
        assert index.length == len(plain)
        assert index.entries() == list(plain.values())
        assert index.find(number) == plain.get(number)
        assert index.holds(number) == (number in plain)
        qos2 = sum(entry.qos == 2 for entry in plain.values())
        assert index.totals() == (len(plain) - qos2, qos2, sum(entry.size for entry in plain.values()))
        assert index.sizes() == [(entry.frame, entry.size) for entry in plain.values()]


def test_the_first_ones() -> None:
    """One read is bounded by a count and, from the second delivery on, by bytes."""
    index = Index()
    for number in range(10):
        index.add(Entry(number, 1, 16, 100, 1, 0))
    index.remove(0)
    assert [entry.delivery for entry in index.head(3, 10_000)] == [1, 2, 3]
    assert [entry.delivery for entry in index.head(10, 250)] == [1, 2]
    assert [entry.delivery for entry in index.head(10, 1)] == [1]


def test_what_is_replaced_blocks_nobody() -> None:
    """FC-25, FC-37: PUBLISHes that wait for room in an address wait for no delivery whose place another has taken."""
    address = Address(b"full", AddressRule(1))
    address.waiting = 1
    index = Index()
    index.add(Entry(0, 1, 16, 100, 1, 0, address, 1_000))
    assert index.is_blocking()
    index.replace(0, Entry(1, 1, 16, 100, 1, 0))
    assert not index.is_blocking()
