"""Mosquitto's options up to 2.1: which become which key, and why the others have no counterpart."""

from typing import Final, NamedTuple

from config.mosquitto import plugins, values


class Key(NamedTuple):
    """Our key for an option that is about the whole broker."""

    section: str
    key: str
    read: values.Read


KEYS: Final = {
    "max_inflight_messages": Key("session", "max_inflight", values.window),
    "max_inflight_bytes": Key("session", "consumer_window_size", values.size_or_none),
    "max_queued_messages": Key("session", "max_mqueue_len", values.count_or_none),
    "max_queued_bytes": Key("session", "max_mqueue_bytes", values.size_or_none),
    "queue_qos0_messages": Key("session", "mqueue_store_qos0", values.boolean),
    "max_keepalive": Key("mqtt", "server_keep_alive", values.keep_alive),
    "max_packet_size": Key("mqtt", "max_packet_size", values.packet_size),
    "message_size_limit": Key("mqtt", "max_packet_size", values.payload_size),
    "retain_available": Key("mqtt", "retain_available", values.boolean),
    "sys_interval": Key("mqtt", "sys_interval", values.interval),
    "global_max_connections": Key("mqtt", "max_connections", values.count_or_none),
    "persistent_client_expiration": Key("mqtt", "session_expiry_interval", values.expiration),
}
"""Options of the whole broker that have one key."""

_PATHS: Final = ("certfile", "keyfile", "cafile", "crlfile")
CHECKED: Final[dict[str, values.Read]] = {
    "allow_anonymous": values.boolean,
    "listener_allow_anonymous": values.boolean,
    "password_file": values.text,
    "acl_file": values.text,
    "port": values.whole(1, 65_535),
    "bind_address": values.address,
    "bind_interface": values.text,
    "protocol": values.one_of("mqtt", "websockets", "http_api"),
    "socket_domain": values.one_of("ipv4", "ipv6"),
    "require_certificate": values.boolean,
    "use_identity_as_username": values.boolean,
    "use_subject_as_username": values.boolean,
    "tls_version": values.one_of("tlsv1", "tlsv1.0", "tlsv1.1", "tlsv1.2", "tlsv1.3", of=values.line),
    "max_connections": values.whole(),
    "max_qos": values.whole(0, 2),
    "max_topic_alias": values.whole(0, 65_535),
    "enable_proxy_protocol": values.whole(1, 2),
    "websockets_origin": values.text,
} | dict.fromkeys(_PATHS, values.text)
"""Options of listeners, and of who may connect, with what reads their values."""

ONCE: Final = {
    *(*_PATHS, "password_file", "acl_file", "bind_address", "bind_interface", "tls_version"),
    *("persistence_location", "persistence_file"),
}
"""Options that Mosquitto takes once: it does not start with a second one."""

DEFAULTS: Final = (
    Key("session", "max_inflight", lambda _: 20),
    Key("session", "max_mqueue_bytes", lambda _: values.INFINITY),
    Key("session", "mqueue_overflow", lambda _: "drop_newest"),
    Key("session", "mqueue_store_qos0", lambda _: False),
    Key("session", "retry_interval", lambda _: values.INFINITY),
    Key("mqtt", "max_packet_size", lambda _: f"{values.LARGEST_PACKET}B"),
    Key("mqtt", "session_expiry_interval", lambda _: values.INFINITY),
)
"""What Mosquitto does without being told, where our default is another."""

_PSK: Final = "TLS with pre-shared keys has no counterpart: use certificates"
_ENGINE: Final = "engines of OpenSSL have no counterpart"
_CIPHERS: Final = "Sluice takes secure ciphers by default; tls.ciphers can name those of TLS 1.2"
_SERVICE: Final = "the service manager does that: see deploy/systemd"
_LOG: Final = "the log goes to standard error, which the service manager keeps; log.format: json is for programs"
_SAVES: Final = "Sluice writes to its journal as it acknowledges (persistence.sync)"

LEFT: Final = {
    "allow_zero_length_clientid": "Sluice always gives such clients a client id",
    "auto_id_prefix": "Sluice's client ids begin with auto-",
    "listener_auto_id_prefix": "Sluice's client ids begin with auto-",
    "auth_plugin_deny_special_chars": plugins.PLUGIN,
    "auth_plugin": plugins.PLUGIN,
    "plugin": plugins.PLUGIN,
    "global_plugin": plugins.PLUGIN,
    "plugin_load": plugins.PLUGIN,
    "plugin_use": plugins.PLUGIN,
    "autosave_interval": _SAVES,
    "autosave_on_changes": _SAVES,
    "check_retain_source": "Sluice checks retained messages by the rules of their receivers",
    "clientid_prefixes": f"write authorization.rules with client_ids. {plugins.CLOSED}",
    "connection_messages": "connections are logged, of many at once log.max_lines; log.level: warning leaves them out",
    "enable_control_api": "Sluice has an admin API over HTTP (admin)",
    "global_max_clients": "mqtt.max_connections counts the connected ones; quotas have max_kept_sessions for each user",
    "log_dest": _LOG,
    "log_facility": _LOG,
    "log_timestamp": _LOG,
    "log_timestamp_format": _LOG,
    "pid_file": _SERVICE,
    "user": _SERVICE,
    "psk_file": _PSK,
    "retain_expiry_interval": "retained messages expire by their Message Expiry Interval only",
    "retry_interval": "Mosquitto ignores it too; Sluice has session.retry_interval",
    "set_tcp_nodelay": "Sluice always sets TCP_NODELAY",
    "store_clean_interval": "Mosquitto ignores it too",
    "upgrade_outgoing_qos": "a delivery has at most the QoS of its message",
    "websockets_log_level": _LOG,
    "websockets_headers_size": "the size of headers is fixed",
    "packet_buffer_size": "the size of buffers is fixed",
}
"""Options of the whole broker without a counterpart."""

LEFT_OF_LISTENER: Final = {
    "accept_protocol_versions": "each listener takes MQTT 3.1, 3.1.1 and 5.0; mqtt.mqtt31: false refuses 3.1",
    "capath": "it is for certificates of clients, which are not asked for: a chain that it held has to be in certfile",
    "ciphers": _CIPHERS,
    "ciphers_tls1.3": _CIPHERS,
    "dhparamfile": _CIPHERS,
    "disable_client_cert_date_checks": "the dates of certificates are always checked",
    "http_dir": "Sluice serves no files",
    "max_topic_alias_broker": "mqtt.max_topic_alias_out is for all listeners, and up to the client",
    "mptcp": "Sluice takes TCP, which clients with Multipath TCP fall back to",
    "mount_point": "Sluice does not change topics: rules with `listeners` keep the clients of a listener to some. "
    + plugins.CLOSED,
    "proxy_protocol_v2_require_tls": "name the proxies in proxy_protocol.trusted, and have them require TLS. "
    + plugins.CLOSED,
    "psk_hint": _PSK,
    "tls_engine": _ENGINE,
    "tls_engine_kpass_sha1": _ENGINE,
    "tls_keyform": _ENGINE,
    "use_username_as_clientid": f"write authorization.rules with client_ids and users. {plugins.CLOSED}",
}
"""Options of one listener without a counterpart."""

SUBJECT: Final = (
    "user names can be {cn}, {dns}, {email} or {uri} of a certificate (tls.username), not its subject. "
    + plugins.CLOSED
)

OF_SECURITY: Final = {"plugin", "auth_plugin", "plugin_use"}
OF_ALL: Final = {"global_plugin", "plugin_load", "clientid_prefixes"}
OF_LISTENER: Final = {"mount_point", "use_username_as_clientid", "proxy_protocol_v2_require_tls"}
"""Options without a counterpart that decide about access: with per_listener_settings on one listener, else on all; on
all; and on one listener."""

_TOLD: Final = {"psk_file", "psk_hint"}


def guards(name: str, value: str) -> bool:
    """Whether an option without a counterpart decides about access."""
    if name in BOOLEANS:
        return name in OF_LISTENER and values.boolean(value)
    return name in OF_SECURITY | OF_ALL | OF_LISTENER | _TOLD


BOOLEANS: Final = {
    *("allow_zero_length_clientid", "auth_plugin_deny_special_chars", "autosave_on_changes", "check_retain_source"),
    *("connection_messages", "log_timestamp", "set_tcp_nodelay", "upgrade_outgoing_qos", "use_username_as_clientid"),
    *("disable_client_cert_date_checks", "enable_control_api", "mptcp", "proxy_protocol_v2_require_tls"),
}
"""Those without a counterpart that are true or false."""

NEEDS_LISTENER: Final = {
    *("accept_protocol_versions", "disable_client_cert_date_checks", "enable_proxy_protocol"),
    *("listener_allow_anonymous", "listener_auto_id_prefix", "max_topic_alias_broker", "mount_point"),
    *("proxy_protocol_v2_require_tls", "websockets_origin"),
}
"""Options that Mosquitto refuses above the first listener."""

LOG_LEVELS: Final = {
    "none": "error",
    "error": "error",
    "warning": "warning",
    "notice": "info",
    "information": "info",
    "debug": "debug",
    "subscribe": "info",
    "unsubscribe": "info",
    "internal": "info",
    "websockets": "info",
    "all": "debug",
}
"""Our level for each `log_type`."""

LEVELS: Final = ("debug", "info", "warning", "error")
