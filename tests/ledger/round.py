"""Plays one round: a broker, its clients, what goes wrong, and at the end the books."""

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tests.ledger.books import SUPERSEDED
from tests.ledger.cast import ALONE, DENIED, MEMBERS, Cast
from tests.ledger.disk import Disk
from tests.ledger.plan import Plan
from tests.support.broker.admin import request
from tests.support.brokers import HOST, start_sluice
from tests.support.process import Address, BrokerProcess, free_port

PATIENCE: Final = 20.0
"""Seconds without news after which what is missing is unaccounted."""
LOOK: Final = 0.2
"""Seconds between two looks."""
WAIT: Final = 60.0
"""Seconds within which what has to happen does."""
START: Final = 600.0
"""The same for a start of the broker, on a machine that is busy with other things."""
COUNTED: Final = "sluice_deliveries_superseded_total"
"""Of sessions, since the broker began."""
FULL: Final = "sluice_journal_full"
UNLIMITED: Final = dict.fromkeys(("max_mqueue_len", "max_mqueue_bytes", "max_mqueue_age"), "infinity")


@dataclass
class Outcome:
    """How a round has ended."""

    ends: Counter[str]
    wrong: list[str]
    deliveries: int
    seconds: float
    happened: Counter[str]


class Round:
    """One round, in a folder of its own."""

    def __init__(self, plan: Plan, folder: Path, disk: Disk, command: Sequence[str]) -> None:
        self._plan = plan
        self._folder = folder
        self._disk = disk
        self._command = command
        self._rng = plan.rng
        self._ports = free_port(), free_port()
        self._cast = Cast(plan, Address(HOST, self._ports[0]), Address(HOST, self._ports[1]))
        self._broker: BrokerProcess | None = None
        self._happened: Counter[str] = Counter()
        self._ruled = False

    def play(self) -> Outcome:
        """Play it."""
        began = time.perf_counter()
        cast, books, plan = self._cast, self._cast.books, self._plan
        self._write_rules()
        self._start()
        try:
            self._wait(cast.ready, "all are connected")
            for page in books.pages.values():
                page.subscribed = True
            self._publish(True)
            for at, trouble in plan.troubles:
                self._go_on(at)
                getattr(self, trouble)()
                self._happened[trouble] += 1
            self._go_on(1.0)
            ends, wrong = self._settle()
        finally:
            self._end()
        return Outcome(ends, wrong, books.deliveries, time.perf_counter() - began, self._happened)

    # -- what goes wrong

    def kill(self) -> None:
        """Kill -9 under load, and start again."""
        assert self._broker is not None
        os.kill(self._broker.pid, signal.SIGKILL)
        self._gone()
        self._cast.books.crashed()
        self._start()

    def stop(self) -> None:
        """The broker ends in order, and tells what it has dropped."""
        assert self._broker is not None
        self._broker.ask_to_end()
        self._gone()
        self._cast.books.stopped()
        self._start()

    def away(self) -> None:
        """A receiver leaves, or who is told of drops, with DISCONNECT or without."""
        client = self._rng.choice([self._cast.told, *self._cast.receivers.values()])
        client.wanted = False
        client.leave(self._rng.random() < 0.5)

    def back(self) -> None:
        """All come back."""
        for client in self._cast.clients:
            client.wanted = True

    def stall(self) -> None:
        """Somebody acknowledges nothing."""
        self._cast.receivers[self._rng.choice(ALONE + MEMBERS)].per_second = 0

    def slow(self) -> None:
        """Somebody becomes slow, and somebody else is fast again."""
        receivers = self._cast.receivers
        receivers[self._rng.choice(ALONE)].per_second = self._rng.choice(self._plan.paces)
        receivers[self._rng.choice(ALONE + MEMBERS)].per_second = float("inf")

    def end(self) -> None:
        """Sessions end, with what they have not acknowledged, while nobody publishes."""
        self._publish(False)
        for name in self._rng.sample(ALONE + MEMBERS, 3):
            client = self._cast.receivers[name]
            client.leave(True)
            self._wait(lambda client=client: client.line is None, "it has left")
            client.anew = client.wanted = True
            client.subscribed = False
        self._wait(self._cast.ready, "the new sessions are there")
        self._publish(True)

    def rules(self) -> None:
        """The rules change while nobody publishes."""
        self._publish(False)
        self._ruled = not self._ruled
        before = self._reads()
        self._write_rules()
        self._wait(lambda: self._reads() > before, "the rules are read")
        self._cast.books.pages["ruled"].denied = DENIED if self._ruled else frozenset()
        self._publish(True)

    def full(self) -> None:
        """The disk is full."""
        self._disk.fill()

    def room(self) -> None:
        """It has room again, and the broker has noticed: until then it begins no kept session (FC-29)."""
        self._disk.free()
        self._wait(lambda: self._metric(FULL) == 0, "the journal has room again")

    # -- the broker

    def _start(self) -> None:
        own = self._plan.sections
        names = zip(("tcp", "told"), self._ports, strict=True)
        listeners: list[dict[str, Any]] = [{"name": name, "bind": f"{HOST}:{port}"} for name, port in names]
        listeners[1]["session"] = UNLIMITED | {"max_inflight": 1_000, "mqueue_overflow": "drop_oldest"}
        sections = {
            "listeners": listeners,
            "session": own["session"],
            "drop_events": own["drop_events"],
            "persistence": {"directory": str(self._disk.path / "journal"), "memory": own["memory"]},
            "authorization": {"rules_file": str(self._folder / "rules.yaml"), "default": "allow"},
            "memory_watermark": "infinity",
            "mqtt": {"sys_interval": "infinity"},
        }
        self._broker = start_sluice(self._folder, sections=sections, command=self._command, seconds=START)
        self._cast.down = False

    def _gone(self) -> None:
        """Serve the clients until the broker has ended."""
        cast, broker = self._cast, self._broker
        assert broker is not None
        cast.down = True
        self._wait(lambda: all(each.line is None for each in cast.clients), "all connections end")
        status = broker.stop(WAIT)
        if status not in (0, -signal.SIGKILL):
            cast.books.faults.append(f"the broker ended with {status}")
        cast.books.faults += broker.trouble()

    def _end(self) -> None:
        if self._broker is not None:
            self._broker.stop()
        for client in self._cast.clients:
            client.lost()
        self._disk.free()

    def _reads(self) -> int:
        assert self._broker is not None
        lines = [json.loads(line) for line in self._broker.stderr.splitlines() if '"file_read"' in line]
        return len(lines)

    def _write_rules(self) -> None:
        deny = {
            "permit": "deny",
            "topics": sorted(each.decode() for each in DENIED),
            "action": "subscribe",
            "client_ids": ["ruled"],
        }
        new = self._folder / "rules.new"
        new.write_text(yaml.safe_dump({"rules": [deny] if self._ruled else []}))
        new.replace(self._folder / "rules.yaml")

    # -- clients

    def _wait(self, condition: Any, what: str) -> None:
        if not self._cast.serve(condition, WAIT):
            raise TimeoutError(f"round {self._plan.number}: after {WAIT:g} s still not: {what}")

    def _publish(self, going: bool) -> None:
        """Publish from now on; or stop, and wait until all is answered."""
        for each in self._cast.publishers:
            each.going = going
        if not going:
            self._wait(self._cast.answered, "all publishers are answered")

    def _go_on(self, part: float) -> None:
        """Until that part of the deliveries is published."""
        books, wanted = self._cast.books, part * self._plan.deliveries
        self._wait(lambda: books.deliveries >= wanted, f"{wanted:.0f} deliveries are published")

    def _settle(self) -> tuple[Counter[str], list[str]]:
        """Everything goes well again, until nothing is missing; then the broker ends."""
        cast, books = self._cast, self._cast.books
        self._disk.free()
        if self._ruled:
            self.rules()
        self.back()
        for each in cast.receivers.values():
            each.per_second = float("inf")
        self._publish(False)
        self._wait(cast.ready, "all are connected")
        moved, left = -1, PATIENCE
        while books.close()[1] and left > 0:
            moved, left = books.moved, PATIENCE if books.moved != moved else left - LOOK
            cast.serve(lambda: False, LOOK)
        assert self._broker is not None
        counted = self._metric(COUNTED) if self._plan.counts_superseded else None
        self._broker.ask_to_end()
        self._gone()
        ends, wrong = books.close()
        if counted is not None and counted != ends[SUPERSEDED]:
            wrong.append(f"{ends[SUPERSEDED]} deliveries seem to be superseded, and the broker has counted {counted}")
        return ends, wrong

    def _metric(self, name: str) -> int:
        """The sum of the samples of a metric of the broker."""
        metrics = request(self._folder / "sluice" / "test.sock", "/metrics").text
        return sum(int(float(line.split()[-1])) for line in metrics.splitlines() if line.startswith(name))
