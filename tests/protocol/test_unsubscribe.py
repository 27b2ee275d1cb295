"""UNSUBSCRIBE: values that are not encoded."""

import pytest

from protocol.unsubscribe import Unsubscribe


def test_nothing_to_unsubscribe_from() -> None:
    """UNSUBSCRIBE without topic filters is not encoded [MQTT-3.10.3-2]."""
    with pytest.raises(ValueError, match="at least one"):
        Unsubscribe(1, []).encode(5)
