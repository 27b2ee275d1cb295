"""The clients: how the agent of each is started, what it can do, and what has to be installed for it."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tests.clients.agent import Agent
from tests.support.brokers import find_mosquitto
from tests.support.cache import cache_folder
from tests.support.node import install

AGENTS = Path(__file__).parent / "agents"

GO_PATH = Path("/usr/share/gocode")
"""The folder of Debian for sources of Go packages."""

PAHO_C_HEADER = Path("/usr/include/MQTTAsync.h")

Start = tuple[Sequence[str], Mapping[str, str]]
"""A command, and additional environment variables."""


@dataclass(frozen=True)
class Client:
    """One client; `missing` says what to install, or nothing.

    `cannot` has patterns of the names of cases that it cannot do, and why.
    """

    name: str
    start: Callable[[], Start]
    missing: Callable[[], str]
    versions: Sequence[int] = (4, 5)
    heavy: bool = False
    cannot: Mapping[str, str] = field(default_factory=dict)

    def agent(self) -> Agent:
        """Return a new agent, not yet connected."""
        return Agent(self.name, *self.start())


def _python(module: str) -> Callable[[], Start]:
    return lambda: ((sys.executable, "-m", f"tests.clients.agents.{module}"), {"PYTHONUNBUFFERED": "1"})


def _node(script: str, package: str, *arguments: str) -> Callable[[], Start]:
    return lambda: (("node", str(AGENTS / script), *arguments), {"NODE_PATH": str(install(package))})


def _no_module(name: str, package: str) -> Callable[[], str]:
    return lambda: "" if find_spec(name) else f"{package} is not installed (pip install {package})"


def _no_command(debian: str, *commands: str) -> Callable[[], str]:
    def missing() -> str:
        absent = [command for command in commands if shutil.which(command) is None]
        return f"{' and '.join(absent)} not installed (apt install {debian})" if absent else ""

    return missing


def _no_bridge() -> str:
    return "" if find_mosquitto() else "mosquitto not installed (apt install mosquitto)"


def _no_paho_c() -> str:
    if shutil.which("cc") and PAHO_C_HEADER.exists():
        return ""
    return "cc or Paho C not installed (apt install gcc libc6-dev libpaho-mqtt-dev)"


def _no_paho_go() -> str:
    if shutil.which("go") and (GO_PATH / "src/github.com/eclipse/paho.mqtt.golang").exists():
        return ""
    return "go or Paho Go not installed (apt install golang-go golang-github-eclipse-paho.mqtt.golang-dev)"


@cache
def _built(source: str) -> Path:
    """Return the program of a source file in C or Go, compiled if it has changed."""
    path = AGENTS / source
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    program = cache_folder("clients") / f"{path.stem}-{digest}"
    if not program.exists():
        unfinished = program.with_name(f"{program.name}.{os.getpid()}")
        if path.suffix == ".c":
            command = ["cc", "-O2", "-Wall", "-Wextra", "-o", str(unfinished), str(path), "-lpaho-mqtt3as", "-lpthread"]
        else:
            command = ["go", "build", "-o", str(unfinished), str(path)]
        go = {"GO111MODULE": "off", "GOPATH": str(GO_PATH), "GOCACHE": str(cache_folder("go"))}
        subprocess.run(command, check=True, env=os.environ | go)
        unfinished.rename(program)
    return program


def _compiled(source: str) -> Callable[[], Start]:
    return lambda: ((str(_built(source)),), {})


CLIENTS = {
    client.name: client
    for client in (
        Client("paho", _python("paho_client"), _no_module("paho.mqtt", "paho-mqtt")),
        Client("aiomqtt", _python("aiomqtt_client"), _no_module("aiomqtt", "aiomqtt")),
        Client("gmqtt", _python("gmqtt_client"), _no_module("gmqtt", "gmqtt")),
        Client(
            "amqtt",
            _python("amqtt_client"),
            _no_module("amqtt", "amqtt"),
            versions=(4,),
            # It takes 1,400 a second: a publisher would have to be paced for 13 s. Mosquitto loses 7,000 to 10,000.
            cannot={"burst-in-*-qos2-20000": "it needs longer than overflow_patience allows (FC-16)"},
        ),
        Client("mqttjs", _node("mqttjs.cjs", "mqtt@5.16.0", "mqtt"), _no_command("nodejs npm", "node", "npm")),
        Client(
            "async-mqtt",
            _node("mqttjs.cjs", "async-mqtt@2.6.3", "async-mqtt"),
            _no_command("nodejs npm", "node", "npm"),
        ),
        Client(
            "mosquitto",
            _python("mosquitto_client"),
            _no_command("mosquitto-clients", "mosquitto_pub", "mosquitto_sub"),
        ),
        Client("paho-c", _compiled("paho_c.c"), _no_paho_c),
        Client(
            "bridge",
            _python("bridge"),
            _no_bridge,
            cannot=dict.fromkeys(("exchange*", "will*", "kept*", "shared*"), "a bridge is not its users' client"),
        ),
        Client("paho-go", _compiled("paho_go.go"), _no_paho_go, versions=(4,), heavy=True),
        Client(
            "node-red",
            _node("nodered.cjs", "node-red@4.1.8"),
            _no_command("nodejs npm", "node", "npm"),
            heavy=True,
        ),
    )
}
