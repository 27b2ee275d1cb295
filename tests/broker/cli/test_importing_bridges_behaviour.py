"""What an imported bridge is configured to send is what Mosquitto sends to the other broker."""

import math
import socket
from pathlib import Path
from typing import Final

import pytest

import config
from config.bridge import Bridge
from protocol import properties as props
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.decoder import Decoder
from protocol.subscribe import Subscribe
from tests.broker.cli.test_importing import import_from
from tests.support.brokers import HOST, find_mosquitto
from tests.support.process import BrokerProcess, free_port

pytestmark = [pytest.mark.once, pytest.mark.skipif(find_mosquitto() is None, reason="needs Mosquitto")]

READ_BYTES: Final = 65_536
LONGEST: Final = 20.0
"""Seconds that Mosquitto may take to connect and subscribe."""

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


def meant(bridge: Bridge, connect: Connect) -> dict[str, object]:
    """The fields of CONNECT that a bridge is configured to have; `connect`: that of Mosquitto, with the others."""
    interval = bridge.session_expiry_interval
    return {
        "client_id": bridge.client_id,
        "clean_start": bridge.clean_start,
        "keep_alive": bridge.keepalive,
        "username": bridge.username,
        "password": bridge.password_file and bridge.password_file.read_bytes().rstrip(b"\n"),
        "version": {"5": 5, "3.1.1": 4}[bridge.proto_ver],
        "bridge": bridge.proto_ver == "3.1.1",
        "will": bridge.state_topic and (bridge.state_topic.encode(), b"0", 1, True),
        "expiry": connect.version == 5 and (0xFFFF_FFFF if interval == math.inf else interval),
    }


@pytest.mark.parametrize("about", CASES)
def test_same_connect(about: str, tmp_path: Path) -> None:
    """Client id, login, will, versions and subscriptions are the same."""
    file, output = tmp_path / "mosquitto.conf", tmp_path / "sluice.yaml"
    with socket.create_server((HOST, 0)) as server:
        address = f"address {HOST}:{server.getsockname()[1]}"
        text = f"user root\nlistener {free_port()} {HOST}\nallow_anonymous true\nconnection b\n{address}\n"
        file.write_text(f"{text}{CASES[about]}\n")
        assert import_from(file, "-o", output)[0] == 0
        (bridge,) = config.load(output, environ={}).config.bridges
        topics = [(each.remote_filter, each.qos) for each in bridge.topics if each.comes_in]
        with BrokerProcess([str(find_mosquitto()), "-c", str(file)], tmp_path):
            connect, filters = sent(server, len(topics))
    will = connect.will
    found = {name: getattr(connect, name) for name in meant(bridge, connect) if hasattr(connect, name)} | {
        "will": will and (will.topic, will.payload, will.qos, will.retain),
        "expiry": connect.version == 5 and props.integer(connect.properties, props.SESSION_EXPIRY_INTERVAL),
    }
    assert found == meant(bridge, connect)
    assert sorted(filters) == sorted(topics)
