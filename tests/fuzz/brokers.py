"""The configurations of the brokers that are fuzzed. Sessions end within a minute, so that an input sees it."""

from typing import Any, Final

from tests.fuzz import users

SOON: Final = {"session_expiry_interval": 20, "max_session_expiry_interval": 20}
DENIED: Final = b"denied/"
"""What the topics begin with that some brokers deny."""

_BROKERS: Final[dict[str, dict[str, Any]]] = {
    "plain": {"mqtt": SOON},
    # Every limit is met within a few packets.
    "small": {
        "mqtt": SOON
        | {
            "max_packet_size": 256,
            "max_topic_levels": 8,
            "max_clientid_len": 40,
            "max_connections": 5,
            "topic_alias_maximum": 2,
            "max_topic_alias_out": 1,
            "server_keep_alive": 10,
        },
        "session": {
            "max_inflight": 2,
            "max_mqueue_len": 3,
            "max_mqueue_bytes": 600,
            "mqueue_overflow": "drop_oldest_qos0",
            "retry_interval": 5,
            "receive_maximum": 2,
            "max_awaiting_rel": 1,
            "await_rel_timeout": 10,
        },
        "authorization": {"deny_publish": ["denied/#"], "deny_subscribe": ["denied/#"], "refused_publish": "close"},
    },
    # Nothing that can be switched off is offered, and what can be done otherwise is.
    "strict": {
        "mqtt": SOON
        | {
            "maximum_qos": 1,
            "retain_available": False,
            "wildcard_subscription_available": False,
            "subscription_identifiers_available": False,
            "shared_subscription_available": False,
            "topic_alias_maximum": 0,
            "max_topic_alias_out": 0,
        },
    },
    "tolerant": {
        "mqtt": SOON
        | {
            "overlapping_subscriptions": "each",
            "check_payload_format": False,
            "response_information": "to/{client_id}",
        },
        "session": {
            "max_inflight": 1,
            "max_mqueue_len": 2,
            "mqueue_overflow": "drop_newest",
            "mqueue_store_qos0": False,
            "receive_maximum": 1,
            "receive_maximum_policy": "tolerate",
        },
        "authorization": {"deny_publish": ["denied/#"], "deny_subscribe": ["denied/#"]},
    },
    "users": {"mqtt": SOON, "allow_anonymous": True},
}

NAMES: Final = tuple(_BROKERS)


def sections(name: str) -> dict[str, Any]:
    """Return a broker's configuration; KeyError if there is none of this name."""
    found = _BROKERS[name]
    return found | {"authentication": users.settings()} if name == "users" else found
