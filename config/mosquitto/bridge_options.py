"""Mosquitto's options of bridges up to 2.1: what reads their values, and why some have no counterpart."""

import re
from typing import Final, NamedTuple

from config.mosquitto import values
from config.value_types import check_topic_filter

OTHER_NAMES: Final = {
    "addresses": "address",
    "clientid": "remote_clientid",
    "username": "remote_username",
    "password": "remote_password",
}
"""Two names of one option."""

PREFIX: Final = "bridge_"

_ONCE: Final = (
    *("address", "remote_clientid", "remote_username", "remote_password", "local_clientid", "local_username"),
    *("local_password", "notification_topic", "bridge_cafile", "bridge_capath", "bridge_certfile", "bridge_keyfile"),
    *("bridge_alpn", "bridge_bind_address", "bridge_ciphers", "bridge_ciphers_tls1.3", "bridge_identity", "bridge_psk"),
)
ONCE: Final = {*_ONCE, "bridge_tls_version"}
"""Options that Mosquitto takes once for a bridge: it does not start with a second one."""

_BOOLEANS: Final = (
    *("cleansession", "local_cleansession", "notifications", "notifications_local_only", "round_robin", "try_private"),
    *("bridge_attempt_unsubscribe", "bridge_insecure", "bridge_outgoing_retain", "bridge_require_ocsp"),
    "bridge_tls_use_os_certs",
)


class Restart(NamedTuple):
    """When a bridge connects again, in seconds."""

    least: int
    most: int


def restart(value: str) -> Restart:
    """Reads `restart_timeout BASE [CAP]`. Raises ValueError."""
    least, *rest = (_leading(each) for each in values.text(value).split())
    least = min(max(least, 1), 3_600)
    most = rest[0] if rest else least
    if most < least:
        raise ValueError(f"found {most}, less than {least}: the second number is the longest time")
    return Restart(least, min(most, 3_600))


class Topic(NamedTuple):
    """What a line `topic` says."""

    filter: str
    direction: str
    qos: int
    local_prefix: str
    remote_prefix: str


_QUOTED: Final = re.compile(r'"([^"]+)"( .*)?')
_EMPTY: Final = '""'


def topic(value: str) -> Topic:
    """Reads `topic PATTERN [[[out|in|both] QOS] LOCAL_PREFIX REMOTE_PREFIX]`. Raises ValueError."""
    quoted = _QUOTED.fullmatch(values.text(value))
    first, *words = [quoted[1], *(quoted[2] or "").split()] if quoted else value.split()
    comment = next((index for index, word in enumerate(words) if word.startswith("#")), len(words))
    direction, qos, *prefixes = [*words[:comment], *("out", "0", "", "")[min(comment, 4) :]][:4]
    if direction.lower() not in ("out", "in", "both"):
        raise ValueError(f"found {direction!r:.50}: write out, in or both")
    if not 0 <= _leading(qos) <= 2:
        raise ValueError(f"found {qos!r:.50}: write a QoS, 0, 1 or 2")
    local, remote = ("" if each == _EMPTY else each for each in prefixes)
    pattern = "" if first == _EMPTY else first
    for prefix in (local, remote):
        if "+" in prefix or "#" in prefix:
            raise ValueError(f"found the prefix {prefix!r:.50}: write it without + and #")
        if not pattern and not prefix:
            raise ValueError('with "" as its pattern both prefixes are topics: write two')
        if not (prefix + pattern).startswith("$share/"):
            check_topic_filter(prefix + pattern)
    return Topic(pattern, direction.lower(), _leading(qos), local, remote)


def _leading(text: str) -> int:
    """The number that a text begins with; 0 if it does not."""
    match = re.match(r"[-+]?[0-9]{1,9}", text, re.ASCII)
    return int(match[0]) if match else 0


CHECKED: Final[dict[str, values.Read]] = {
    **dict.fromkeys(_ONCE, values.text),
    **dict.fromkeys(_BOOLEANS, values.boolean),
    "topic": topic,
    "restart_timeout": restart,
    "start_type": values.one_of("automatic", "lazy", "once"),
    "idle_timeout": values.whole(),
    "keepalive_interval": values.whole(most=65_535),
    "threshold": values.whole(),
    "bridge_max_packet_size": values.whole(),
    "bridge_max_topic_alias": values.whole(0, 65_535),
    "bridge_protocol_version": values.one_of("mqttv31", "mqttv311", "mqttv50", of=values.line),
    "bridge_receive_maximum": values.whole(1, 65_535),
    "bridge_reload_type": values.one_of("lazy", "immediate"),
    "bridge_session_expiry_interval": values.whole(0),
    "bridge_tcp_keepalive": values.text,
    "bridge_tcp_user_timeout": values.whole(0),
    "bridge_tls_version": values.one_of("tlsv1", "tlsv1.0", "tlsv1.1", "tlsv1.2", "tlsv1.3", of=values.line),
}
"""Options of bridges, with what reads their values."""

LEFT: Final = {
    "local_clientid": "the client id of a bridge on this side is $bridge/ and its name",
    "local_password": "a bridge is a part of the broker, and needs no password on this side",
    "bridge_attempt_unsubscribe": "a bridge subscribes to what comes in, and to nothing else",
    "bridge_bind_address": "the system chooses the address that a connection comes from: set a route",
    "bridge_ciphers_tls1.3": "the ciphers of TLS 1.3 cannot be chosen",
    "bridge_max_packet_size": "a broker of MQTT 5 says itself how large packets may be",
    "bridge_max_topic_alias": "topic aliases of bridges cannot be set",
    "bridge_receive_maximum": "the Receive Maximum of bridges cannot be set",
    "bridge_reload_type": "a reload changes a bridge at once",
    "bridge_tcp_keepalive": "keepalive finds out that a connection is gone",
    "bridge_tcp_user_timeout": "keepalive finds out that a connection is gone",
}
"""Options of bridges without a counterpart."""


def is_about_bridges(name: str) -> bool:
    """Whether an option is one of a bridge."""
    return name == "connection" or name.startswith(PREFIX) or OTHER_NAMES.get(name, name) in CHECKED
