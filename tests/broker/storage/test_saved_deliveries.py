"""FC-27: the deliveries of a queue while the journal is read."""

from hypothesis import given
from hypothesis import strategies as st

from broker.storage.index import SHIFT, Entry
from broker.storage.saved_deliveries import SavedDeliveries

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 100)),
        st.tuples(st.just("again"), st.integers(-20, 300)),
        st.tuples(st.just("remove"), st.integers(-20, 300)),
        st.tuples(st.just("first"), st.integers(1, 80)),
    ),
    max_size=40,
)


@given(STEPS)
def test_equals_a_plain_dictionary(steps: list[tuple[str, int]]) -> None:
    """Whatever is added in order or not, moved and removed: it has the items of a dictionary, by number."""
    deliveries = SavedDeliveries()
    plain: dict[int, Entry] = {}
    following = 0
    frame = 0

    def add(number: int) -> None:
        nonlocal frame
        frame += 1
        entry = plain[number] = Entry(number, frame, frame % 7, frame % 5, 1 + frame % 2, 9)
        deliveries.add(number, frame << SHIFT | entry.offset, entry.qos, entry.size, entry.size + 30)
        deliveries.add_topic(number, b"%d" % number, abs(number) + 2**40)
        deliveries.add_flow(number, abs(number) + 7)

    for step, number in steps:
        if step == "add":
            for _ in range(number):
                add(following)
                following += 1 + following % 2
        elif step == "again":
            add(number)
            following = max(following, number + 1)
        elif step == "remove":
            deliveries.remove(number)
            plain.pop(number, None)
        else:
            for each in sorted(plain)[:number]:
                deliveries.remove(each)
                del plain[each]
        assert deliveries.length == len(plain)
        assert deliveries.has_lanes == bool(plain)
        assert deliveries.holds(number) == (number in plain)
        assert {each: deliveries.topic_of(each) for each in plain} == {each: b"%d" % each for each in plain}
        assert {each: deliveries.cost_of(each) for each in plain} == {each: abs(each) + 2**40 for each in plain}
        assert {each: deliveries.flow_of(each) for each in plain} == {each: abs(each) + 7 for each in plain}
    by_number = [plain[number] for number in sorted(plain)]
    assert deliveries.entries(9) == by_number
    assert deliveries.records() == [(each.frame << SHIFT | each.offset, each.size + 30) for each in by_number]
    pages = [each._replace(size=each.size + 30, qos=1, received_at=0) for each in by_number]
    assert deliveries.pages() == pages
