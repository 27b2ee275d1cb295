"""Configurations with the options and values of Mosquitto's own examples and tests, by what they are about.

PORT, OTHER and FOLDER stand for two ports and a directory; SOUND import without a word about a mistake, GUARDED with
one for each line that decides about access, WRONG not at all.
"""

from typing import Final

_LISTEN: Final = "listener PORT"
_OPEN: Final = "listener PORT\nallow_anonymous true"
_TLS: Final = "cafile FOLDER/ca.pem\ncertfile FOLDER/server.pem\nkeyfile FOLDER/server.key"
_BRIDGE: Final = f"{_OPEN}\nconnection bridge_sample\naddress 127.0.0.1:OTHER"
_LOGIN: Final = "remote_username name\nremote_password secret-word"
_FILES: Final = "password_file FOLDER/passwords\nacl_file FOLDER/acl"
_OTHER_FILES: Final = "password_file FOLDER/others\nacl_file FOLDER/tight"

SOUND: Final = {
    "empty": "",
    "debian": "pid_file /run/mosquitto/mosquitto.pid\npersistence true\npersistence_location /var/lib/mosquitto/\n"
    "log_dest file /var/log/mosquitto/mosquitto.log",
    "port": "port PORT\nallow_anonymous true",
    "port and address": "bind_address 127.0.0.1\nport PORT\nallow_anonymous true",
    "anonymous refused": f"{_LISTEN}\nallow_anonymous false",
    "anonymous by default": _LISTEN,
    "anonymous on the first": "listener PORT\nlistener_allow_anonymous true\nlistener OTHER\n"
    "listener_allow_anonymous false",
    "anonymous on the second": "allow_anonymous true\nlistener PORT\nlistener_allow_anonymous false\nlistener OTHER",
    "anonymous nowhere": "allow_anonymous true\nlistener PORT\nlistener_allow_anonymous false\nlistener OTHER\n"
    "listener_allow_anonymous false",
    "passwords": f"{_LISTEN}\npassword_file FOLDER/passwords\nallow_anonymous false",
    "passwords or none": f"{_OPEN}\npassword_file FOLDER/passwords",
    "unix socket": "listener 0 FOLDER/mqtt.sock\nallow_anonymous true",
    "maximum keep-alive": f"{_OPEN}\nmax_keepalive 100",
    "maximum connections": f"{_OPEN}\nmax_connections 10",
    "global connections": f"{_OPEN}\nglobal_max_connections 10\nglobal_max_clients 10",
    "zero-length id": f"{_OPEN}\nallow_zero_length_clientid true\nauto_id_prefix auto-",
    "accepted versions": f"{_OPEN}\naccept_protocol_versions 3, 4,5",
    "inflight": f"{_OPEN}\nmax_inflight_messages 1\nmax_queued_messages 1",
    "inflight bytes": f"{_OPEN}\nmax_inflight_bytes 16\nmax_inflight_messages 0",
    "queued bytes": f"{_OPEN}\nmax_inflight_messages 20\nmax_queued_bytes 400\nqueue_qos0_messages true",
    "packet size": f"{_OPEN}\nmax_packet_size 40",
    "message size": f"{_OPEN}\nmessage_size_limit 1",
    "retain off": f"{_OPEN}\nretain_available false",
    "retain source": "per_listener_settings true\ncheck_retain_source true\nlistener PORT\nallow_anonymous true\n"
    f"{_FILES}\npersistence true\npersistence_file retain.db\nlistener OTHER\nallow_anonymous true",
    "retain source, one": f"{_OPEN}\n{_FILES}\ncheck_retain_source false",
    "retain expiry": f"{_OPEN}\nretain_expiry_interval 1",
    "upgrade": f"{_OPEN}\nupgrade_outgoing_qos true",
    "duplicates": f"{_OPEN}\nallow_duplicate_messages false",
    "session expiry": f"{_OPEN}\npersistent_client_expiration 1h",
    "session expiry, months": f"{_OPEN}\npersistent_client_expiration 2m",
    "bridge out": f"{_BRIDGE}\ntopic bridge/# out 1\nnotifications false\nrestart_timeout 5\ncleansession true",
    "bridge in": f"{_BRIDGE}\ntopic bridge/# both 0\nkeepalive_interval 60\nbridge_protocol_version mqttv50\n"
    "bridge_max_topic_alias 0\ntry_private false\nround_robin false\nidle_timeout 10",
    "bridge remapping": f"{_BRIDGE}\nbridge_attempt_unsubscribe false\ntopic # out 0 local/topic/ remote/topic/\n"
    'topic prefix/# out 0 local2/topic/ remote2/topic/\ntopic "" out 0 local5/topic/ remote5/topic/',
    "bridge sessions": f"{_OPEN}\npersistence true\npersistence_file edge.db\nconnection bridge_sample\n"
    "local_clientid id_local\nremote_clientid id_remote\naddress 127.0.0.1:OTHER\ntopic br_out/# out 1\n"
    "topic br_in/# in 1\nkeepalive_interval 5\nrestart_timeout 2\ncleansession false\nlocal_cleansession true\n"
    "bridge_protocol_version mqttv311\nbridge_max_topic_alias 0",
    "bridge with TLS": f"{_BRIDGE}\ntopic bridge/# both 0\nbridge_cafile FOLDER/ca.pem\nbridge_certfile "
    "FOLDER/server.pem\nbridge_keyfile FOLDER/server.key\nbridge_insecure false\nbridge_tls_version tlsv1.2",
    "TLS": f"{_OPEN}\n{_TLS}",
    "TLS, certificates": f"{_OPEN}\n{_TLS}\nrequire_certificate true",
    "TLS, identity": f"{_LISTEN}\n{_TLS}\nrequire_certificate true\nuse_identity_as_username true",
    "TLS, identity and rules": f"{_LISTEN}\n{_TLS}\nacl_file FOLDER/acl\nuse_identity_as_username true\n"
    "require_certificate true",
    "TLS, revoked": f"{_OPEN}\n{_TLS}\nrequire_certificate true\ncrlfile FOLDER/crl.pem",
    "TLS, versions": f"{_OPEN}\n{_TLS}\ntls_version tlsv1.3\nciphers_tls1.3 TLS_AES_256_GCM_SHA384\nciphers HIGH\n"
    "dhparamfile FOLDER/dh.pem\ncapath FOLDER",
    "limits of a listener": f"{_OPEN}\nmptcp true\nmax_topic_alias 5\nmax_qos 1\nenable_control_api true\n"
    "use_username_as_clientid false",
    "default listener": "max_qos 2\nmax_connections -1\nlistener PORT\nallow_anonymous true",
    "API beside MQTT": f"{_OPEN}\nlistener OTHER\nprotocol http_api\nmax_qos 1",
    "websockets": "listener PORT\nprotocol websockets\nallow_anonymous true\nhttp_dir FOLDER\n"
    "websockets_headers_size 2048\nwebsockets_log_level 0",
    "websockets, origins": "listener PORT\nprotocol websockets\nallow_anonymous true\n"
    "websockets_origin https://example.com",
    "proxy": f"{_OPEN}\nenable_proxy_protocol 2\nproxy_protocol_v2_require_tls false",
    "persistence": f"{_OPEN}\npersistence true\npersistence_file mosquitto.db\nautosave_interval 1\n"
    "autosave_on_changes true\npersistence_location FOLDER",
    "log": f"{_OPEN}\nlog_dest stderr\nlog_type error\nlog_type information\nlog_timestamp false\n"
    "log_timestamp_format %Y\nlog_facility 5\nconnection_messages true",
    "system": f"user mosquitto\nmemory_limit 4000000000\nsys_interval 60\nset_tcp_nodelay true\n{_OPEN}\n"
    "socket_domain ipv4\nbind_interface lo",
}

GUARDED: Final = {
    "PSK": (
        f"{_OPEN}\nlistener OTHER\npsk_hint hint\npsk_file FOLDER/psk\nuse_identity_as_username true",
        ["psk_hint", "psk_file"],
    ),
    "PSK and certificates": (f"{_OPEN}\n{_TLS}\npsk_hint hint\npsk_file FOLDER/psk", ["psk_hint", "psk_file"]),
    "bridge with PSK": (
        f"{_OPEN}\nconnection b\naddress h\ntopic a\nbridge_identity i\nbridge_psk deadbeef\n{_LOGIN}\nthreshold 10",
        ["bridge_identity", "bridge_psk"],
    ),
    "plugin": (
        f"{_LISTEN}\nauth_plugin FOLDER/auth_plugin.so\nauth_opt_name secret-word\nallow_anonymous false",
        ["auth_plugin"],
    ),
    "plugins": (f"{_OPEN}\nplugin FOLDER/dynsec.so\nplugin_opt_config_file FOLDER/dynsec.json", ["plugin"]),
    "plugin of a listener": (
        "per_listener_settings true\nlistener PORT\nplugin FOLDER/p.so\nlistener OTHER\nallow_anonymous true",
        ["plugin"],
    ),
    "mount point": (f"{_OPEN}\nmount_point mount/", ["mount_point"]),
    "client ids of users": (f"{_OPEN}\nuse_username_as_clientid true", ["use_username_as_clientid"]),
    "client id prefixes": (f"{_OPEN}\nclientid_prefixes test-", ["clientid_prefixes"]),
    "subjects": (
        f"{_LISTEN}\n{_TLS}\nrequire_certificate true\nuse_subject_as_username true",
        ["use_subject_as_username"],
    ),
    "names that are claimed": (f"{_OPEN}\nacl_file FOLDER/acl", ["acl_file"]),
    "authorities in a directory": (
        f"{_OPEN}\nlistener OTHER\n{_TLS.replace('cafile FOLDER/ca.pem', 'capath FOLDER')}\nrequire_certificate true",
        ["capath"],
    ),
    "more authorities": (f"{_OPEN}\n{_TLS}\nrequire_certificate true\ncapath FOLDER", ["capath"]),
    "cafile that is not there": (f"{_OPEN}\nlistener OTHER\n{_TLS.replace('ca.pem', 'ca.pem # all')}", ["cafile"]),
    "certificate without key": (f"{_OPEN}\nlistener OTHER\ncertfile FOLDER/server.pem", ["certfile"]),
    "names without certificates": (f"{_OPEN}\n{_TLS}\nuse_identity_as_username true", ["use_identity_as_username"]),
    "interface": (f"{_OPEN}\nlistener OTHER\nbind_interface none0", ["bind_interface"]),
    "address and interface": (f"{_OPEN}\nlistener OTHER 192.0.2.1\nbind_interface lo", ["bind_interface"]),
    "proxy with TLS": (
        f"{_OPEN}\nenable_proxy_protocol 2\nproxy_protocol_v2_require_tls true",
        ["proxy_protocol_v2_require_tls"],
    ),
    "files of each listener": (
        f"per_listener_settings true\n{_LISTEN}\n{_FILES}\nlistener OTHER\n{_OTHER_FILES}",
        ["password_file", "acl_file"],
    ),
    "users of one listener": (
        "per_listener_settings true\nlistener PORT\npassword_file FOLDER/passwords\nlistener OTHER",
        ["password_file"],
    ),
}
"""Each with the options that are told."""

WRONG: Final = {
    "unknown_option unknown": "no such option",
    "user": "no value",
    "accept_protocol_versions 3": "listener PORT",
    "allow_anonymous": "no value",
    "allow_anonymous falst": "true or false",
    "autosave_interval": "no value",
    "listener": "no value",
    "listener 0": "Unix socket",
    "listener 70000": "65535",
    "listener word": "whole number",
    "mount_point test/": "listener PORT",
    "  # indented": "no such option",
    "allow_anonymous\ttrue": "spaces",
    "require_certificate yes": "true or false",
    "bind_address 127.0.0.1 # local": "nothing behind it",
    "tls_version tlsv1.3 # best": "tlsv1.3",
    "cafile a\ncafile b": "takes it once",
    "allow_anonymous true\nper_listener_settings true": "above all lines",
    "protocol": "no value",
    "protocol test": "mqtt or websockets",
    "plugin_opt_x string": "names a plugin",
    "bridge_insecure true": "connection NAME",
    "connection": "no value",
    "local_clientid str": "connection NAME",
    "topic topic/10": "connection NAME",
    "password pw": "connection NAME",
    "max_qos 3": "from 0 to 2",
    "maximum_qos -1": "from 0 to 2",
    "max_inflight_messages 65536": "at most 65535",
    "max_inflight_messages many": "whole number",
    "max_keepalive 65536": "65535",
    "max_topic_alias -1": "65535",
    "memory_limit -1": "from 0",
    "sys_interval -1": "65535",
    "persistent_client_expiration 5": "such as 2m",
    "log_type loud": "information",
    "max_packet_size 1": "from 20",
    "socket_domain ipx": "ipv4 or ipv6",
    "include_dir": "name the directory",
    "include_dir /nowhere/at/all": "no directory",
    "\x1b[31mred\x07 1": "no such option",
}
"""Lines that Mosquitto refuses, or would, and a part of what is said about each."""
