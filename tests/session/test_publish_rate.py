"""The rate of a publisher: PUBLISHes a second (FC-23) and bytes a second (FC-31), whatever it sends and when."""

from hypothesis import given
from hypothesis import strategies as st

from protocol.publish import Publish
from session.parked import rest_of
from session.publish_rate import PublishRate
from tests.support.session.messages import SECOND

START = 1_000 * SECOND
TICK = SECOND // 10
"""Between two ticks of the broker's timers."""

RATES = st.sampled_from([0, 1, 3, 10, 99, 1_000])
BYTE_RATES = st.sampled_from([0, 1, 100, 5_000, 1_000_000, 10**12])
STEPS = st.lists(st.tuples(st.integers(0, 2 * SECOND), st.integers(0, 100_000)), min_size=1, max_size=60)


def message(size: int) -> Publish:
    """A message with a payload of this size."""
    return Publish(b"t", bytes(size))


def bytes_of(publish: Publish) -> int:
    """What a message counts for."""
    return publish.size + rest_of(publish)


def read_all(rate: PublishRate, steps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Publish with these pauses and sizes; returns when each is read, and its bytes, as the broker's timers allow."""
    now = START
    free_at = START
    found = []
    for pause, size in steps:
        now = max(now + pause, free_at)
        publish = message(size)
        at = rate.spend(publish, now)
        assert at >= now
        free_at = -(-at // TICK) * TICK if at > now else now
        found.append((now, bytes_of(publish)))
    return found


@given(RATES, BYTE_RATES, STEPS)
def test_never_more_than_the_rates_allow(per_second: int, bytes_per_second: int, steps: list[tuple[int, int]]) -> None:
    """FC-31: in no time more is read than the rate allows, a fifth of a second's worth, and one PUBLISH."""
    found = read_all(PublishRate(per_second, bytes_per_second, START), steps)
    for first, (begin, _) in enumerate(found):
        for last in range(first, len(found)):
            elapsed = found[last][0] - begin
            if per_second:
                allowed = per_second * (elapsed / SECOND + 0.2) + 2
                assert last - first + 1 <= allowed
            if bytes_per_second:
                before = sum(size for _, size in found[first:last])
                assert before <= bytes_per_second * (elapsed / SECOND + 0.2) + 2 + bytes_per_second * 0.1


@given(RATES.filter(bool), BYTE_RATES.filter(bool))
def test_the_rates_are_reached(per_second: int, bytes_per_second: int) -> None:
    """FC-31: who always has more to send gets what the lower of both rates allows, at most a tick late."""
    rate = PublishRate(per_second, bytes_per_second, START)
    steps = [(0, 100)] * 200
    found = read_all(rate, steps)
    elapsed = (found[-1][0] - START) / SECOND
    size = bytes_of(message(100))
    slowest = max(len(steps) / per_second, len(steps) * size / bytes_per_second)
    assert elapsed <= slowest + 0.2


def test_which_one_is_used_up() -> None:
    """FC-31: what is told to operators is the limit that is waited for."""
    rate = PublishRate(10, 1_000, START)
    rate.spend(message(5_000), START)
    assert rate.of_bytes
    rate = PublishRate(1, 1_000_000, START)
    rate.spend(message(10), START)
    assert not rate.of_bytes


def test_large_message_passes_whole() -> None:
    """FC-31: a message that is larger than a second's worth is read, and the next one when it is paid off."""
    rate = PublishRate(0, 1_000, START)
    at = rate.spend(message(10_000), START)
    assert 9.5 * SECOND < at - START < 10.2 * SECOND
