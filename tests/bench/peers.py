"""Third-party brokers: how each is found, and started without limits that a load would reach.

Each `find_` function returns how to start a broker, or says in a LookupError why it cannot be measured here.
"""

import importlib.util
import json
import os
import random
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.support import brokers as support
from tests.support.certificates import make_certificates
from tests.support.node import install
from tests.support.process import Address, BrokerProcess, clean_environment, free_port

AEDES = "aedes@1.2.0"
HOST = support.HOST


@dataclass(frozen=True)
class Candidate:
    """A broker that can be measured. `start` takes a scratch folder and whether limits are lifted; `start_tls`, too."""

    name: str
    version: str
    start: Callable[[Path, bool], BrokerProcess]
    start_tls: Callable[[Path, bool], BrokerProcess] | None = None
    arguments: tuple[str, ...] = ()
    """More of the generator's, for this broker."""
    threads: int = 1
    """How many it has for clients, or processes: with one it runs on one core."""


def output_of(*command: str) -> str:
    """Return what a command prints, on either stream."""
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    return (result.stdout + result.stderr).strip()


def find_mosquitto(listeners: Sequence[support.Listener] = support.TCP_ONLY) -> Candidate:
    """Mosquitto, from the system's packages. It keeps Nagle's algorithm: that costs latency, but saves CPU."""
    program = support.find_mosquitto()
    if program is None:
        raise LookupError("not installed (Debian: apt install mosquitto)")
    version = output_of(program, "-h").splitlines()[0].rpartition(" ")[2]

    def start(folder: Path, unlimited: bool, on: Sequence[support.Listener] = listeners) -> BrokerProcess:
        extra = ["log_type none"]
        if unlimited:
            extra += ["max_inflight_messages 0", "max_queued_messages 0"]
        return support.start_mosquitto(folder, on, extra)

    def start_tls(folder: Path, unlimited: bool) -> BrokerProcess:
        return start(folder, unlimited, (support.Listener("tcp", make_certificates(folder)),))

    return Candidate("mosquitto", f"Mosquitto {version}", start, start_tls)


def find_mosquitto_saved() -> Candidate:
    """Mosquitto that writes its database each second; it acknowledges before that."""
    plain = find_mosquitto()

    def start(folder: Path, unlimited: bool) -> BrokerProcess:
        extra = ["log_type none", "persistence true", f"persistence_location {folder}/", "autosave_interval 1"]
        if unlimited:
            extra += ["max_inflight_messages 0", "max_queued_messages 0"]
        return support.start_mosquitto(folder, extra=extra)

    return Candidate("mosquitto, saved each second", plain.version, start)


class _WithEpmd(BrokerProcess):
    """RabbitMQ. It starts a daemon that knows the ports of nodes, which would outlive it."""

    epmd_port = 0

    def stop(self, seconds: float = 15.0) -> int:
        """End both."""
        code = super().stop(seconds)
        output_of("epmd", "-port", str(self.epmd_port), "-kill")
        return code


def find_rabbitmq(policy: Mapping[str, object] | None = None) -> Candidate:
    """RabbitMQ with its MQTT plugin; a kept session is a durable queue, QoS 2 is not supported.

    `policy`: the definition of one for the queues of subscribers.
    """
    # Debian's command of this name changes to the package's user; it calls this one.
    program = shutil.which("rabbitmq-server", path=f"/usr/lib/rabbitmq/bin{os.pathsep}{os.environ.get('PATH', '')}")
    if program is None:
        raise LookupError("not installed (Debian: apt install rabbitmq-server)")
    version = next(Path(program).parents[1].glob("lib/rabbitmq_server-*")).name.rpartition("-")[2]

    def start(folder: Path, unlimited: bool) -> BrokerProcess:
        port = free_port()
        (folder / "enabled_plugins").write_text("[rabbitmq_mqtt].\n")
        file = folder / "rabbitmq.conf"
        file.write_text(
            f"listeners.tcp.1 = {HOST}:{free_port()}\nmqtt.listeners.tcp.1 = {HOST}:{port}\n"
            "mqtt.allow_anonymous = true\nmqtt.default_user = guest\nmqtt.default_pass = guest\n"
            f"mqtt.prefetch = {65535 if unlimited else 10}\nlog.file.level = error\n"
            + (f"load_definitions = {_definitions(folder, policy)}\n" if policy else "")
        )
        epmd_port = free_port()
        environment = clean_environment(
            RABBITMQ_NODENAME=f"bench{port}@localhost",
            RABBITMQ_DIST_PORT=str(_unused_port()),
            ERL_EPMD_PORT=str(epmd_port),
            ERL_EPMD_ADDRESS=HOST,
            RABBITMQ_MNESIA_BASE=str(folder),
            RABBITMQ_LOG_BASE=str(folder),
            RABBITMQ_ENABLED_PLUGINS_FILE=str(folder / "enabled_plugins"),
            RABBITMQ_CONFIG_FILE=str(file),
            HOME=str(folder),
        )
        broker = _WithEpmd([program], folder, environment)
        broker.epmd_port = epmd_port
        return accepting(broker, port)

    return Candidate("rabbitmq", f"RabbitMQ {version}", start)


def _definitions(folder: Path, policy: Mapping[str, object]) -> Path:
    """Write a file with the policy, and with what RabbitMQ makes by itself only where there is no such file."""
    guest = {"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}
    applied = {"vhost": "/", "name": "subscribers", "pattern": "^mqtt-subscription-", "apply-to": "queues"}
    file = folder / "definitions.json"
    definitions = {
        "vhosts": [{"name": "/"}],
        "users": [{"name": "guest", "password": "guest", "tags": ["administrator"]}],
        "permissions": [guest],
        "policies": [applied | {"priority": 0, "definition": dict(policy)}],
    }
    file.write_text(json.dumps(definitions))
    return file


def _unused_port() -> int:
    """A port that is free on all addresses and stays so: none that the system gives to outgoing connections.

    RabbitMQ does not start when a client of anybody has got its port meanwhile.
    """
    while True:
        port = random.randrange(20_000, 32_000)
        try:
            socket.create_server(("", port)).close()
        except OSError:
            continue
        return port


def find_nats(threads: int = 1) -> Candidate:
    """nats-server with its MQTT listener. QoS 1 goes through JetStream, on disk; QoS 2 it does not have.

    A subscription to `a/#` counts twice for max_ack_pending, and all of a session must stay below 65,535.
    """
    program = shutil.which("nats-server")
    if program is None:
        raise LookupError("not installed (Debian: apt install nats-server)")

    def start(folder: Path, unlimited: bool) -> BrokerProcess:
        port = free_port()
        limit = "max_ack_pending: 30000" if unlimited else ""
        file = folder / "nats.conf"
        file.write_text(
            f"server_name: bench\nlisten: {HOST}:{free_port()}\n"
            f"jetstream {{ store_dir: {json.dumps(str(folder))} }}\nmqtt {{ listen: {HOST}:{port}\n{limit}\n}}\n"
        )
        environment = clean_environment(GOMAXPROCS=str(threads)) if threads > 1 else None
        return accepting(BrokerProcess([program, "-c", str(file)], folder, environment), port)

    version = output_of(program, "--version").rpartition("v")[2]
    return Candidate("nats", f"NATS {version}", start, threads=threads)


def find_aedes() -> Candidate:
    """aedes under Node; npm fetches it."""
    if not shutil.which("node") or not shutil.which("npm"):
        raise LookupError("needs node and npm (Debian: apt install nodejs npm)")
    modules = install(AEDES)

    def start(folder: Path, unlimited: bool) -> BrokerProcess:
        port = free_port()
        script = Path(__file__).with_name("aedes.mjs")
        return accepting(BrokerProcess(["node", str(script), str(modules), str(port)], folder), port)

    return Candidate("aedes", f"aedes {AEDES.rpartition('@')[2]}, Node {output_of('node', '--version')[1:]}", start)


def find_amqtt(python: str | None) -> Candidate:
    """amqtt, of the given interpreter or of this one."""
    if python is None and importlib.util.find_spec("amqtt") is None:
        raise LookupError("not installed here; --amqtt takes the Python of an environment that has it")
    interpreter = python or sys.executable
    version = output_of(interpreter, "-c", "from importlib.metadata import version; print(version('amqtt'))")

    def start(folder: Path, unlimited: bool) -> BrokerProcess:
        port = free_port()
        file = folder / "amqtt.yaml"
        plugins = {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}}
        listeners = {"default": {"type": "tcp", "bind": f"{HOST}:{port}"}}
        file.write_text(yaml.safe_dump({"listeners": listeners, "plugins": plugins}))
        script = "from amqtt.scripts.broker_script import main; main()"
        return accepting(BrokerProcess([interpreter, "-c", script, "-c", str(file)], folder), port)

    return Candidate("amqtt", f"amqtt {version}", start)


def accepting(broker: BrokerProcess, port: int) -> BrokerProcess:
    """Wait until a broker accepts connections on its port; it is stopped if it never does."""
    broker.listeners = {"tcp": Address(HOST, port)}
    try:
        broker.wait_until_accepting(broker.address(), 120)
    except BaseException:
        broker.stop()
        raise
    return broker
