"""Records a broker under load: all calls to its files, and all bytes of its sockets."""

import asyncio
import itertools
import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from protocol import properties as props
from protocol.connect import Will
from protocol.properties import Properties
from tests.durability.client import Client
from tests.durability.disk import Disk
from tests.durability.outside import Outside
from tests.durability.shim import Event, build, environment, read
from tests.durability.small import small
from tests.support.brokers import start_sluice
from tests.support.process import Address, BrokerProcess, free_port
from tests.support.wire import WireClient

KEPT: Final[Properties] = {props.SESSION_EXPIRY_INTERVAL: 3_600}

NAMES: Final = 6
"""Sessions that begin and end during the record."""


class Recorder:
    """A broker that is started repeatedly on one journal, and the record of each start."""

    def __init__(self, folder: Path, before: Path | None = None, sync: str = "commit") -> None:
        """`before`: what is on the disk already; `sync` as in FC-28. Raises MissingError."""
        self.earlier: list[tuple[Recorder, int]] = []
        """Records that this one continues, and the event of each after which the power was cut."""
        self._folder = folder
        self._library = build(folder)
        self._sync = sync
        self._port = free_port()
        self._starts = 0
        self.disk = folder / "disk"
        self._before = folder / "before"
        for path in (self.disk, self._before):
            if before is None:
                path.mkdir(parents=True)
            else:
                shutil.copytree(before, path)
        self.address = Address("127.0.0.1", self._port)
        self.process: BrokerProcess | None = None

    def start(self) -> None:
        """Start it, and wait until it listens."""
        self._starts += 1
        self.process = start_sluice(
            self._folder,
            prepare=small(60_000, 60_000),
            sections={
                "listeners": [{"name": "tcp", "bind": f"127.0.0.1:{self._port}"}],
                "persistence": {"directory": str(self.disk / "journal"), "sync": self._sync},
                "session": {"max_mqueue_len": "infinity", "max_mqueue_bytes": "infinity"},
            },
            env=environment(self._library, self.disk, log=str(self._log(self._starts))),
        )

    def end(self, how: signal.Signals) -> None:
        """End it, and keep a copy of its files."""
        assert self.process is not None
        os.kill(self.process.pid, how)
        self.process.ask_to_end(signal.SIGWINCH)  # which does nothing
        self.process.stop()
        copy = self._copy(self._starts)
        for file in (self.disk / "journal").iterdir():
            (copy / "journal").mkdir(parents=True, exist_ok=True)
            (copy / "journal" / file.name).write_bytes(file.read_bytes())

    def before(self) -> Disk:
        """The disk before the first start."""
        return Disk(self._before)

    def outside(self) -> Outside:
        """What clients knew before the first start."""
        outside = Outside()
        for recorder, cut in self.earlier:
            for number, event in enumerate(recorder.events(recorder.before())):
                if number <= cut:
                    outside.follow(event)
        return outside

    def events(self, disk: Disk) -> Iterator[Event]:
        """All events. `disk` gets what the record lacks when a process is killed."""
        for number in range(1, self._starts + 1):
            yield from read(self._log(number))
            disk.survive_kill(self._copy(number))

    def _log(self, number: int) -> Path:
        return self._folder / f"record-{number}"

    def _copy(self, number: int) -> Path:
        return self._folder / f"copy-{number}"


class PassingSessions:
    """Sessions that begin, subscribe, unsubscribe, disconnect, break, come back, start clean and end, one by one."""

    def __init__(self, address: Address, rng: random.Random, first: int) -> None:
        """`first` number of a session."""
        self._address = address
        self._rng = rng
        self._numbers = itertools.count(first)
        self._going = True
        self._left: list[WireClient] = []
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current session."""
        self._going = False
        self._thread.join()
        for client in self._left:
            client.close()

    def _run(self) -> None:
        while self._going:
            try:
                self._one(next(self._numbers))
            except (OSError, AssertionError):  # it was killed: a connection is closed, or an answer does not come
                time.sleep(0.01)

    def _one(self, number: int) -> None:
        name = f"c{number % NAMES}"
        own = f"x/{number}"
        with WireClient(self._address, 5, timeout=2) as client:
            will = Will(b"d/will", b"%010d" % number, 1)
            clean = self._rng.random() < 0.5
            client.connect(name, clean_start=clean, properties=KEPT, will=will)
            client.subscribe(f"{own}/+", f"y/{number}", qos=2)
            with WireClient(self._address, 5, timeout=2) as publisher:
                publisher.connect(f"for {own}")
                for qos in (1, 2):
                    publisher.publish(f"{own}/{qos}", b"for %d" % number, qos)
            client.unsubscribe(f"y/{number}")
            self._leave(client, name, number)

    def _leave(self, client: WireClient, name: str, number: int) -> None:
        how = number % 4
        if how == 0:
            client.disconnect(properties={props.SESSION_EXPIRY_INTERVAL: 0})
        elif how == 1:
            client.disconnect()
        elif how == 2:
            with WireClient(self._address, 5, timeout=2) as again:  # takes the session over
                again.connect(name, clean_start=number % 8 == 2, properties=KEPT)
                again.disconnect()


def topics(number: int) -> list[str]:
    """The topics of a publisher, in turn. The last character is the QoS; those that begin with `r` are retained."""
    return [f"{kind}/p{number}/{qos}" for kind in "ddr" for qos in (1, 2)]


async def record(recorder: Recorder, seconds: float, ends: int, rng: random.Random, generation: int = 0) -> None:
    """Put load on it for so long; it ends and starts again so often meanwhile.

    `generation`: of records on one disk; topics are others in each.
    """
    await asyncio.to_thread(recorder.start)
    numbers = range(10 * generation, 10 * generation + 2)
    publishers = [Client(f"p{n}", lambda: recorder.address, [], topics(n)) for n in numbers]
    receivers = [Client(f"s{n}", lambda: recorder.address, ["d/#"], []) for n in range(2)]
    receivers += [Client(f"m{n}", lambda: recorder.address, ["$share/g/d/#"], []) for n in range(2)]
    tasks = [asyncio.create_task(client.run()) for client in receivers]
    while not all(client.idle for client in receivers):
        await _watched(tasks, 0.02)
    tasks += [asyncio.create_task(client.run()) for client in publishers]
    passing = PassingSessions(recorder.address, rng, 100_000 * generation)
    passing.start()
    try:
        for _ in range(ends):
            await _watched(tasks, seconds / (ends + 1))
            await asyncio.to_thread(recorder.end, rng.choice((signal.SIGKILL, signal.SIGTERM)))
            await asyncio.to_thread(recorder.start)
        await _watched(tasks, seconds / (ends + 1))
    finally:
        await asyncio.to_thread(recorder.end, signal.SIGTERM)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(passing.stop)


async def _watched(tasks: list[asyncio.Task[None]], seconds: float) -> None:
    done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()
