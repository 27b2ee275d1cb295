"""Deliveries in a row."""

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.publish import Publish
from session.fifo import Fifo
from tests.support.session.messages import message, text_of

STEPS = st.lists(
    st.one_of(
        st.sampled_from(["append", "prepend", "head", "last", "extend"]).map(lambda what: (what, 0)),
        st.tuples(st.just("remove"), st.integers(0, 20)),
    ),
    max_size=60,
)


@given(STEPS)
def test_it_is_a_row(steps: list[tuple[str, int]]) -> None:
    """FC-4: whatever joins at either end and leaves from anywhere, the rest stays in order."""
    fifo, expected = Fifo(), deque[Publish]()
    for number, (what, position) in enumerate(steps):
        publish = message(number)
        if what == "append":
            fifo.append(publish)
            expected.append(publish)
        elif what == "prepend":
            fifo.prepend(publish)
            expected.appendleft(publish)
        elif what == "extend":
            fifo.extend([publish, publish])
            expected.extend([publish, publish])
        elif expected and what == "head":
            assert fifo.head() is expected[0]
            assert fifo.pop_head() is expected.popleft()
        elif expected and what == "last":
            assert fifo.pop_last() is expected.pop()
        elif position < len(expected):
            assert fifo.at(position) is expected[position]
            assert fifo.remove(position) is expected[position]
            del expected[position]
        assert len(fifo) == len(expected)
        assert [text_of(each) for each in fifo] == [text_of(each) for each in expected]


def test_nothing_is_left() -> None:
    """FC-4: taking from an empty row is an error, not None."""
    fifo = Fifo()
    for take in (fifo.head, fifo.pop_head, fifo.pop_last):
        with pytest.raises(IndexError):
            take()
