"""Listeners on Unix sockets: who may connect, what is left behind, what rules and proxies know of their clients."""

import signal
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from protocol import reason_codes
from protocol.acknowledgements import Puback
from protocol.publish import Publish
from tests.broker.conftest import Start
from tests.support.process import BrokerError, BrokerProcess
from tests.support.wire import WireClient, connected


def on(start: Start, path: Path, **more: Any) -> BrokerProcess:
    """A broker that listens on a path."""
    own = {"name": "tcp", "bind": f"unix:{path}", **more.pop("listener", {})}
    return start(sections={"listeners": [own], **more})


@pytest.mark.parametrize(("mode", "expected"), [(None, 0o660), ("0600", 0o600), ("666", 0o666)])
def test_clients(start: Start, tmp_path: Path, mode: str | None, expected: int) -> None:
    """Clients publish and subscribe; the file has the permissions that are configured, and goes with the broker."""
    path = tmp_path / "mqtt.sock"
    broker = on(start, path, listener={} if mode is None else {"mode": mode})
    assert stat.S_IMODE(path.stat().st_mode) == expected
    with connected(broker.address(), 5) as client:
        client.subscribe("t", qos=1)
        client.publish("t", b"x" * 500_000, qos=1)
        assert len(client.receive_message().payload) == 500_000
    broker.stop()
    assert not path.exists()


def test_stale(start: Start, tmp_path: Path) -> None:
    """A socket that a killed broker has left is replaced; one on which a broker listens is not."""
    path = tmp_path / "mqtt.sock"
    broker = on(start, path)
    broker.ask_to_end(signal.SIGKILL)
    broker.stop()
    assert path.exists()
    broker = on(start, path)
    with pytest.raises(BrokerError, match="another broker listens on"):
        on(start, path)
    with connected(broker.address(), 5):
        pass


def test_something_else_is_there(start: Start, tmp_path: Path) -> None:
    """A file is never removed."""
    path = tmp_path / "mqtt.sock"
    path.write_text("precious")
    with pytest.raises(BrokerError, match="is a file, not a socket"):
        on(start, path)
    assert path.read_text() == "precious"


def test_rules(start: Start, tmp_path: Path) -> None:
    """A client by a Unix socket has no IP address, so that rules about addresses are not about it."""
    rules = [
        {"permit": "allow", "topics": ["a"], "addresses": ["0.0.0.0/0", "::/0"]},
        {"permit": "allow", "topics": ["b"], "listeners": ["tcp"]},
    ]
    broker = on(start, tmp_path / "mqtt.sock", authorization={"rules": rules, "default": "deny"})
    with connected(broker.address(), 5) as client:
        codes = []
        for topic in (b"a", b"b"):
            client.send(Publish(topic, b"", 1, packet_id=1))
            codes.append(client.expect(Puback).reason_code)
    assert codes == [reason_codes.NOT_AUTHORIZED, reason_codes.NO_MATCHING_SUBSCRIBERS]


def test_proxy(start: Start, tmp_path: Path) -> None:
    """A proxy on this machine may connect by a Unix socket: the file's permissions say who is trusted."""
    listener = {"proxy_protocol": {"trusted": ["192.0.2.1"]}}
    rules = [{"permit": "allow", "topics": ["a"], "addresses": ["198.51.100.7"]}]
    authorization = {"rules": rules, "default": "deny"}
    broker = on(start, tmp_path / "mqtt.sock", listener=listener, authorization=authorization)
    with WireClient(broker.address(), 5, first=b"PROXY TCP4 198.51.100.7 198.51.100.1 1 2\r\n") as client:
        assert client.connect().reason_code == 0
        client.send(Publish(b"a", b"", 1, packet_id=1))
        assert client.expect(Puback).reason_code == reason_codes.NO_MATCHING_SUBSCRIBERS


def test_reset(start: Start, tmp_path: Path) -> None:
    """A client that goes without a word does no harm."""
    broker = on(start, tmp_path / "mqtt.sock")
    for first in (b"", b"\x10", b"\x10\x0c\x00\x04MQTT"):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(broker.address().host)
            client.sendall(first)
    with connected(broker.address(), 5):
        pass
