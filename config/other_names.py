"""Other brokers' names of our keys, and old ones, for suggestions in error messages."""

from typing import Final

OTHER_NAMES: Final = {
    # Mosquitto and VerneMQ
    "max_queued_messages": "session.max_mqueue_len",
    "max_queued_bytes": "session.max_mqueue_bytes",
    "queue_qos0_messages": "session.mqueue_store_qos0",
    "max_inflight_messages": "session.max_inflight",
    "max_inflight_bytes": "session.consumer_window_size",
    "message_size_limit": "mqtt.max_packet_size",
    "persistent_client_expiration": "mqtt.session_expiry_interval",
    "max_keepalive": "mqtt.server_keep_alive",
    "max_qos": "mqtt.maximum_qos",
    "max_topic_alias": "mqtt.topic_alias_maximum",
    "max_topic_alias_broker": "mqtt.max_topic_alias_out",
    "listener": "listeners",
    "port": "listeners[].bind",
    "bind_address": "listeners[].bind",
    "certfile": "listeners[].tls.certfile",
    "keyfile": "listeners[].tls.keyfile",
    "cafile": "listeners[].tls.cafile",
    "require_certificate": "listeners[].tls.require_client_certificate",
    "tls_version": "listeners[].tls.minimum_version",
    "log_type": "log.level",
    # VerneMQ
    "max_offline_messages": "session.max_mqueue_len",
    "max_online_messages": "session.max_mqueue_len",
    "max_client_id_size": "mqtt.max_clientid_len",
    "max_message_size": "mqtt.max_packet_size",
    "max_message_rate": "session.producer_max_rate",
    "receive_max_client": "session.receive_maximum",
    "receive_max_broker": "session.max_inflight",
    "topic_alias_max_client": "mqtt.topic_alias_maximum",
    "topic_alias_max_broker": "mqtt.max_topic_alias_out",
    "topic_max_depth": "mqtt.max_topic_levels",
    "systree_interval": "mqtt.sys_interval",
    # EMQX
    "mqueue_default_priority": "session.mqueue_priorities",
    "max_qos_allowed": "mqtt.maximum_qos",
    "wildcard_subscription": "mqtt.wildcard_subscription_available",
    "shared_subscription": "mqtt.shared_subscription_available",
    "server_keepalive": "mqtt.server_keep_alive",
    "keepalive_backoff": "mqtt.keepalive_multiplier",
    "idle_timeout": "mqtt.connect_timeout",
    "max_conn_rate": "mqtt.max_connection_rate",
    "messages_rate": "session.producer_max_rate",
    "sys_msg_interval": "mqtt.sys_interval",
    # HiveMQ, hyphens replaced with underscores
    "max_queue_size": "session.max_mqueue_len",
    "server_receive_maximum": "session.receive_maximum",
    "max_keep_alive": "mqtt.server_keep_alive",
    "max_client_id_length": "mqtt.max_clientid_len",
    "no_connect_idle_timeout": "mqtt.connect_timeout",
    "retained_messages": "mqtt.retain_available",
    "wildcard_subscriptions": "mqtt.wildcard_subscription_available",
    "shared_subscriptions": "mqtt.shared_subscription_available",
    "subscription_identifier": "mqtt.subscription_identifiers_available",
    # Sluice, when pages had files of their own
    "paging": "persistence.directory",
    # names in MQTT packets
    "keepalive": "mqtt.server_keep_alive",
    "keep_alive": "mqtt.server_keep_alive",
    "maximum_packet_size": "mqtt.max_packet_size",
    "server_reference": "mqtt.redirect_to",
}
"""Another broker's name (no section, lower case) -> our key or keys; `[]` stands for each item of a list."""
