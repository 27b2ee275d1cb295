"""FC-10: the byte window by itself, compared with a plain list of what is under way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.publish import Publish
from session.byte_window import ByteWindow
from tests.support.session.messages import message


def sized(size: int, qos: int = 1) -> Publish:
    """A message of just that many payload bytes."""
    return message("", qos, size=size)


def test_stays_within_its_size() -> None:
    """FC-10: a delivery that fits exactly is sent, one byte more is not."""
    window = ByteWindow(100)
    window.sent(sized(60))

    assert not window.closed(sized(40))
    assert window.closed(sized(41))


def test_acknowledged_bytes_are_free() -> None:
    """FC-10: an acknowledgement frees the bytes of its delivery."""
    window = ByteWindow(100)
    first, second = sized(60), sized(40)
    window.sent(first)
    window.sent(second)
    assert window.closed(sized(1))

    window.completed(first)

    assert window.bytes == 40
    assert not window.closed(sized(60))


def test_qos0_counts_until_written() -> None:
    """FC-10: QoS 0 counts until the transport is empty; QoS 1 and 2 until acknowledged."""
    window = ByteWindow(100)
    window.sent(sized(60, qos=0))
    window.sent(sized(30, qos=2))
    assert window.unwritten == 1
    assert window.closed(sized(11, qos=0))

    window.written()

    assert window.unwritten == 0
    assert window.bytes == 30
    assert not window.closed(sized(70, qos=0))


@pytest.mark.parametrize("size", [0, 100])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_larger_than_the_window_goes_alone(size: int, qos: int) -> None:
    """FC-10: a delivery larger than the window is sent alone."""
    window = ByteWindow(size)
    small, large = sized(10), sized(1_000, qos)
    assert not window.closed(large)
    window.sent(small)
    assert window.closed(large)
    window.completed(small)

    assert not window.closed(large)
    window.sent(large)
    assert window.closed(sized(1))
    assert window.closed(sized(0)), "the window is passed already"


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("size", [0, 10])
def test_one_at_a_time(qos: int, size: int) -> None:
    """FC-10: with 0 a delivery is sent when the one before is done, also one without a payload."""
    window = ByteWindow(0)
    delivery = sized(size, qos)
    assert not window.closed(delivery)
    window.sent(delivery)
    assert window.closed(sized(0, 0))
    assert window.closed(sized(0, 1))

    if qos:
        window.completed(delivery)
    else:
        window.written()

    assert window.bytes == 0
    assert not window.closed(sized(5))


class PlainWindow:
    """FC-10 said with a list of what counts."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.counting: list[Publish] = []

    @property
    def bytes(self) -> int:
        return sum(publish.size for publish in self.counting)

    def closed(self, publish: Publish) -> bool:
        if not self.counting:
            return False
        return self.size == 0 or self.bytes + publish.size > self.size

    def written(self) -> None:
        self.counting = [publish for publish in self.counting if publish.qos]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("deliver"), st.integers(0, 2), st.integers(0, 12)),
        st.tuples(st.just("complete"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("write"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


@given(st.integers(0, 20), steps)
def test_equals_a_plain_list(size: int, steps: list[tuple[str, int, int]]) -> None:
    """FC-10: after any sends, acknowledgements and writes the window counts what a plain list says."""
    window, plain = ByteWindow(size), PlainWindow(size)
    for step, number, payload in steps:
        if step == "deliver":
            publish = sized(payload, qos=number)
            assert window.closed(publish) == plain.closed(publish)
            if not plain.closed(publish):
                window.sent(publish)
                plain.counting.append(publish)
        elif step == "complete":
            acknowledged = [publish for publish in plain.counting if publish.qos]
            if acknowledged:
                done = acknowledged[number % len(acknowledged)]
                plain.counting.remove(done)
                window.completed(done)
        else:
            window.written()
            plain.written()

        assert window.bytes == plain.bytes
        assert window.unwritten == sum(publish.qos == 0 for publish in plain.counting)
        assert window.bytes <= size or len(plain.counting) == 1
