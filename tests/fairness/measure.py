"""One case on one broker, which is started for it."""

import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from tests.bench import machine
from tests.bench.generator import LoadError
from tests.fairness.books import Run
from tests.fairness.cases import Case, Publisher
from tests.fairness.clients import Sent, SlowReader, publish
from tests.support.process import Address, BrokerProcess

CONNECTED: Final = 60.0
"""Seconds in which the publishers connect."""
CALM: Final = 8.0
"""Seconds without an arrival after which the rest is lost."""

Start = Callable[[Path], BrokerProcess]


def measure(start: Start, case: Case, seconds: float) -> Run:
    """Run the case; the broker has the first core, its clients the last one."""
    places = machine.cores()
    with tempfile.TemporaryDirectory(prefix="sluice-fairness-") as folder:
        with machine.pinned(places.broker):
            broker = start(Path(folder))
        try:
            with machine.pinned(places.generator):
                return play(broker, case, seconds)
        finally:
            broker.stop()


def play(broker: BrokerProcess, case: Case, seconds: float) -> Run:
    """Run the case on a broker that is there. Raises LoadError if its clients cannot play it."""
    at_start = broker.rss()
    readers: list[SlowReader] = []
    try:
        with _publishing(broker.address(), case.publishers, seconds) as results:
            for number, plan in enumerate(case.readers):
                readers.append(SlowReader(broker.address(), number, plan))
            results.send("begin")
            begin = time.monotonic()
            for step in case.steps:
                time.sleep(max(0.0, begin + step.at * seconds - time.monotonic()))  # a case has a timetable
                getattr(readers[step.reader], step.does)()
            sent = _wait_for_calm(case, readers, results)
        peak = _peak(broker)
    finally:
        for reader in readers:
            reader.close()
    return Run(case, sent, [reader.latencies for reader in readers], peak, at_start)


@contextmanager
def _publishing(address: Address, plans: Sequence[Publisher], seconds: float) -> Iterator[Connection]:
    """Publishers in a process of their own, connected; they begin when something is sent to it, and answer what was.

    A new process, for one that is forked would share the readers' sockets and locks.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=publish, args=(address, plans, seconds, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(CONNECTED):
            raise LoadError(f"the publishers are not connected after {CONNECTED:g} s")
        ours.recv()
        yield ours
    except EOFError:
        raise LoadError("the publishers have ended: see above") from None
    finally:
        process.kill()
        process.join()


def _wait_for_calm(case: Case, readers: Sequence[SlowReader], results: Connection) -> Sequence[Sent]:
    """Wait until all has arrived, or nothing has for a while after the publishers have ended."""
    sent: list[Sent] = []
    seen, changed = -1, time.monotonic()
    while True:
        if not sent and results.poll():
            sent = results.recv()
        arrived = sum(len(reader.latencies) for reader in readers)
        if arrived != seen or not sent:
            seen, changed = arrived, time.monotonic()
        elif arrived == _expected(case, sent) or time.monotonic() - changed > CALM:
            return sent
        time.sleep(0.05)


def _expected(case: Case, sent: Sequence[Sent]) -> int:
    topics = [reader.topic for reader in case.readers]
    return sum(done.count * topics.count(plan.topic) for plan, done in zip(case.publishers, sent, strict=True))


def _peak(broker: BrokerProcess) -> int:
    """The sum of the peaks of the broker's processes, as the kernel counts them."""
    lines = [line for pid in broker.pids() for line in Path(f"/proc/{pid}/status").read_text().splitlines()]
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
