"""The limits: their defaults are FLOW-CONTROL.md's, and W is the smaller of both sides' wishes."""

import pytest

from session.limits import DROP_OLDEST, PACKET_IDS, Limits
from tests.support.session.messages import SECOND


def test_defaults() -> None:
    """FC-1, FC-5, FC-7, FC-8, FC-20, FC-22: without configuration a session has the defaults of the rules."""
    limits = Limits()

    assert limits.max_inflight == 32
    assert limits.max_mqueue_len == 1000
    assert limits.max_mqueue_bytes == 8 * 1024 * 1024
    assert limits.mqueue_overflow == DROP_OLDEST
    assert limits.mqueue_store_qos0
    assert limits.retry_interval == 30 * SECOND
    assert limits.receive_maximum == PACKET_IDS
    assert not limits.tolerate_receive_maximum
    assert limits.max_awaiting_rel == PACKET_IDS
    assert limits.await_rel_timeout == 300 * SECOND
    assert limits.producer_window_size == 64 * 1024
    assert limits.gate


@pytest.mark.parametrize(
    ("max_inflight", "receive_maximum", "window"),
    [
        (32, 0, 32),
        (32, 10, 10),
        (10, 32, 10),
        (1, 65_535, 1),
        (0, 0, PACKET_IDS),
        (0, 7, 7),
        (0, 65_535, PACKET_IDS),
        (65_535, 1, 1),
    ],
)
def test_window_is_the_smaller_of_both(max_inflight: int, receive_maximum: int, window: int) -> None:
    """FC-1: W = min(max_inflight, Receive Maximum); 0 (`infinity`) leaves the packet ids as the bound."""
    assert Limits(max_inflight=max_inflight).window(receive_maximum) == window
