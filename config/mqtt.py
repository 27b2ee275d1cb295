"""The section `mqtt`: limits, times and features of the protocol."""

import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from config.bind_address import MAX_PORT
from config.units import found
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
"""Bytes; ordinary CONNECT and SUBSCRIBE packets need as many."""

LARGEST_PACKET: Final = 5 + 268_435_455
"""Bytes; the largest packet that MQTT can express: fixed header and largest remaining length (2.1.4)."""

MOST_TOPIC_LEVELS: Final = 256
"""Matching recurses once per level, and the interpreter's stack allows about a thousand calls."""

CLIENT_ID: Final = "{client_id}"
"""Stands for the client id in Response Information."""

_REFERENCE: Final = re.compile(
    r"(?:[a-z][a-z0-9+.-]*://)?(?:[^\s/?#@:,\[\]]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?(?:/\S*)?", re.ASCII
)


def _check_response_information(value: str) -> str:
    """Refuse what cannot begin a topic of responses."""
    if any(character in value.replace(CLIENT_ID, "") for character in "+#{}") or value.startswith("$"):
        raise ValueError(
            f"found {found(value)}: write the beginning of a topic, such as replies/{CLIENT_ID}, without + and #, "
            f"without $ at its beginning, and without braces except those of {CLIENT_ID}"
        )
    return value


def _check_references(value: str) -> str:
    """Refuse a Server Reference by which no server can be found (section 4.13.1)."""
    for each in value.split(" "):
        match = _REFERENCE.fullmatch(each)
        if match is None or not 1 <= int(match["port"] or MAX_PORT) <= MAX_PORT:
            raise ValueError(
                f"found {found(value)}: write a host, perhaps with a port (1 to {MAX_PORT}), such as "
                "broker-2.example.com:1883 or [::1]:1883; of several each after one space"
            )
    return value


class Mqtt(Model):
    """Limits, times and features of the protocol."""

    max_packet_size: FiniteSize = Field(default=1024 * 1024, ge=SMALLEST_MAX_PACKET, le=LARGEST_PACKET)
    """Bytes of the largest packet accepted, fixed header included; sent to MQTT 5 clients in CONNACK."""
    max_topic_levels: FiniteCount = Field(default=128, ge=1, le=MOST_TOPIC_LEVELS)
    """Levels (parts between slashes) of the deepest topic name or filter accepted."""
    mqtt31: bool = True
    """Whether clients of MQTT 3.1, the version before 3.1.1, may connect."""
    max_clientid_len: FiniteCount = Field(default=1_024, ge=23, le=MAX_UINT16)
    """Bytes of the longest client id accepted; servers must accept 23 [MQTT-3.1.3-5]."""
    connect_timeout: Duration = Field(default=15.0, gt=0)
    """Seconds in which a client must have sent CONNECT and have authenticated; then its connection is closed."""
    keepalive_multiplier: Annotated[float, BeforeValidator(check_factor)] = Field(
        default=1.5, ge=1, le=100, allow_inf_nan=False
    )
    """A connection is closed after this many keep-alive times of silence; 1.5 in the standard [MQTT-3.1.2-22]."""
    session_expiry_interval: Duration = 7200.0
    """Seconds that a 3.1.1 session without clean session outlives its connection."""
    max_session_expiry_interval: Duration = float("inf")
    """The largest Session Expiry Interval, in seconds, that MQTT 5 clients get."""
    max_connections: Count = 0
    """Connections at once, all listeners together; beyond it CONNECT is refused. 0 = no limit."""
    max_connection_rate: Count = 0
    """CONNECTs a second from one IP address; beyond it CONNECT is refused. 0 = no limit."""
    server_keep_alive: KeepAlive = None
    """Seconds of the longest keep-alive; MQTT 5 clients that ask for more, or for none, get this. None = no limit."""
    topic_alias_maximum: FiniteCount = Field(default=10, le=MAX_UINT16)
    """Topic aliases that an MQTT 5 client may use; 0 = none."""
    max_topic_alias_out: FiniteCount = Field(default=32, le=MAX_UINT16)
    """Topic aliases that the broker uses towards an MQTT 5 client, if it allows as many; 0 = none."""
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
    """Whether payloads marked as UTF-8 are checked (section 3.3.2.3.2)."""
    response_information: Annotated[Text, AfterValidator(_check_response_information)] | None = None
    """Response Information for clients that ask for it; `{client_id}` is replaced with their client id."""
    redirect_to: Annotated[Text, AfterValidator(_check_references)] | None = None
    """Server Reference: other servers to which clients are redirected. None = no redirection."""
    redirect: Literal["temporary", "permanent"] = "temporary"
    """Use another server (0x9C) or Server moved (0x9D)."""
    sys_interval: Duration = Field(default=10.0, gt=0)
    """Seconds between two updates of the topics under $SYS. math.inf = they are not published."""
