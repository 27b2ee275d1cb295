"""What systemd is told: that the broker is ready, stops, and is alive."""

import os
import socket
from pathlib import Path

import pytest

from broker.server.notify import Notify
from tests.support.broker.events import wait_for_event
from tests.support.brokers import start_sluice

pytestmark = pytest.mark.once


def manager(path: str) -> socket.socket:
    """The socket of a service manager."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.settimeout(20)
    sock.bind(path)
    return sock


def test_broker(tmp_path: Path) -> None:
    """A broker says when clients may connect, again and again that it lives, and that it stops."""
    with manager(str(tmp_path / "notify")) as sock:
        env = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "300000"}
        with start_sluice(tmp_path, env=env) as broker:
            wait_for_event(broker, "listening")
            told = [sock.recv(100) for _ in range(4)]
            assert sorted(told) == [b"READY=1", b"WATCHDOG=1", b"WATCHDOG=1", b"WATCHDOG=1"]
            broker.ask_to_end()
            while sock.recv(100) != b"STOPPING=1":
                pass


@pytest.mark.parametrize("address", ["", "/nowhere/notify", "@sluice-nowhere"])
def test_nobody_listens(address: str) -> None:
    """Without a manager, or if it has gone, nothing happens."""
    notify = Notify({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "3"})
    notify.ready()
    notify.look(10)
    notify.stopping()


def test_variables(tmp_path: Path) -> None:
    """The period is for the process that the manager watches; processes that this one starts do not see it."""
    with manager(f"\0sluice-{os.getpid()}") as sock:
        for pid, told in ((str(os.getpid()), True), ("", True), ("1", False)):
            environ = {
                "NOTIFY_SOCKET": f"@sluice-{os.getpid()}",
                "WATCHDOG_USEC": "30",
                "WATCHDOG_PID": pid,
                "OTHER": "1",
            }
            notify = Notify(environ)
            assert environ == {"OTHER": "1"}
            for now in (100, 105, 109, 110, 111):
                notify.look(now)
            notify.ready()
            received = [sock.recv(100) for _ in range(3 if told else 1)]
            assert received == [b"WATCHDOG=1"] * (2 if told else 0) + [b"READY=1"]
