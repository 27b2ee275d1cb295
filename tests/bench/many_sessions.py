"""What operators may cost where there are very many sessions: lists, scrapes, and an open dashboard.

Most sessions are away, the others connected; each has subscriptions, counters, histograms and, if its client is away,
an mqueue. Asserts that

- a list, a filter, a sort and a scrape each answer within 1 s, alone and beside a load, also right after each other;
- none of them holds the event loop for more than 2 ms of its CPU time;
- the p99 of a load beside one of each every 15 s, and beside an open dashboard, is at most 1.1 times what it is alone.

Rounds with and without them alternate; what is compared is the median.
"""

import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

import psutil
import typer
from rich.console import Console

if __name__ == "__main__":
    # As a script this file is found beside the tests, not through them.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from protocol.connect import Connect
from protocol.disconnect import Disconnect
from protocol.subscribe import Subscribe, Subscription
from tests.bench import machine, program
from tests.bench.generator import Result, command, finished
from tests.bench.grids import Grid, rounded
from tests.bench.run import show_grids
from tests.support.broker.admin import Unix, request
from tests.support.brokers import TCP_ONLY, start_sluice
from tests.support.process import Address, BrokerProcess
from tests.support.wire import WireClient

QUESTIONS: Final = {
    "list": "/api/v1/sessions?limit=100",
    "filter": "/api/v1/sessions?client_id=999&connected=false&sort=name",
    "sort": "/api/v1/sessions?sort=sent&limit=1000",
    "scrape": "/metrics",
}
LONGEST_ANSWER: Final = 1.0
LONGEST_TURN: Final = 2.0
"""Milliseconds."""
FACTOR: Final = 1.1
BESIDE: Final = ("alone", "questions", "dashboard")
TOPIC: Final = "all/of/them"
MESSAGES: Final = 3
TIMEOUT: Final = 300.0
TOGETHER: Final = 64
"""Clients that come and go at once."""
TURNS: Final = Path(__file__).resolve().with_name("loop_turns.py")
LOOK: Final = Path("a.sock")


@dataclass(frozen=True)
class Scenario:
    """Rates are messages a second, times seconds."""

    sessions: int
    connected: int
    pairs: int
    rate: float
    seconds: float
    rounds: int


@dataclass
class Outcome:
    """What was measured."""

    answers: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in QUESTIONS})
    """Seconds for each answer, without a load."""
    cpu: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in QUESTIONS})
    """The broker's CPU time for it, in seconds."""
    beside: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in QUESTIONS})
    """The same beside a load."""
    turns: dict[str, dict[str, float]] = field(default_factory=dict)
    loads: dict[str, list[Result]] = field(default_factory=lambda: {name: [] for name in BESIDE})

    def p99(self, part: str) -> float:
        """Microseconds, of the median round."""
        return statistics.median(float(each["latency"]["p99_us"]) for each in self.loads[part])


def ask(folder: Path, question: str) -> float:
    """Ask; returns how many seconds the answer took."""
    began = time.monotonic()
    answer = request(folder / LOOK, QUESTIONS[question])
    assert answer.status == 200, answer.text
    return time.monotonic() - began


def fill(address: Address, scenario: Scenario) -> list[WireClient]:
    """Make the sessions, and give each something to tell; returns the clients that stay."""
    for first in range(0, scenario.sessions - scenario.connected, TOGETHER):
        last = min(first + TOGETHER, scenario.sessions - scenario.connected)
        _leave(address, [f"away-{number:06}" for number in range(first, last)])
    stay: list[WireClient] = []
    for number in range(scenario.connected):
        client = WireClient(address, timeout=TIMEOUT)
        stay.append(client)
        client.connect(f"here-{number:06}")
        client.subscribe(TOPIC, f"own/{number}", qos=1)
    with WireClient(address, timeout=TIMEOUT) as publisher:
        publisher.connect("publisher")
        for number in range(MESSAGES):
            publisher.publish(TOPIC, b"x" * 64, number % 2)
    for client in stay:
        for _ in range(MESSAGES):
            client.receive_message()
    return stay


def _leave(address: Address, names: list[str]) -> None:
    """Each connects, subscribes, and leaves its session behind."""
    wanted = [Subscription(TOPIC, 1)]
    with ExitStack() as stack:
        opened = [stack.enter_context(closing(socket.create_connection(address))) for _ in names]
        for sock, name in zip(opened, names, strict=True):
            connect = Connect(name, clean_start=False, keep_alive=0, version=4)
            sock.sendall(b"".join(each.encode(4) for each in (connect, Subscribe(1, wanted), Disconnect())))
        for sock in opened:
            sock.settimeout(TIMEOUT)
            while sock.recv(4096):
                pass  # until the broker closes


def turns(broker: BrokerProcess, act: Callable[[], object]) -> dict[str, float]:
    """The longest turn of the loop while something is done."""
    lines: list[str] = []

    def printed(count: int) -> bool:
        lines[:] = [line for line in broker.stderr.splitlines() if line.startswith('{"turns"')]
        return len(lines) > count

    printed(0)
    before = len(lines)
    os.kill(broker.pid, signal.SIGUSR2)
    act()
    os.kill(broker.pid, signal.SIGUSR2)
    broker.wait_for_output(lambda _: printed(before), "turns")
    found: dict[str, float] = json.loads(lines[-1])
    return found


@contextmanager
def nothing(folder: Path, outcome: Outcome, scenario: Scenario) -> Iterator[None]:
    """Nobody asks."""
    yield


@contextmanager
def questions(folder: Path, outcome: Outcome, scenario: Scenario) -> Iterator[None]:
    """One of each question in every round, spread over it."""
    ended = threading.Event()

    def work() -> None:
        pause = scenario.seconds / (len(QUESTIONS) + 1)
        for name in QUESTIONS:
            if ended.wait(pause):
                return
            outcome.beside[name].append(ask(folder, name))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def dashboard(folder: Path, outcome: Outcome, scenario: Scenario) -> Iterator[None]:
    """Somebody looks at the dashboard all the time."""
    with closing(Unix(folder / LOOK)) as connection:
        connection.request("GET", "/api/v1/stream")
        answer = connection.getresponse()
        ended = threading.Event()

        def work() -> None:
            while not ended.is_set():
                answer.readline()

        thread = threading.Thread(target=work)
        thread.start()
        yield
        ended.set()
        thread.join()


PARTS: Final[dict[str, Callable[[Path, Outcome, Scenario], AbstractContextManager[None]]]] = {
    "alone": nothing,
    "questions": questions,
    "dashboard": dashboard,
}


def measure(python: str, scenario: Scenario, show: Callable[[str], None]) -> Outcome:
    """Run everything on one broker."""
    places = machine.cores()
    outcome = Outcome()
    sections = {"admin": {"socket": str(LOOK)}, "mqtt": {"max_session_expiry_interval": "1h"}}
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        with machine.pinned(places.broker):
            broker = start_sluice(folder, TCP_ONLY, sections, command=(python, "-I", str(TURNS)))
        stack.enter_context(broker)
        stack.enter_context(machine.pinned(places.generator))
        show(f"{scenario.sessions:,} sessions come")
        for client in fill(broker.address(), scenario):
            stack.enter_context(client)
        show("answers")
        ask(folder, "list")  # the first request has the application loaded, in a thread, which takes 0.6 s
        for _ in range(3):
            for question in QUESTIONS:
                before = _cpu(broker)
                outcome.answers[question].append(ask(folder, question))
                outcome.cpu[question].append(_cpu(broker) - before)
        show("turns of the loop")
        outcome.turns["nobody asks"] = turns(broker, lambda: time.sleep(2))  # for so long is measured
        for question in QUESTIONS:
            outcome.turns[question] = turns(broker, lambda: [ask(folder, question) for _ in range(3)])  # noqa: B023 - called at once
        for number in range(scenario.rounds):
            for part, beside in PARTS.items():
                show(f"round {number + 1} of {scenario.rounds}: {part}")
                with beside(folder, outcome, scenario):
                    outcome.loads[part].append(_load(broker, scenario))
    return outcome


def _cpu(broker: BrokerProcess) -> float:
    """Seconds of CPU time that the broker has had."""
    times = psutil.Process(broker.pid).cpu_times()
    return float(times.user + times.system)


def _load(broker: BrokerProcess, scenario: Scenario) -> Result:
    options = ["--mode", "pair", "--publishers", str(scenario.pairs), "--subscribers", str(scenario.pairs)]
    options += ["--qos", "1", "--rate", str(scenario.rate / scenario.pairs)]
    options += ["--seconds", str(scenario.seconds), "--warmup", "0.5"]
    return finished(subprocess.Popen(command(broker, options), stdout=subprocess.PIPE, stderr=subprocess.PIPE))


def claims(outcome: Outcome) -> dict[str, bool]:
    """What is asserted, and whether it holds."""
    slowest = max(max(each) for times in (outcome.answers, outcome.beside) for each in times.values() if each)
    held = max(outcome.turns[question]["cpu"] for question in QUESTIONS)
    return {
        f"each answer comes within {LONGEST_ANSWER:g} s ({slowest:.2f} s)": slowest <= LONGEST_ANSWER,
        f"the loop is held for {LONGEST_TURN:g} ms at the most ({held:.2f} ms)": held <= LONGEST_TURN,
        **{
            f"p99 beside {part} is at most {FACTOR:g} times": outcome.p99(part) <= FACTOR * outcome.p99("alone")
            for part in PARTS
            if part != "alone"
        },
    }


def tables(outcome: Outcome) -> list[Grid]:
    """Return the figures."""
    asked = Grid(
        "Answers",
        ("question", "s", "longest", "CPU s", "beside a load, s", "longest", "longest turn, CPU ms", "clock ms"),
    )
    for name in ("nobody asks", *QUESTIONS):
        measured = (outcome.answers, outcome.cpu, outcome.beside)
        times, cpu, beside = (found.get(name) or [0.0] for found in measured)
        figures = (statistics.median(times), max(times), statistics.median(cpu), statistics.median(beside), max(beside))
        held = outcome.turns[name]
        asked.add(name, *(rounded(each) for each in figures), rounded(held["cpu"]), rounded(held["wall"]))
    load = Grid("A load beside them", ("beside it", "p50, us", "p99, us", "of alone", "longest, us", "CPU us"))
    for part, found in outcome.loads.items():
        load.add(
            part,
            rounded(statistics.median(each["latency"]["p50_us"] for each in found)),
            rounded(outcome.p99(part)),
            rounded(outcome.p99(part) / outcome.p99("alone")),
            rounded(statistics.median(each["latency"]["max_us"] for each in found)),
            rounded(statistics.median(each["cpu_us_per_delivery"] for each in found)),
        )
    return [asked, load]


def main(
    sluice: Annotated[str, typer.Option(help="Python of the environment where Sluice is installed.")] = sys.executable,
    sessions: Annotated[int, typer.Option(min=1, help="How many there are.")] = 100_000,
    connected: Annotated[
        int, typer.Option(min=0, help="How many of them are connected; each needs a descriptor.")
    ] = 10_000,
    pairs: Annotated[int, typer.Option(min=1, help="Publishers of the load, with a subscriber each.")] = 20,
    rate: Annotated[float, typer.Option(min=1, help="Messages a second of the load, all together.")] = 2000,
    seconds: Annotated[float, typer.Option(min=1, help="Of a round: one of each question is asked in it.")] = 15.0,
    rounds: Annotated[int, typer.Option(min=1, help="How often each part is measured.")] = 3,
) -> None:
    """Measure what operators cost with many sessions. Exit status 1 if an assertion does not hold."""
    scenario = Scenario(sessions, connected, pairs, rate, seconds, rounds)
    print(", ".join(machine.description().values()))
    with Console(stderr=True).status("") as status:
        outcome = measure(sluice, scenario, status.update)
    show_grids(tables(outcome))
    held = claims(outcome)
    for claim, holds in held.items():
        print(f"{claim}: {'yes' if holds else 'NO'}")
    if not all(held.values()):
        raise typer.Exit(1)


if __name__ == "__main__":
    program.run(main)
