"""The brokers of the comparison, each with its defaults and with the settings of its manual that are best here."""

import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from tests.bench import peers
from tests.bench.candidates import find_sluice
from tests.bench.peers import Candidate
from tests.bench.told_peers import TOLD, Told
from tests.fairness.measure import Start
from tests.support.brokers import start_mosquitto
from tests.support.process import BrokerProcess

SLUICE: Final = {"mqueue_fairness": "publisher", "mqueue_overflow": "block", "overflow_offline_grace": "30s"}
"""Keys of Sluice's section `session`."""

MOSQUITTO: Final = ("max_queued_messages 0", "set_tcp_nodelay true")
"""Nothing is dropped, and nothing waits for an acknowledgement of TCP."""

RABBITMQ: Final = {"max-length": 1000, "overflow": "reject-publish"}
"""A policy for the queues of subscribers, which have no limit by default: publishers then have to wait."""

UNLIMITED: Final = "without limits of messages in flight, of messages queued, and of bytes"
"""What `told_peers` sets; their manuals have nothing about publishers."""


@dataclass(frozen=True)
class Contender:
    """A broker with settings; without any it has its defaults."""

    broker: str
    version: str
    settings: str
    start: Start

    @property
    def name(self) -> str:
        """What its row is called."""
        return f"{self.broker}, {'tuned' if self.settings else 'defaults'}"


Finder = Callable[[], list[Contender]]


def find(wanted: list[str], finders: Mapping[str, Finder]) -> tuple[list[Contender], dict[str, str]]:
    """Look for the wanted brokers; returns who takes part, and why others do not."""
    found: list[Contender] = []
    missing: dict[str, str] = {}
    for name in wanted:
        try:
            found += finders[name]()
        except (LookupError, OSError, subprocess.SubprocessError) as error:
            missing[name] = str(error)
    return found, missing


def finders(sluice: str = sys.executable, programs: Mapping[str, str | None] | None = None) -> dict[str, Finder]:
    """Return what looks for each broker; `sluice`: the Python that has it, `programs`: of brokers of `told_peers`."""
    told = programs or {}
    return {
        "sluice": lambda: _sluice(sluice),
        "mosquitto": _mosquitto,
        "rabbitmq": _rabbitmq,
        **{each.name: partial(_told, each, told.get(each.name)) for each in TOLD},
    }


def _sluice(python: str) -> list[Contender]:
    tuned = find_sluice(python, sections=lambda folder: {"session": SLUICE})
    settings = ", ".join(f"session.{key}: {value}" for key, value in SLUICE.items())
    return [_contender(find_sluice(python)), _contender(tuned, settings)]


def _mosquitto() -> list[Contender]:
    plain = peers.find_mosquitto()

    def start(folder: Path) -> BrokerProcess:
        return start_mosquitto(folder, extra=["log_type none", *MOSQUITTO])

    return [_contender(plain), Contender("mosquitto", plain.version, ", ".join(MOSQUITTO), start)]


def _rabbitmq() -> list[Contender]:
    settings = ", ".join(f"{key}: {value}" for key, value in RABBITMQ.items())
    return [_contender(peers.find_rabbitmq()), _contender(peers.find_rabbitmq(RABBITMQ), f"policy {settings}")]


def _told(broker: Told, program: str | None) -> list[Contender]:
    candidate = broker.find(program)
    return [_contender(candidate), _contender(candidate, UNLIMITED, unlimited=True)]


def _contender(candidate: Candidate, settings: str = "", unlimited: bool = False) -> Contender:
    def start(folder: Path) -> BrokerProcess:
        return candidate.start(folder, unlimited)

    return Contender(candidate.name, candidate.version, settings, start)
