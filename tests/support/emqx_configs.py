"""Configurations with the settings and values of EMQX's own examples, by what they are about.

FOLDER stands for a directory with certificates; SOUND import without a word about a mistake.
"""

from typing import Final

_TLS: Final = 'cacertfile = "FOLDER/ca.pem", certfile = "FOLDER/server.pem", keyfile = "FOLDER/server.key"'

SOUND: Final = {
    "empty": "",
    "shipped": 'node { name = "emqx@127.0.0.1", cookie = emqxsecretcookie, data_dir = "data" }\n'
    "cluster { name = emqxcl, discovery_strategy = manual }\ndashboard { listeners { http.bind = 18083 } }",
    "mqtt": "mqtt { idle_timeout = 15s, max_packet_size = 1MB, max_clientid_len = 65535, max_topic_levels = 128,\n"
    "max_qos_allowed = 2, max_topic_alias = 65535, retain_available = true, wildcard_subscription = true,\n"
    "shared_subscription = true, exclusive_subscription = false, ignore_loop_deliver = false, strict_mode = false,\n"
    'response_information = "", server_keepalive = disabled, keepalive_multiplier = 1.5, upgrade_qos = false,\n'
    "max_subscriptions = infinity, max_inflight = 32, retry_interval = 30s, max_awaiting_rel = 100,\n"
    "await_rel_timeout = 300s, session_expiry_interval = 2h, message_expiry_interval = infinity,\n"
    "max_mqueue_len = 1000, mqueue_store_qos0 = true, use_username_as_clientid = false,\n"
    "peer_cert_as_username = disabled, peer_cert_as_clientid = disabled,\n"
    "shared_subscription_strategy = round_robin, mqueue_priorities = disabled, mqueue_default_priority = lowest }",
    "strategy": "mqtt.shared_subscription_strategy = hash_clientid",
    "priorities": 'mqtt.mqueue_priorities { "topic/1" = 10, "topic/2.x" = 8 }',
    "tcp": "listeners.tcp.mine { bind = 1899, proxy_protocol = false,"
    "\nproxy_protocol_timeout = 8, enable_authn = true, "
    'access_rules = ["allow all"], acceptors = 16, max_connections = infinity, tcp_options { backlog = 1024,\n'
    'send_timeout = 15s, recbuf = 2KB, high_watermark = 1MB, nodelay = true, keepalive = "none" } }',
    "rates": 'listeners.tcp.default { bind = 1883, max_conn_rate = "1000/s", max_conn_burst = "10000/60m",\n'
    'messages_rate = "1000/s", messages_burst = "10000/60m", bytes_rate = "1MB/s", bytes_burst = "100MB/60m" }',
    "ssl": f'listeners.ssl.default {{ bind = 8883, mountpoint = "", ssl_options {{ {_TLS}, verify = verify_none,\n'
    'fail_if_no_peer_cert = false, reuse_sessions = true, depth = 10, versions = ["tlsv1.3", "tlsv1.2"],\n'
    'ciphers = "TLS_AES_256_GCM_SHA384", log_level = notice, hibernate_after = 5s, handshake_timeout = 15s } }',
    "certificates": f"listeners.ssl.default {{ ssl_options {{ {_TLS}, verify = verify_peer,\n"
    "fail_if_no_peer_cert = true } }"
    "\nmqtt.peer_cert_as_username = cn",
    "websocket": 'listeners.ws.default { bind = "127.0.0.1:8083", proxy_protocol = true,\nwebsocket { mqtt_path = "/m",'
    'check_origin_enable = true, check_origins = "https://a.example, https://b.example", compress = false,\n'
    'idle_timeout = 7200s, max_frame_size = infinity, supported_subprotocols = "mqtt, mqtt-v5" } }',
    "wss": f'listeners.wss.default {{ bind = "[::]:8084", enable_authn = true,\nssl_options {{ {_TLS} }} }}',
    "off": "listeners.ssl.default.enable = false\nlisteners.ws.default.bind = 0\n"
    "listeners.quic.default.enabled = false",
    "open": "listeners.tcp.default.enable_authn = false\nlisteners.tcp.default.max_connections = 10\n"
    "listeners.ws.default.max_connections = 20",
    "retained": "retainer { enable = true, msg_expiry_interval = 5s, max_payload_size = 1MB,\n"
    'stop_publish_clear_msg = false, delivery_rate = "1000/s", backend { type = built_in_database,\n'
    "storage_type = disc, max_retained_messages = 0, index_specs = [[1, 2, 3], [1, 3]] } }",
    "durable": "durable_sessions { enable = true, heartbeat_interval = 5s }\n"
    "durable_storage.messages.backend = builtin_raft",
    "topics": "sys_topics { sys_msg_interval = 1m, sys_heartbeat_interval = 30s,\n"
    "sys_event_messages { client_connected = true } }",
    "log": "log { console { enable = true, level = warning, formatter = json, time_offset = system },\n"
    'file { enable = false, path = "log/emqx.log", rotation_count = 10 } }',
    "no authentication": "authentication = []",
    "authentication is off": "authentication { enable = false, mechanism = password_based, backend = redis,\n"
    'cmd = "HMGET mqtt_user:${username} password_hash", password = secret-word }',
    "rules": "authorization { no_match = deny, deny_action = disconnect, cache { enable = true, ttl = 1m },\n"
    'sources = [{ type = file, enable = true, path = "${EMQX_ETC_DIR}/acl.conf" }] }',
    "limits": "flapping_detect { enable = true, window_time = 1m }\nforce_shutdown.max_heap_size = 32MB\n"
    "force_gc.count = 16000\nconn_congestion.enable_alarm = true\noverload_protection.enable = false\n"
    "zones.default.mqtt.max_inflight = 8\nbroker.enable_session_registry = true",
    "watching": "sysmon { os { cpu_check_interval = 60s }, vm { long_gc = disabled } }\nalarm { actions = [log] }\n"
    'prometheus { enable = true, push_gateway { url = "http://127.0.0.1:9091" } }\nslow_subs.enable = true\n'
    'topic_metrics = [{ topic = "a/b" }]\nopentelemetry.metrics.enable = false',
    "more": 'delayed.enable = true\nrewrite = [{ action = all, source_topic = "x/#", dest_topic = "z/y", re = "^x" }]\n'
    'rule_engine.rules.mine { sql = "SELECT * FROM \\"t/#\\"", actions = [{ function = console }] }\n'
    "gateway.stomp { enable = true }\nexhook.servers = []\nplugins.states = []\nlicense.key = secret-word\n"
    'api_key.bootstrap_file = "etc/keys"\nauto_subscribe.topics = []\ntelemetry.enable = true\n'
    "psk_authentication.enable = false",
}

TOKENS: Final = (
    "authentication = [{ mechanism = jwt, from = password, use_jwks = true, refresh_interval = 300,\n"
    'endpoint = "https://login.example.com/keys", disconnect_after_expire = true, acl_claim_name = acl,\n'
    'verify_claims { iss = "https://login.example.com", aud = mqtt, name = "${username}" } }]'
)

WRONG: Final = {
    "mqtt.max_inflight = lots": "write a whole number",
    "mqtt.max_inflight = 65536": "write a number from 1 to 65535",
    "mqtt.max_packet_size = huge": "write a size such as 1MB",
    "mqtt.retry_interval = soon": "write a duration such as 30s, or infinity",
    "mqtt.retain_available = maybe": "write true or false",
    "mqtt.keepalive_multiplier = 1000": "write a number from 1 to 100",
    "mqtt.mqueue_priorities { a = 256 }": "write a number from 1 to 255",
    "mqtt.deeper.still = 1": "there is no such setting",
    "surprise.me = 1": "EMQX has no such setting, or this import does not know it",
    "log.console.level = loud": "write one of debug, info",
    "authorization.no_match = perhaps": "write allow or deny",
    "authentication = [{ mechanism = password_based, backend = built_in_database }]": "`sluice user add`",
    "authentication = [{ mechanism = password_based, backend = mysql }]": "there is no such authenticator",
    "authentication = [{ mechanism = jwt, use_jwks = false, secret = secret-word }]": "the secret goes into a file",
    "authorization.sources = [{ type = built_in_database }]": "write authorization.rules",
    'authorization.sources = [{ type = file, path = "etc/none.conf" }]': "No such file",
    'listeners.tcp.default.access_rules = ["allow 10.0.0.0/8", "deny all"]': "rules with `addresses`",
    'listeners.tcp.default.mountpoint = "a/"': "rules with listeners",
    "mqtt.use_username_as_clientid = true": "rules with {username}",
    'psk_authentication { enable = true, init_file = "etc/keys" }': "use certificates",
    'banned.bootstrap_file = "etc/banned"': "who is let in",
    'exhook.servers = [{ name = mine, url = "http://127.0.0.1:1" }]': "plugins",
}
"""Settings that cannot be taken over and are malformed or decide about access, and what is said of each."""
