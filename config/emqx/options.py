"""EMQX's settings of 5.x and 6: which become which key, and why the others have no counterpart."""

from typing import Final, NamedTuple

from config.emqx import values


class Key(NamedTuple):
    """Our key for a setting of the whole broker."""

    section: str
    key: str
    read: values.Read


KEYS: Final = {
    "mqtt.idle_timeout": Key("mqtt", "connect_timeout", values.duration),
    "mqtt.max_packet_size": Key("mqtt", "max_packet_size", values.packet_size),
    "mqtt.max_clientid_len": Key("mqtt", "max_clientid_len", values.whole(23, 65_535)),
    "mqtt.max_topic_levels": Key("mqtt", "max_topic_levels", values.levels),
    "mqtt.max_qos_allowed": Key("mqtt", "maximum_qos", values.whole(0, 2)),
    "mqtt.max_topic_alias": Key("mqtt", "topic_alias_maximum", values.whole(0, 65_535)),
    "mqtt.retain_available": Key("mqtt", "retain_available", values.boolean),
    "mqtt.wildcard_subscription": Key("mqtt", "wildcard_subscription_available", values.boolean),
    "mqtt.shared_subscription": Key("mqtt", "shared_subscription_available", values.boolean),
    "mqtt.response_information": Key("mqtt", "response_information", values.text_or_none),
    "mqtt.server_keepalive": Key("mqtt", "server_keep_alive", values.keep_alive),
    "mqtt.keepalive_multiplier": Key("mqtt", "keepalive_multiplier", values.multiplier),
    "mqtt.session_expiry_interval": Key("mqtt", "session_expiry_interval", values.duration),
    "mqtt.max_inflight": Key("session", "max_inflight", values.count(1, 65_535)),
    "mqtt.retry_interval": Key("session", "retry_interval", values.duration),
    "mqtt.max_awaiting_rel": Key("session", "max_awaiting_rel", values.count()),
    "mqtt.await_rel_timeout": Key("session", "await_rel_timeout", values.duration),
    "mqtt.max_mqueue_len": Key("session", "max_mqueue_len", values.count(0)),
    "mqtt.mqueue_store_qos0": Key("session", "mqueue_store_qos0", values.boolean),
    "sys_topics.sys_msg_interval": Key("mqtt", "sys_interval", values.duration),
    "retainer.enable": Key("mqtt", "retain_available", values.boolean),
}
"""Settings of the whole broker that have one key."""

OF_ZONES: Final = {name: key for name, key in KEYS.items() if key.section == "session"}
"""Those of them that a zone may have: they are of the listeners in it."""

LEVELS: Final = {
    "debug": "debug",
    "info": "info",
    "notice": "info",
    "warning": "warning",
    "error": "error",
    "critical": "error",
    "alert": "error",
    "emergency": "error",
}
"""Our level for each `log.console.level`."""

NEUTRAL: Final[dict[str, object]] = {
    "authentication": [],
    "mqtt.exclusive_subscription": False,
    "mqtt.ignore_loop_deliver": False,
    "mqtt.upgrade_qos": False,
    "mqtt.use_username_as_clientid": False,
    "mqtt.peer_cert_as_clientid": "disabled",
    "mqtt.peer_cert_as_username": "disabled",
    "mqtt.message_expiry_interval": "infinity",
    "retainer.msg_expiry_interval": "0s",
    "retainer.stop_publish_clear_msg": False,
}
"""Values of settings without a counterpart with which EMQX does what Sluice does."""

_BY_CLIENTS: Final = (
    *("rule_engine", "bridges", "actions", "sources", "connectors", "resource_opts", "schema_registry", "ai"),
    *("schema_validation", "message_transformation", "file_transfer", "message_queue", "mq", "streams"),
)

LEFT: Final = {
    "mqtt.exclusive_subscription": "Sluice has no exclusive subscriptions: a rule can permit a filter to one user",
    "mqtt.ignore_loop_deliver": "clients of MQTT 5 subscribe with No Local",
    "mqtt.strict_mode": "Sluice always checks the protocol strictly",
    "mqtt.upgrade_qos": "a delivery has at most the QoS of its message",
    "mqtt.use_username_as_clientid": "write authorization.rules with {username}",
    "mqtt.peer_cert_as_username": "listeners[].tls.username has the common name, and no other part",
    "mqtt.peer_cert_as_clientid": "listeners[].tls.username makes a user name of a certificate",
    "mqtt.message_expiry_interval": "messages expire by their Message Expiry Interval only",
    "mqtt.mqueue_default_priority": "topics without a weight have weight 1; no weight starves another",
    "mqtt.shared_subscription": "members of a shared subscription pull when they can send (FC-13)",
    "mqtt.client_attrs_init": "rules are about users, roles, client ids, addresses and listeners",
    "mqtt.clientid_override": "client ids stay as clients send them",
    "retainer.msg_expiry_interval": "retained messages expire by their Message Expiry Interval only",
    "retainer.stop_publish_clear_msg": "a message that clears a retained one is always delivered",
    "retainer.max_payload_size": "mqtt.max_packet_size is the limit; quotas have max_retained_bytes for each user",
    "retainer.backend.max_retained_messages": "quotas have max_retained_messages for each user",
    "retainer": "retained messages are fed at the pace of their subscriber",
    "sys_topics": "mqtt.sys_interval is for all topics under $SYS",
    "log": "the log goes to standard error, which the service manager keeps; log.format: json is for programs",
    "authorization.cache": "rules are applied once for each client and topic, without a cache to configure",
    "authentication_cache": "authentication.http has cache_time",
    "node.name": "node_name is the name of the machine unless it is set",
    "node": "Sluice is one process; persistence.directory and metrics.directory are its files",
    "cluster": "Sluice is one node, and has no cluster",
    "rpc": "Sluice is one node, and has no cluster",
    "durable_storage": "the journal has no settings of that kind: persistence",
    "durable_sessions": "with persistence.directory every session that outlives its connection is on disk",
    "dashboard": "sluice dashboard opens ours; admin.listen is its address, and that of the API",
    "api_key": "sluice ctl token makes the tokens of the API (admin.tokens)",
    "prometheus": "the API has /metrics",
    "opentelemetry": "Sluice has logs as JSON, /metrics and sluice ctl trace",
    "flapping_detect": "mqtt.max_connection_rate limits CONNECTs from an address",
    "banned": "authorization.rules and authentication decide who is let in",
    "limiter": "quotas, session.producer_max_rate and mqtt.max_connection_rate are our limits",
    "force_shutdown": "mqueues are bounded: session.max_mqueue_len, memory_watermark",
    "force_gc": "it is about Erlang",
    "conn_congestion": "session.slow_consumer and stalled_window report clients that do not keep up",
    "overload_protection": "memory_watermark holds publishers back",
    "sysmon": "it is about Erlang; /metrics has memory and the loop's delay",
    "alarm": "deploy/prometheus has alert rules",
    "slow_subs": "sluice top and the dashboard show slow subscribers",
    "topic_metrics": "addresses count what they limit; no topic has metrics of its own",
    "broker": "there is no such choice: Sluice routes in one process",
    "zones": "of zones, what listeners[].session has is taken over; quotas are for users and roles",
    "delayed": "delayed publishes have no counterpart",
    "rewrite": "topics are not rewritten",
    "auto_subscribe": "clients subscribe themselves",
    "event_message": "the log has connects and subscriptions, at level debug",
    "psk_authentication": "TLS with pre-shared keys has no counterpart: use certificates",
    "exhook": "plugins are Python packages: broker/auth/plugins/PLUGINS.md",
    "plugins": "plugins are Python packages: broker/auth/plugins/PLUGINS.md",
    "telemetry": "Sluice sends nothing to anybody",
    "license": "Sluice is free",
    "crl_cache": "listeners[].tls.crlfile has the lists, and is read again when it has changed",
    "multi_tenancy": "quotas are for users and roles",
    "gateway": "Sluice speaks MQTT 3.1.1 and 5.0 only",
    "stats": "counters are always there",
    "vm": "it is about Erlang",
    **dict.fromkeys(_BY_CLIENTS, "what it does is done by a client of the broker"),
}
"""Settings without a counterpart, by the beginning of their names; the longest decides."""

GUARDS: Final = {
    *("mqtt.use_username_as_clientid", "mqtt.peer_cert_as_clientid", "mqtt.clientid_override", "banned", "exhook"),
    *("psk_authentication", "plugins", "access_rules", "mountpoint", "ssl_options.enable_crl_check"),
    *("authentication", "ssl_options.verify_peer_ext_key_usage"),
}
"""Of these, also of listeners, those that decide about access."""

DENY: Final = {"banned": "bootstrap_file", "exhook": "servers", "plugins": "states"}
"""What may deny anything, and which part of it says so."""

NAMES: Final = {
    "mqtt.use_username_as_clientid": "client_ids",
    "mqtt.peer_cert_as_clientid": "client_ids",
    "mqtt.clientid_override": "client_ids",
    "mqtt.peer_cert_as_username": "users",
}
"""What makes names of something else, and the key of our rules that has them."""

WHOLE: Final = {name for name in LEFT if "." not in name} - {"retainer", "sys_topics", "log", "node", "dashboard"}
"""Those of which one finding says it for all settings below."""

LEFT_OF_LISTENER: Final = {
    "acceptors": "Sluice accepts in one process",
    "authentication": "authentication is for all listeners",
    "access_rules": "the address of a client is for the firewall, or for rules with `addresses`",
    "bytes_burst": "limits let a second's worth through at once",
    "max_conn_burst": "limits let a second's worth through at once",
    "max_conn_rate": "mqtt.max_connection_rate limits the CONNECTs of one address, not of a listener",
    "messages_burst": "limits let a second's worth through at once",
    "mountpoint": "write authorization.rules with listeners instead",
    "proxy_protocol_timeout": "mqtt.connect_timeout holds for the header of a proxy too",
    "ssl_options.ciphers": "Sluice takes secure ciphers by default; tls.ciphers can name those of TLS 1.2",
    "ssl_options.enable_crl_check": "tls.crlfile has the lists of revoked certificates",
    "ssl_options.verify_peer_ext_key_usage": "Sluice asks for no key usage of its own",
    "ssl_options.password": "the key has to be without a password: openssl pkey -in KEY -out NEW",
    "ssl_options": "Sluice leaves this to OpenSSL",
    "tcp_options": "Sluice sets its sockets itself",
    "websocket": "Sluice's WebSocket has a path and origins",
    "zone": "there is no zone of this name with settings that listeners[].session has",
    "": "Sluice has no such setting for a listener",
}
"""Settings of listeners without a counterpart, by the beginning of their names; the longest decides."""


def reason(name: str, table: dict[str, str]) -> tuple[str, str] | None:
    """The longest beginning of a name that a table has, and what it says; None = none."""
    parts = name.split(".")
    for length in range(len(parts), -1, -1):
        beginning = ".".join(parts[:length])
        if beginning in table:
            return beginning, table[beginning]
    return None
