"""Sockets that systemd passes: by systemd's own tool, and variables in every form."""

import os
import shutil
import socket
import sys
from pathlib import Path

import pytest

from broker.server.activation import passed_on, sockets_named
from broker.server.listener_plan import SYSTEMD
from protocol.connect import Connect
from tests.support.broker.events import wait_for_event
from tests.support.broker.reloads import reload
from tests.support.brokers import sluice_config
from tests.support.process import Address, BrokerProcess, clean_environment, free_port
from tests.support.wire import WireClient, connected

pytestmark = pytest.mark.once

NEW = {"name": "new", "bind": "systemd:another"}
ACTIVATE = shutil.which("systemd-socket-activate")


@pytest.mark.skipif(ACTIVATE is None, reason="systemd-socket-activate is not installed (Debian: apt install systemd)")
def test_activated(tmp_path: Path) -> None:
    """The broker serves a port that was opened before it began, and the client that has made it begin.

    A reload does not close it, nor does it open another; it says so.
    """
    port = free_port()
    listeners = [{"name": "tcp", "bind": "systemd:mqtt"}, {"name": "other", "bind": "127.0.0.1:0"}]
    file = tmp_path / "sluice.yaml"
    sections = {"admin": {"socket": "a.sock"}}
    file.write_text(sluice_config((), sections | {"listeners": listeners}))
    environment = clean_environment(XDG_RUNTIME_DIR=str(tmp_path))
    passed = [f"--setenv={name}" for name in environment]
    command = [str(ACTIVATE), f"--listen=127.0.0.1:{port}", "--fdname=mqtt", *passed, sys.executable, "-m", "broker"]
    with BrokerProcess([*command, "run", "--config", str(file)], tmp_path, environment) as broker:
        broker.wait_for_output(lambda lines: any("Listening on" in line for line in lines), "the port")
        with WireClient(Address("127.0.0.1", port), 5, timeout=30) as client:
            assert client.connect().reason_code == 0
            client.subscribe("t")
            client.publish("t", b"x")
            assert client.receive_message().payload == b"x"
            file.write_text(sluice_config((), sections | {"listeners": [listeners[1], NEW]}))
            answer = reload(broker).json
            assert (answer["opened"], answer["closed"]) == ([], [])
            assert answer["restart"] == {"listeners (tcp)": SYSTEMD, "listeners[1].bind": SYSTEMD}
            client.expect_nothing_more()
            connected(Address("127.0.0.1", port)).close()
        broker.assert_healthy()


@pytest.mark.skipif(ACTIVATE is None, reason="systemd-socket-activate is not installed (Debian: apt install systemd)")
@pytest.mark.parametrize("trusted", ["127.0.0.0/8", "::ffff:127.0.0.1"])
def test_ipv4_on_an_ipv6_socket(tmp_path: Path, trusted: str) -> None:
    """systemd's sockets take both: a proxy that comes by IPv4 is trusted by its IPv4 address, and logged with it."""
    port = free_port()
    listener = {"name": "tcp", "bind": "systemd:mqtt", "proxy_protocol": {"trusted": [trusted]}}
    file = tmp_path / "sluice.yaml"
    log = {"level": "debug", "format": "json"}
    file.write_text(sluice_config((), {"listeners": [listener], "admin": {"socket": "a.sock"}, "log": log}))
    environment = clean_environment(XDG_RUNTIME_DIR=str(tmp_path))
    passed = [f"--setenv={name}" for name in environment]
    listen = f"--listen=[::ffff:127.0.0.1]:{port}"
    command = [str(ACTIVATE), listen, "--fdname=mqtt", *passed, sys.executable, "-m", "broker"]
    with BrokerProcess([*command, "run", "--config", str(file)], tmp_path, environment) as broker:
        broker.wait_for_output(lambda lines: any("Listening on" in line for line in lines), "the port")
        proxy = Address("127.0.0.1", port)
        with WireClient(proxy, 5, timeout=30, first=b"PROXY UNKNOWN\r\n") as client:
            assert client.connect().reason_code == 0
        with WireClient(proxy, 5) as client:
            client.send(Connect("direct", version=5))
            client.expect_close()
        (event,) = wait_for_event(broker, "proxy_header_refused")
        assert event["peer"].startswith("127.0.0.1:")
        broker.assert_healthy()


def test_variables() -> None:
    """Only what is for this process counts, and processes that it starts do not see it."""
    me, first = str(os.getpid()), 900
    for position in range(3):
        os.dup2(0, first + position)
    try:
        for environ, expected in (
            ({}, {}),
            ({"LISTEN_PID": "1", "LISTEN_FDS": "1"}, {}),
            ({"LISTEN_PID": me, "LISTEN_FDS": "x"}, {}),
            ({"LISTEN_PID": me, "LISTEN_FDS": "0"}, {}),
            ({"LISTEN_PID": me, "LISTEN_FDS": "2"}, {"unknown": [first, first + 1]}),
            (
                {"LISTEN_PID": me, "LISTEN_FDS": "3", "LISTEN_FDNAMES": "a:b:a"},
                {"a": [first, first + 2], "b": [first + 1]},
            ),
        ):
            variables = dict(environ)
            assert passed_on(variables, first) == expected
            assert variables == {}
    finally:
        for position in range(3):
            os.close(first + position)


def test_not_a_listening_socket() -> None:
    """What cannot be listened on is refused, and so is a name that systemd has not passed."""
    with socket.socket() as sock:
        with pytest.raises(OSError, match="not a listening stream socket"):
            sockets_named("a", {"a": [sock.fileno()]})
        with pytest.raises(OSError, match="there are: a, b"):
            sockets_named("c", {"b": [], "a": []})
