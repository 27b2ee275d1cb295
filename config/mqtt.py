"""The section `mqtt`: limits, times and features of the protocol itself."""

from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field

from config.value_types import (
    MAX_UINT16,
    Count,
    Duration,
    FiniteCount,
    FiniteSize,
    KeepAlive,
    Model,
    Text,
    check_factor,
)

SMALLEST_MAX_PACKET: Final = 256
"""Bytes; below this, ordinary CONNECT and SUBSCRIBE packets no longer fit."""

LARGEST_PACKET: Final = 5 + 268_435_455
"""Bytes; the largest packet that MQTT can express: fixed header and largest remaining length (2.1.4)."""

MOST_TOPIC_LEVELS: Final = 256
"""Matching takes one call per level, and the interpreter's stack is good for no more than about a thousand."""


class Mqtt(Model):
    """Limits, times and features of the protocol itself."""

    max_packet_size: FiniteSize = Field(default=1024 * 1024, ge=SMALLEST_MAX_PACKET, le=LARGEST_PACKET)
    """Bytes of the largest packet accepted, fixed header included; told to MQTT 5 clients in CONNACK."""
    max_topic_levels: FiniteCount = Field(default=128, ge=1, le=MOST_TOPIC_LEVELS)
    """Levels (parts between slashes) of the deepest topic name or filter accepted."""
    max_clientid_len: FiniteCount = Field(default=MAX_UINT16, ge=23, le=MAX_UINT16)
    """Bytes of the longest client id accepted; servers must take 23 [MQTT-3.1.3-5]."""
    connect_timeout: Duration = Field(default=15.0, gt=0)
    """Seconds from accepting a connection until its client has said CONNECT and shown who it is; then it is closed."""
    keepalive_multiplier: Annotated[float, BeforeValidator(check_factor)] = Field(
        default=1.5, ge=1, le=100, allow_inf_nan=False
    )
    """How many keepalive times of silence close a connection; the standard says 1.5 [MQTT-3.1.2-22]."""
    session_expiry_interval: Duration = 7200.0
    """Seconds that a 3.1.1 session without clean session outlives its connection."""
    max_session_expiry_interval: Duration = float("inf")
    """The most seconds that an MQTT 5 client gets when it asks for a Session Expiry Interval."""
    max_connections: Count = 0
    """Connections at once over all listeners; past it CONNECT is refused. 0 = no limit."""
    max_connection_rate: Count = 0
    """New connections a second from one address; past it CONNECT is refused. 0 = no limit."""
    server_keep_alive: KeepAlive = None
    """Seconds of the longest keepalive; MQTT 5 clients that ask for more, or for none, get this. None = no limit."""
    topic_alias_maximum: FiniteCount = Field(default=10, le=MAX_UINT16)
    """Topic aliases that an MQTT 5 client may use; 0 = none."""
    max_topic_alias_out: FiniteCount = Field(default=32, le=MAX_UINT16)
    """Topic aliases used towards an MQTT 5 client, if it takes as many; 0 = none."""
    maximum_qos: FiniteCount = Field(default=2, le=2)
    """The highest QoS that clients may publish at."""
    retain_available: bool = True
    """Whether messages can be retained."""
    wildcard_subscription_available: bool = True
    """Whether topic filters may have wildcards."""
    subscription_identifiers_available: bool = True
    """Whether subscriptions may have identifiers."""
    shared_subscription_available: bool = True
    """Whether subscriptions may be shared."""
    overlapping_subscriptions: Literal["merge", "each"] = "merge"
    """How many deliveries a message makes for a client that has several matching subscriptions [MQTT-3.3.4-2]."""
    check_payload_format: bool = True
    """Whether payloads that are said to be UTF-8 have to be (section 3.3.2.3.2)."""
    response_information: Text | None = None
    """What clients are told that ask for Response Information; `{client_id}` stands for theirs."""
    redirect_to: Text | None = None
    """Other servers, as Server Reference has them: whoever connects is sent there. None = nobody is."""
    redirect: Literal["temporary", "permanent"] = "temporary"
    """Whether it is Use another server (0x9C) or Server moved (0x9D)."""
    sys_interval: Duration = Field(default=10.0, gt=0)
    """Seconds between two updates of the topics under $SYS. math.inf = they are not there."""
