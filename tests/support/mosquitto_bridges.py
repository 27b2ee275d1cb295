"""Bridges with the options that guides and packages configure, and the topics that go over them.

FOLDER stands for a directory with certificates.
"""

from typing import Final, NamedTuple


class Guide(NamedTuple):
    """A configuration, and what becomes of it."""

    text: str
    topics: list[tuple[str, str, str, int]]
    """Of each the name here, the name there, the direction and the QoS."""
    password: bool = False
    """Whether there is one for the other broker."""


GUIDES: Final = {
    "AWS IoT": Guide(
        "connection aws\naddress abc-ats.iot.eu.amazonaws.com:8883\ntopic from-cloud in 1\ntopic to-cloud out 1\n"
        "topic shadow/# both 1\nbridge_protocol_version mqttv311\nbridge_insecure false\ncleansession true\n"
        "clientid gateway-7\nstart_type automatic\nnotifications false\nbridge_cafile FOLDER/ca.pem\n"
        "bridge_certfile FOLDER/server.pem\nbridge_keyfile FOLDER/server.key\nbridge_alpn x-amzn-mqtt-ca",
        [
            ("from-cloud", "from-cloud", "in", 1),
            ("to-cloud", "to-cloud", "out", 1),
            ("shadow/#", "shadow/#", "both", 1),
        ],
    ),
    "HiveMQ Cloud": Guide(
        "connection hivemq\naddress abc.s1.eu.hivemq.cloud:8883\nremote_username gateway\nremote_password secret-word\n"
        "topic # out 1 site/ site/\nbridge_capath /etc/ssl/certs/\nbridge_protocol_version mqttv50\ntry_private false\n"
        "notifications false\nbridge_attempt_unsubscribe false\nkeepalive_interval 30",
        [("site/#", "site/#", "out", 1)],
        password=True,
    ),
    "Home Assistant": Guide(
        "connection upstairs\naddress 192.168.1.10:1883\nremote_clientid ha-downstairs\nremote_username ha\n"
        'remote_password secret-word\nlocal_clientid downstairs\ntopic zigbee/# both 0 "" ""\n'
        'topic status in 0 upstairs/ ""\nrestart_timeout 5\ncleansession false\ntry_private true',
        [("zigbee/#", "zigbee/#", "both", 0), ("upstairs/status", "status", "in", 0)],
        password=True,
    ),
    "OpenWrt": Guide(
        "connection router\naddresses 10.0.0.5 10.0.0.6:1884\ncleansession false\nstart_type lazy\nthreshold 5\n"
        "idle_timeout 30\nround_robin false\nkeepalive_interval 60\ntopic wifi/+/state out 0 openwrt/ site/openwrt/",
        [("openwrt/wifi/+/state", "site/openwrt/wifi/+/state", "out", 0)],
    ),
    "Azure IoT Hub": Guide(
        "connection azure\naddress hub.example.net:8883\nremote_username hub.example.net/dev/?api-version=2021-04-12\n"
        "remote_password SharedAccessSignature sr=secret-word&se=1\nremote_clientid dev\nbridge_cafile FOLDER/ca.pem\n"
        "bridge_insecure false\ntry_private false\ncleansession true\nnotifications false\nstart_type automatic\n"
        "topic devices/dev/messages/events/# out 1\ntopic devices/dev/messages/devicebound/# in 1",
        [
            ("devices/dev/messages/events/#", "devices/dev/messages/events/#", "out", 1),
            ("devices/dev/messages/devicebound/#", "devices/dev/messages/devicebound/#", "in", 1),
        ],
        password=True,
    ),
    "a broker beside another": Guide(
        "connection bridge-01\naddress 192.168.1.184\ntopic house/# out\ntopic office/# in 0\n"
        "topic sensors/# both 2 local/ remote/",
        [
            ("house/#", "house/#", "out", 0),
            ("office/#", "office/#", "in", 0),
            ("local/sensors/#", "remote/sensors/#", "both", 2),
        ],
    ),
    "Mosquitto's tests": Guide(
        "connection sample\naddress 127.0.0.1:1884\ntopic bridge/# both 2\nnotifications false\nrestart_timeout 5 10\n"
        "cleansession false\nbridge_max_topic_alias 0\nbridge_outgoing_retain true\nbridge_tcp_keepalive 1 1 1",
        [("bridge/#", "bridge/#", "both", 2)],
    ),
    "Watson IoT": Guide(
        "connection watson\naddress org.messaging.internetofthings.ibmcloud.com:8883\nclientid g:org:type:gateway\n"
        "username use-token-auth\npassword secret-word\nbridge_capath /etc/ssl/certs\nbridge_tls_version tlsv1.2\n"
        "notifications false\ntry_private false\ncleansession true\ntopic iot-2/type/+/id/+/evt/+/fmt/+ out 0",
        [("iot-2/type/+/id/+/evt/+/fmt/+", "iot-2/type/+/id/+/evt/+/fmt/+", "out", 0)],
        password=True,
    ),
    "a cluster": Guide(
        "connection cluster\naddress a.example.com:1883 b.example.com:1883\nround_robin true\nrestart_timeout 10 30\n"
        "notifications true\nnotifications_local_only true\nlocal_username bridge\nlocal_password secret-word\n"
        "topic # out 1 edge/ cluster/edge/",
        [("edge/#", "cluster/edge/#", "out", 1)],
    ),
    "counters of a public broker": Guide(
        "connection test-mosquitto-org\naddress test.mosquitto.org\ncleansession true\n"
        "topic clients/total in 0 test/mosquitto/org/ $SYS/broker/",
        [("test/mosquitto/org/clients/total", "$SYS/broker/clients/total", "in", 0)],
    ),
    "thin-edge": Guide(
        "connection edge_to_c8y\naddress example.cumulocity.com:8883\nbridge_cafile FOLDER/ca.pem\n"
        "remote_clientid device-1\nlocal_clientid Cumulocity\nbridge_certfile FOLDER/server.pem\n"
        "bridge_keyfile FOLDER/server.key\ntry_private false\nstart_type automatic\ncleansession true\n"
        "notifications true\nnotifications_local_only true\nnotification_topic edge/c8y/health\n"
        'bridge_attempt_unsubscribe false\ntopic s/dt in 2 c8y/ ""\ntopic s/us/# out 2 c8y/ ""\n'
        'topic inventory/# out 2 c8y/ ""\ntopic "" in 1 here there',
        [
            ("c8y/s/dt", "s/dt", "in", 2),
            ("c8y/s/us/#", "s/us/#", "out", 2),
            ("c8y/inventory/#", "inventory/#", "out", 2),
            ("here", "there", "in", 1),
        ],
    ),
}
