"""Starts Sluice, or Mosquitto in its place, on free ports of the loopback interface.

`SLUICE_TEST_BROKER=mosquitto` runs the tests that only need some MQTT broker against Mosquitto: it shows
whether a failure is the broker's or the test's.
"""

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.support.certificates import Certificates
from tests.support.forked import installed
from tests.support.process import Address, BrokerError, BrokerProcess, clean_environment, free_port

HOST = "127.0.0.1"
SLUICE = (sys.executable, "-m", "broker")
LOOPS = {
    "uvloop": SLUICE,
    "asyncio": (sys.executable, "-c", "import sys; sys.modules['uvloop'] = None; import broker.__main__"),
}
"""Commands that start Sluice on either event loop."""
OWN_PROGRAM = {"PYTHONUNBUFFERED": "1"}
"""With several workers the keeper starts its cells with its own command line: it is no fork of the tests."""
READ_EARLY = ("LD_", "MALLOC_", "PYTHON")
"""The beginnings of variables that are read before Sluice is."""


@dataclass(frozen=True)
class Listener:
    """What a broker is to listen on: plain TCP, or TLS with or without client certificates; Sluice also WebSocket."""

    name: str = "tcp"
    certificates: Certificates | None = None
    require_client_certificate: bool = False
    websocket: bool = False


TCP_ONLY = (Listener(),)


def broker_under_test() -> str:
    """Return `sluice` or `mosquitto`."""
    return os.environ.get("SLUICE_TEST_BROKER", "sluice")


def start_broker(folder: Path, listeners: Sequence[Listener] = TCP_ONLY, workers: int = 1) -> BrokerProcess:
    """Start the broker under test with default settings and wait until it accepts connections."""
    if broker_under_test() == "mosquitto":
        return start_mosquitto(folder, listeners)
    return start_sluice(folder, listeners, workers=workers)


def sluice_config(listeners: Sequence[Listener], sections: Mapping[str, object] | None = None) -> str:
    """Return a configuration file (YAML) with these listeners; `sections` are further top-level keys."""
    config: dict[str, object] = {
        "node_name": "test",
        "allow_anonymous": True,
        "listeners": [_sluice_listener(listener) for listener in listeners],
        "log": {"level": "info", "format": "json", "max_lines": "infinity"},
    }
    return yaml.safe_dump(config | dict(sections or {}))


def _sluice_listener(listener: Listener) -> dict[str, object]:
    settings: dict[str, object] = {"name": listener.name, "bind": f"{HOST}:0"}
    if listener.certificates:
        settings["tls"] = {
            "certfile": str(listener.certificates.server.certfile),
            "keyfile": str(listener.certificates.server.keyfile),
            "cafile": str(listener.certificates.cafile),
            "require_client_certificate": listener.require_client_certificate,
        }
    if listener.websocket:
        settings["websocket"] = {}
    return settings


def start_sluice(
    folder: Path,
    listeners: Sequence[Listener] = TCP_ONLY,
    sections: Mapping[str, object] | None = None,
    *,
    command: Sequence[str] = SLUICE,
    flags: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    prepare: str = "",
    seconds: float = 30.0,
    workers: int = 1,
) -> BrokerProcess:
    """Start Sluice and wait, at most so many seconds, until it has said on which port each listener is.

    With several workers it waits until all of them serve.

    It runs in `folder`: which `broker` package it finds depends on what is installed and on PYTHONPATH only, as it
    does for the tests themselves. Pytest forks it from a process that has imported Sluice, unless it is to have another
    command, or variables that a process reads when it begins. With `prepare`, Python that the process runs first, it is
    forked outside of pytest too.
    """
    if workers > 1:
        sections = {"cluster": {"workers": workers}} | dict(sections or {})
        env = OWN_PROGRAM | dict(env or {})
    file = folder / "sluice.yaml"
    file.write_text(sluice_config(listeners, sections))
    # Brokers that run at once would meet at the same admin socket.
    environment = clean_environment(**({"XDG_RUNTIME_DIR": str(folder)} | dict(env or {})))
    arguments = ["run", "--config", str(file), *flags]
    if loop := _loop_to_fork(command, env, prepare):
        broker = BrokerProcess(arguments, folder, environment, forked_on=loop, prepare=prepare)
    else:
        if prepare:
            command = (sys.executable, "-c", f"{prepare}; import broker.__main__")
        broker = BrokerProcess([*command, *arguments], folder, environment)
    try:
        names = {each["name"] for each in yaml.safe_load(file.read_text())["listeners"]}
        broker.wait_for_output(lambda lines: names <= _listening(lines).keys(), "listening", seconds)
        if workers > 1:
            broker.wait_for_output(lambda lines: any('"cells_serve"' in line for line in lines), "all cells", seconds)
    except BaseException:  # Ctrl-C, too
        broker.stop()
        raise
    broker.listeners = _listening(broker.stderr.splitlines())
    return broker


def _loop_to_fork(command: Sequence[str], env: Mapping[str, str] | None, prepare: str) -> str:
    """Return the loop that a forked broker runs on; empty if it has to be a program of its own."""
    early = any(name.startswith(READ_EARLY) for name in env or ())
    if not ("PYTEST_VERSION" in os.environ or prepare) or early or not installed():
        return ""
    return next((loop for loop, known in LOOPS.items() if tuple(command) == known), "")


def _listening(lines: Sequence[str]) -> dict[str, Address]:
    """Return the listeners that the log reports; where one is bound twice, its IPv4 address."""
    found: dict[str, Address] = {}
    for line in lines:
        event = _event(line)
        if event.get("event") == "listening":
            name, host, port = str(event["listener"]), str(event.get("host", event.get("path"))), event.get("port", 0)
            found.setdefault(name, Address(host, int(str(port))))
    return found


def _event(line: str) -> dict[str, object]:
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}


def find_mosquitto() -> str | None:
    """Return Mosquitto's path; Debian puts it where ordinary users do not look."""
    return shutil.which("mosquitto", path=os.environ.get("PATH", os.defpath) + ":/usr/sbin:/usr/local/sbin")


def mosquitto_config(ports: Mapping[str, int], listeners: Sequence[Listener], extra: Sequence[str]) -> str:
    """Return a configuration file with these listeners; `extra` are further settings."""
    config = ["user root", "allow_anonymous true", "persistence false", *extra]
    for listener in listeners:
        config.append(f"listener {ports[listener.name]} {HOST}")
        if listener.certificates:
            config += [
                f"cafile {listener.certificates.cafile}",
                f"certfile {listener.certificates.server.certfile}",
                f"keyfile {listener.certificates.server.keyfile}",
                f"require_certificate {str(listener.require_client_certificate).lower()}",
            ]
    return "\n".join(config) + "\n"


def start_mosquitto(
    folder: Path, listeners: Sequence[Listener] = TCP_ONLY, extra: Sequence[str] = ("log_type error",)
) -> BrokerProcess:
    """Start Mosquitto and wait until each listener accepts connections."""
    program = find_mosquitto()
    if program is None:
        raise BrokerError("Mosquitto is not installed (Debian: apt install mosquitto)")
    ports = {listener.name: free_port() for listener in listeners}
    file = folder / "mosquitto.conf"
    file.write_text(mosquitto_config(ports, listeners, extra))
    broker = BrokerProcess([program, "-c", str(file)], folder)
    broker.listeners = {name: Address(HOST, port) for name, port in ports.items()}
    try:
        for address in broker.listeners.values():
            broker.wait_until_accepting(address)
    except (BrokerError, TimeoutError):
        broker.stop()
        raise
    return broker
