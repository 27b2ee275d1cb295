"""One round: a broker, clients on a bad network for a while, then peace; and everything is looked at."""

import asyncio
import json
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.soak import books, checker, limits, probes
from tests.soak.checker import Violation
from tests.soak.client import Client, clock
from tests.soak.network import Network
from tests.soak.observed import Observed
from tests.soak.plan import RoundPlan, with_folders
from tests.soak.publisher import Publisher
from tests.soak.subscriber import Subscriber
from tests.support.brokers import SLUICE, TCP_ONLY, start_sluice
from tests.support.process import BrokerProcess, free_port

LOOK: Final = 0.1
"""Seconds between two looks at how it goes."""
QUIET: Final = 2.0
"""Seconds without a message after which nothing more is expected."""
STUCK: Final = 45.0
"""Seconds without progress after which there will be none, when nothing goes wrong any more."""
LONGEST: Final = 600.0
"""Seconds after which it is enough in any case."""
REFUSALS: Final = frozenset(("Keep alive timeout", "Quota exceeded", "Session taken over"))
"""Why the broker may refuse clients that keep to the standard."""


@dataclass
class Outcome:
    """How a round has ended."""

    plan: RoundPlan
    violations: list[Violation] = field(default_factory=list)
    messages: int = 0
    received: int = 0
    rss_start: int = 0
    rss_most: int = 0
    rss_end: int = 0
    settling: float = 0.0
    """Seconds until all was still."""
    happened: dict[str, int] = field(default_factory=dict)
    log: str = ""


class Host:
    """The broker of a round, which may restart on its port and journal."""

    def __init__(self, plan: RoundPlan, folder: Path, command: tuple[str, ...]) -> None:
        self._plan = plan
        self._folder = folder
        self._command = command
        self._sections = with_folders(plan, folder)
        if plan.restarts:
            self._sections |= {"listeners": [{"name": "tcp", "bind": f"127.0.0.1:{free_port()}"}]}
        self.violations: list[Violation] = []
        self.broker = self._start()

    def _start(self) -> BrokerProcess:
        return start_sluice(self._folder, TCP_ONLY, self._sections, command=self._command, flags=self._plan.flags)

    def restart(self, how: signal.Signals) -> None:
        """End it, and start it again."""
        self.broker.ask_to_end(how)
        self.broker.stop()
        self.violations += [Violation("no trouble", "the broker", line) for line in self.broker.trouble()]
        self.broker = self._start()


def run_round(plan: RoundPlan, folder: Path, command: tuple[str, ...] = SLUICE) -> Outcome:
    """Run the round in `folder` and return what there is to say of it."""
    outcome = Outcome(plan)
    observed = Observed()
    host = Host(plan, folder, command)
    try:
        outcome.rss_start = host.broker.rss()
        asyncio.run(_Drive(plan, host, observed, outcome).run())
        if not outcome.violations:
            outcome.violations += probes.probe(host.broker, plan)
        outcome.rss_end = host.broker.rss()
    finally:
        code = host.broker.stop()
        outcome.log = host.broker.stderr
    if code:
        outcome.violations.append(Violation("a clean stop", "the broker", f"has ended with {code}"))
    outcome.violations += host.violations + _check_log(host.broker)
    found, missing = checker.check(observed, plan.rules)
    outcome.violations += found
    outcome.violations += limits.check_memory(plan, observed, outcome.rss_start, outcome.rss_most)
    if not plan.restarts:  # a broker that is killed does not close its books
        outcome.violations += books.check_metrics(folder / "metrics", plan, missing)
    outcome.messages = len(observed.messages)
    outcome.received = sum(len(session.receipts) for session in observed.sessions)
    return outcome


def _check_log(broker: BrokerProcess) -> list[Violation]:
    found = [Violation("no trouble", "the broker", line) for line in broker.trouble()]
    full: dict[str, int] = {}
    for line in broker.stderr.splitlines():
        event = _event(line)
        name = event.get("event")
        if name == "client_refused" and event.get("reason") not in REFUSALS:
            found.append(Violation("nobody is refused", str(event.get("client_id")), line))
        elif name == "address_full":
            full[event["topic"]] = full.get(event["topic"], 0) + 1
        elif name == "address_has_room":
            full[event["topic"]] = full.get(event["topic"], 0) - 1
        if event.get("size", 0) < 0:
            found.append(Violation("FC-24 size", event["topic"], line))
    for topic, count in full.items():
        if count:
            found.append(Violation("FC-24 empty in the end", topic, "has not got room again"))
    return found


def _event(line: str) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}


def _is_past(until: float) -> bool:
    return clock() > until


class _Drive:
    """The clients of one round."""

    def __init__(self, plan: RoundPlan, host: Host, observed: Observed, outcome: Outcome) -> None:
        self._plan = plan
        self._host = host
        self._observed = observed
        self._outcome = outcome
        self._network = Network(host.broker.address(), plan.key, plan.every)
        self._publishers = [Publisher(p, self._network, observed, plan.key) for p in plan.publishers]
        self._subscribers = [Subscriber(s, self._network, observed, plan.key) for s in plan.subscribers]
        self._clients: list[Client] = [*self._subscribers, *self._publishers]

    async def run(self) -> None:
        """Let it rain, then let it settle, and have everybody leave."""
        tasks = [asyncio.create_task(client.run()) for client in self._clients]
        try:
            await self._rain(tasks)
            self._network.calm()
            begun = clock()
            for client in self._clients:
                client.settle()
            await self._watch(tasks, lambda: self._still() or self._stuck(begun))
            if not self._still():
                self._complain()
            self._outcome.settling = clock() - begun
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(client.end() for client in self._clients))
        await asyncio.sleep(LOOK)
        await self._network.close()
        self._outcome.happened = dict(self._network.happened)

    async def _rain(self, tasks: list[asyncio.Task[None]]) -> None:
        """Let things go wrong for a while; restarts of the broker divide it."""
        draws = random.Random(f"{self._plan.key} restarts")
        parts = self._plan.restarts + 1
        for part in range(parts):
            until = clock() + self._plan.seconds / parts
            await self._watch(tasks, partial(_is_past, until))
            if part < self._plan.restarts:
                how = draws.choice((signal.SIGKILL, signal.SIGTERM))
                self._network.happened[f"restart after {how.name}"] += 1
                await asyncio.to_thread(self._host.restart, how)

    async def _watch(self, tasks: list[asyncio.Task[None]], enough: Callable[[], bool]) -> None:
        """Look at the clients and at the broker's memory until it is enough."""
        while not enough():
            self._outcome.rss_most = max(self._outcome.rss_most, self._host.broker.rss())
            finished, _ = await asyncio.wait(tasks, timeout=LOOK, return_when=asyncio.FIRST_COMPLETED)
            for task in finished:
                task.result()  # raises: clients do not finish

    def _stuck(self, begun: float) -> bool:
        return clock() - max(begun, self._observed.last_progress) > STUCK or clock() - begun > LONGEST

    def _still(self) -> bool:
        return clock() - self._observed.last_receipt > QUIET and all(client.ready for client in self._clients)

    def _complain(self) -> None:
        for publisher in self._publishers:
            if not publisher.ready:
                detail = f"waits for the answers of {publisher.unanswered} PUBLISHes"
                self._outcome.violations.append(Violation("progress", publisher.client_id, detail))
        for subscriber in self._subscribers:
            if not subscriber.ready:
                detail = f"is not there as it should be: {subscriber.state}"
                self._outcome.violations.append(Violation("progress", subscriber.client_id, detail))
        if not self._outcome.violations:
            self._outcome.violations.append(Violation("progress", "subscribers", "messages come without an end"))
