"""Values at their bounds, and in other written forms, that models accept."""

import math
from pathlib import Path

import pytest

from config.models import Config, WebSocket
from config.session import SlowConsumer
from config.tls import Tls

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("section", "key", "value", "loaded"),
    [
        ("session", "max_inflight", "infinity", 0),
        ("session", "max_inflight", 65_535, 65_535),
        ("session", "max_mqueue_len", "infinity", 0),
        ("session", "max_mqueue_bytes", "10MiB", 10_485_760),
        ("session", "retry_interval", "infinity", math.inf),
        ("session", "receive_maximum", 65_535, 65_535),
        ("session", "max_awaiting_rel", 0, 0),
        ("session", "consumer_window_size", "infinity", -1),
        ("session", "consumer_window_size", -1, -1),
        ("session", "consumer_window_size", 0, 0),
        ("session", "consumer_window_size", "10MiB", 10_485_760),
        ("session", "consumer_max_rate", "infinity", 0),
        ("session", "consumer_max_rate", "-1", 0),
        ("session", "consumer_max_rate", 1_000_000, 1_000_000),
        ("session", "producer_max_rate", -1, 0),
        ("session", "producer_window_size", "1B", 1),
        ("session", "stalled_window", "infinity", math.inf),
        ("session", "overflow_patience", "0s", 0.0),
        ("session", "overflow_patience", 0, 0.0),
        ("session", "overflow_patience", "200ms", 0.2),
        ("session", "stalled_window", "1s", 1.0),
        ("session", "slow_consumer", {"threshold": "0.5"}, SlowConsumer(threshold=0.5)),
        ("persistence", "directory", "journal", Path("journal")),
        ("admin", "socket", None, None),
        ("admin", "socket", "x" * 107, "x" * 107),
        ("mqtt", "max_packet_size", "256B", 256),
        ("mqtt", "max_packet_size", 268_435_460, 268_435_460),
        ("mqtt", "session_expiry_interval", "0s", 0.0),
        ("mqtt", "keepalive_multiplier", "2", 2.0),
        ("mqtt", "response_information", "r/{client_id}/$x", "r/{client_id}/$x"),
        *(
            ("mqtt", "redirect_to", value, value)
            for value in ("a", "a.example:1 [::1]:65535 b", "mqtts://a:8883", "wss://a/mqtt", "10.0.0.1")
        ),
        *(("drop_events", "max_rate", value, 10) for value in (10, "10", "10/s", " 10/s ")),
        *(("drop_events", "max_rate", value, 0) for value in ("infinity", -1, "-1")),
        *(("drop_events", "topic", value, value) for value in ("d", "$x/{reason}{client_id}", "d/{topic}", "d//ä")),
        ("metrics", "interval", "100ms", 0.1),
        ("metrics", "directory", "metrics", Path("metrics")),
    ],
)
def test_accepted(section: str, key: str, value: object, loaded: object) -> None:
    """Bounds themselves are accepted; no limit is 0 for counts and sizes, math.inf for durations."""
    config = Config.model_validate({section: {key: value}})
    assert getattr(getattr(config, section), key) == loaded


def test_accepted_origins() -> None:
    """Whatever browsers and paho-mqtt send as an origin is accepted."""
    origins = ["https://a.example", "http://localhost:8080", "http://[::1]:80", "null", "capacitor://localhost"]
    assert WebSocket.model_validate({"origins": origins}).origins == origins


def test_version_without_quotes() -> None:
    """1.3, which YAML reads as a number, is accepted as a version."""
    assert Tls.model_validate({"certfile": "a.pem", "minimum_version": 1.3}).minimum_version == "1.3"
