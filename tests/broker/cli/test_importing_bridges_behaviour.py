"""What an imported bridge sends to the other broker is what Mosquitto sends."""

import socket
from pathlib import Path
from typing import Final

import pytest

import config
from protocol import properties as props
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.decoder import Decoder
from protocol.subscribe import Subscribe
from tests.broker.cli.test_importing import import_from
from tests.support.brokers import HOST, SLUICE, find_mosquitto
from tests.support.mosquitto_bridges import GUIDES
from tests.support.process import BrokerProcess, clean_environment, free_port

pytestmark = [pytest.mark.once, pytest.mark.skipif(find_mosquitto() is None, reason="needs Mosquitto")]

READ_BYTES: Final = 65_536
LONGEST: Final = 20.0
"""Seconds that Mosquitto may take to connect and subscribe."""

SECURE: Final = ("bridge_cafile", "bridge_capath", "bridge_certfile", "bridge_keyfile", "bridge_insecure", "bridge_tls")
"""Options of TLS."""
NEWER: Final = ("bridge_max_topic_alias", "bridge_tcp_keepalive")
"""Options that Mosquitto 2.0.11 does not know."""
LAZY: Final = ("start_type lazy", "threshold", "idle_timeout")
"""Options with which nobody connects before there is something to send."""

CASES: Final = {
    "nothing else": "topic a in",
    "no state": "topic a in\nnotifications false",
    "state here only": "topic a in\nnotifications_local_only true",
    "state elsewhere": "topic a in\nnotification_topic up/now\nremote_clientid me",
    "client id": "topic a in 1\nclientid one two\ncleansession true\nkeepalive_interval 1",
    "login": "topic a in\nremote_username me\nremote_password correct horse\nkeepalive_interval 600",
    "topics": 'topic # in 2 l/ r/\ntopic x/+ both 1 "" r/\ntopic y out\ntopic "" in 0 here there # one\ntopic z IN',
    "MQTT 5": "topic a in\nbridge_protocol_version mqttv50",
    "MQTT 5, clean": "topic a both 1\nbridge_protocol_version mqttv50\ncleansession true\nremote_username me",
}


def sent(server: socket.socket, topics: int) -> tuple[Connect, list[tuple[str, int]]]:
    """What a bridge with so many topics that come in sends: CONNECT, and its subscriptions with their QoS."""
    server.settimeout(LONGEST)
    peer = server.accept()[0]
    with peer:
        peer.settimeout(LONGEST)
        decoder, connect, filters = Decoder(), None, list[tuple[str, int]]()
        while connect is None or len(filters) < topics:
            packet = decoder.next_packet()
            if isinstance(packet, Connect):
                connect = packet
                peer.sendall(Connack().encode(packet.version))
            elif isinstance(packet, Subscribe):
                filters += [(each.topic_filter, each.qos) for each in packet.subscriptions]
            elif packet is None:
                data = peer.recv(READ_BYTES)
                assert data, "Mosquitto has closed the connection"
                decoder.feed(data)
    return connect, filters


def fields(connect: Connect) -> dict[str, object]:
    """What a CONNECT says, but for limits of its sender."""
    will = connect.will
    return {
        "client_id": connect.client_id,
        "clean_start": connect.clean_start,
        "keep_alive": connect.keep_alive,
        "username": connect.username,
        "password": connect.password,
        "version": connect.version,
        "bridge": connect.bridge,
        "will": will and (will.topic, will.payload, will.qos, will.retain),
        "expiry": props.integer(connect.properties, props.SESSION_EXPIRY_INTERVAL),
    }


def plain(text: str) -> str:
    """A guide's configuration with the address of the test, without TLS, and always connected."""
    lines = text.splitlines()
    return "\n".join(line for line in lines if not line.startswith(("connection", "address", *SECURE, *NEWER, *LAZY)))


@pytest.mark.parametrize("about", [*CASES, *GUIDES])
def test_same_connect(about: str, tmp_path: Path) -> None:
    """Mosquitto, and Sluice with what is imported from its configuration, send the same to the other broker."""
    own = CASES[about] if about in CASES else plain(GUIDES[about].text)
    file, output = tmp_path / "mosquitto.conf", tmp_path / "sluice.yaml"
    with socket.create_server((HOST, 0)) as server:
        address = f"address {HOST}:{server.getsockname()[1]}"
        text = f"user root\nlistener {free_port()} {HOST}\nallow_anonymous true\nconnection b\n{address}\n"
        file.write_text(f"{text}{own}\n")
        import_from(file, "-o", output)
        (bridge,) = config.load(output, environ={}).config.bridges
        topics = sum(each.comes_in for each in bridge.topics)
        with BrokerProcess([str(find_mosquitto()), "-c", str(file)], tmp_path):
            connect, filters = sent(server, topics)
        with BrokerProcess([*SLUICE, "run", "--config", str(output)], tmp_path, clean_environment()):
            our_connect, our_filters = sent(server, topics)
    assert fields(our_connect) == fields(connect)
    assert sorted(our_filters) == sorted(filters)
