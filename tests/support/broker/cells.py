"""Brokers with several workers, and client ids that are at home in one of them."""

import json
import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from broker.cluster.slots import home_of
from tests.support.brokers import start_sluice
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient


def start_cells(folder: Path, workers: int = 2, sections: Mapping[str, object] | None = None) -> BrokerProcess:
    """Start a broker with so many cells, and wait until each serves."""
    return start_sluice(folder, sections=sections, workers=workers)


def at_home(cell: int, cells: int = 2, name: str = "c") -> Iterator[str]:
    """Client ids that begin with `name` and whose home is this cell."""
    number = 0
    while True:
        client_id = f"{name}{number}"
        number += 1
        if home_of(client_id, cells) == cell:
            yield client_id


def events(broker: BrokerProcess, name: str) -> list[dict[str, Any]]:
    """The lines of the log with this event."""
    lines = [json.loads(line) for line in broker.stderr.splitlines() if line.startswith("{")]
    return [line for line in lines if line.get("event") == name]


def processes(broker: BrokerProcess) -> list[int]:
    """The process ids of the cells."""
    return [int(each) for each in Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text().split()]


def kill_cell(broker: BrokerProcess, position: int) -> None:
    """kill -9 a cell, and wait until another process serves in its place."""
    victim = processes(broker)[position]
    before = len(events(broker, "listening"))
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: len(events(broker, "listening")) > before, "another process for the cell", 20)


def client_of(broker: BrokerProcess, cell: int, name: str, version: int = 5) -> WireClient:
    """A connected client whose home is this one of two cells."""
    client = WireClient(broker.address(), version)
    client.connect(next(at_home(cell, name=name)))
    return client
