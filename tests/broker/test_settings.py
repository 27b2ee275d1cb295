"""The settings of flow control that sessions get from the configuration."""

import inspect

import pytest

from broker.settings import session_limits
from config.models import Config
from session.limits import Limits

pytestmark = pytest.mark.once


def limits(**session: object) -> Limits:
    """The limits of a broker with this section `session`."""
    return session_limits(Config.model_validate({"session": session}), True)


def test_the_defaults_are_the_same_on_both_sides() -> None:
    """The limits of an empty configuration are the defaults of a session."""
    configured, default = limits(), Limits()
    for name in inspect.signature(Limits).parameters:
        assert getattr(configured, name) == getattr(default, name), name


def test_byte_window_and_rate() -> None:
    """FC-10, FC-11: a byte window of 0 stays 0; a rate without a limit is 0."""
    assert limits(consumer_window_size=0, consumer_max_rate=500).consumer_window_size == 0
    assert limits(consumer_window_size="1KiB").consumer_window_size == 1024
    assert limits(consumer_max_rate=500).consumer_max_rate == 500
    assert limits(consumer_max_rate=-1).consumer_max_rate == 0


def test_priorities() -> None:
    """FC-12: the weights of topics are those configured, and absent if none are."""
    priorities = limits(mqueue_priorities=[{"match": "a/#", "weight": 9}, {"match": "a/+", "weight": 7}]).priorities
    assert priorities is not None
    assert [priorities.weight(topic) for topic in (b"a/b/c", b"a/b", b"b")] == [9, 7, 1]
    assert limits(mqueue_priorities=[]).priorities is None


def test_slow_consumers() -> None:
    """FC-14: times are in microseconds, and 0 stands for never."""
    slow = limits(
        slow_consumer={"threshold": 0.5, "check_period": "2s", "policy": "disconnect"}, stalled_window="infinity"
    )
    assert (slow.slow_threshold, slow.slow_check_period, slow.slow_disconnect) == (0.5, 2_000_000, True)
    assert slow.stalled_window == 0
    assert (limits().slow_threshold, limits(slow_consumer={"threshold": None}).slow_threshold) == (0.5, 0.0)
    assert limits(stalled_window="90s").stalled_window == 90_000_000


@pytest.mark.parametrize(
    ("threshold", "rate", "applied"), [(1_000, 20, 10), (5, 20, 5), (1_000, -1, 1_000), (0.5, 1, 0.5), (2, 1, 0.5)]
)
def test_a_rate_limit_lowers_the_threshold(threshold: float, rate: int, applied: float) -> None:
    """FC-14: with `consumer_max_rate` a client is slow only below half of that rate."""
    slow = limits(slow_consumer={"threshold": threshold}, consumer_max_rate=rate)
    assert slow.slow_threshold == applied
