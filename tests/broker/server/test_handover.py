"""One broker takes the place of another under load: with SO_REUSEPORT, and with sockets that systemd keeps open."""

import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from protocol import properties as props
from tests.support.brokers import HOST, sluice_config
from tests.support.process import Address, BrokerError, BrokerProcess, clean_environment, free_port
from tests.support.waiting import wait_until
from tests.support.wire import WireClient

pytestmark = pytest.mark.once

LASTING: Any = {props.SESSION_EXPIRY_INTERVAL: 1000}


class Load:
    """Clients that connect, publish at QoS 1 and close, over and over."""

    def __init__(self, address: Address) -> None:
        self.refused = 0
        self.acknowledged: list[bytes] = []
        self._address = address
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(4)]

    def _run(self, number: int) -> None:
        count = 0
        while not self._ended.is_set():
            payload = b"%d.%d" % (number, count := count + 1)
            try:
                with WireClient(self._address, 5, timeout=30) as client:
                    client.connect()
                    client.publish("load", payload, 1)
            except ConnectionRefusedError:
                self.refused += 1
            except (OSError, AssertionError):
                pass  # the old broker has said that it stops, or has closed
            else:
                self.acknowledged.append(payload)

    @contextmanager
    def running(self) -> Iterator["Load"]:
        """Run until the end of the block."""
        for thread in self._threads:
            thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            for thread in self._threads:
                thread.join()

    def wait_for_more(self) -> None:
        """Wait until twenty more are acknowledged."""
        wanted = len(self.acknowledged) + 20
        wait_until(lambda: len(self.acknowledged) >= wanted, "twenty more", 60)


def listening(broker: BrokerProcess) -> BrokerProcess:
    """The broker, when it serves."""
    broker.wait_for_output(lambda lines: any('"listening"' in line for line in lines), "listening", 60)
    return broker


def replace(address: Address, start: Callable[[], BrokerProcess], at_once: bool) -> None:
    """Start a broker, put it under load, and let another take its place: `at_once`, or when it has stopped."""
    with ExitStack() as stack:
        old = stack.enter_context(listening(start()))
        with WireClient(address, 5) as subscriber:
            subscriber.connect("lasting", properties=LASTING)
            subscriber.subscribe("load", qos=1)
        load = stack.enter_context(Load(address).running())
        load.wait_for_more()
        if at_once:
            with start() as new:
                new.wait_for_output(lambda lines: any('"journal_in_use"' in line for line in lines), "the wait", 60)
                finish(address, old, listening_after(old, new), load)
        else:
            old.stop()
            with start() as new:
                finish(address, old, listening(new), load)


def listening_after(old: BrokerProcess, new: BrokerProcess) -> BrokerProcess:
    """The new broker, which serves when the old one has stopped."""
    old.stop()
    return listening(new)


def finish(address: Address, old: BrokerProcess, new: BrokerProcess, load: Load) -> None:
    """The new broker serves, and has what the old one has acknowledged; nobody was refused."""
    load.wait_for_more()
    with WireClient(address, 5, timeout=30) as subscriber:
        assert subscriber.connect("lasting", clean_start=False, properties=LASTING).session_present
        missing = set(load.acknowledged)
        while missing:
            missing.discard(subscriber.receive_message().payload)
    assert load.refused == 0
    assert not [*old.trouble(), *new.trouble()]


def configuration(folder: Path, **listener: object) -> Path:
    """The file of a broker with a journal and one listener."""
    file = folder / "sluice.yaml"
    sections = {
        "listeners": [{"name": "tcp", **listener}],
        "persistence": {"directory": "journal"},
        "session": {"max_mqueue_len": "infinity", "max_mqueue_bytes": "infinity"},
    }
    file.write_text(sluice_config((), sections))
    return file


def test_reuse_port(tmp_path: Path) -> None:
    """The next broker opens the port while the first serves it, and waits for the journal: connections wait with it."""
    address = Address(HOST, free_port())
    file = configuration(tmp_path, bind=f"{HOST}:{address.port}", reuse_port=True)
    command = [sys.executable, "-m", "broker", "run", "--config", str(file)]
    environment = clean_environment(XDG_RUNTIME_DIR=str(tmp_path))
    replace(address, lambda: BrokerProcess(command, tmp_path, environment), at_once=True)


def test_systemd_socket(tmp_path: Path) -> None:
    """A socket of systemd stays open between two brokers: connections wait in its queue."""
    file = configuration(tmp_path, bind="systemd:mqtt")
    environment = clean_environment(XDG_RUNTIME_DIR=str(tmp_path))
    with socket.create_server((HOST, 0), backlog=4096) as sock:
        number = sock.fileno()
        variables = "LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=mqtt"
        run = f"exec {sys.executable} -m broker run --config {file}"
        command = ["bash", "-c", f"exec 3<&{number}; {variables} {run}"]

        def start() -> BrokerProcess:
            return BrokerProcess(command, tmp_path, environment, pass_fds=[number])

        replace(Address(HOST, sock.getsockname()[1]), start, at_once=False)


def test_alone(tmp_path: Path) -> None:
    """Where somebody listens without the option, a broker with it does not start: it is needed of both."""
    with socket.create_server((HOST, 0)) as sock:
        file = configuration(tmp_path, bind=f"{HOST}:{sock.getsockname()[1]}", reuse_port=True)
        command = [sys.executable, "-m", "broker", "run", "--config", str(file)]
        broker = BrokerProcess(command, tmp_path, clean_environment(XDG_RUNTIME_DIR=str(tmp_path)))
        with pytest.raises(BrokerError, match=r"(?s)ended with 1 .*listener tcp: cannot listen on .*already in use"):
            listening(broker)
        broker.stop()
