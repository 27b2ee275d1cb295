"""A run: cells, clients, faults and the clock, step by step as a seed says, then rest, then the check."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, Final

import structlog

from broker.cluster.cell import configuration_of
from broker.cluster.slots import home_of
from broker.runtime.clock import NANOSECONDS
from config.models import Config
from protocol.connect import Will
from protocol.packet import Packet
from protocol.subscribe import Subscription
from tests.simulation.books import Books
from tests.simulation.cell import SimulatedCell
from tests.simulation.client import SimulatedClient
from tests.simulation.knobs import FILTERS, Knobs, draw
from tests.simulation.loop import Clock, Loop
from tests.simulation.network import Network, Transport

TOPICS: Final = ("a/0", "a/1", "b/0", "b/1")
RETAINED: Final = ("r/0", "r/1")
LINKS: Final = ".links"
QUIET: Final = 25
"""Timers without anything else after which all is at rest: two seconds and more."""
LONGEST: Final = 20_000
"""Steps until all is at rest."""


@contextmanager
def simulated(clock: Clock) -> Iterator[None]:
    """The brokers of this process have this clock, and log nothing."""
    before, configuration = NANOSECONDS[0], structlog.get_config()
    NANOSECONDS[0] = clock.nanoseconds
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    try:
        yield
    finally:
        NANOSECONDS[0] = before
        structlog.configure(**configuration)


CONFIG: Final = Config.model_validate({"mqtt": {"topic_alias_maximum": 10}})


def _configuration(knobs: Knobs) -> Config:
    config = CONFIG
    if knobs.small:  # less than a configuration may have: so a few messages fill it
        config = config.model_copy(update={"cluster": config.cluster.model_copy(update={"link_queue": 4_000})})
    return config


class World:
    """One run."""

    def __init__(self, seed: int, trace: bool = False) -> None:
        self.rng = rng = Random(seed)
        self.knobs = draw(rng)
        self.clock = Clock()
        self.network = Network(rng)
        self.books = Books()
        self.books.lossy = self.knobs.small
        self.trace: list[str] | None = [] if trace else None
        self.digest = 0
        """Of all that has happened: the same for the same seed."""
        number = self.knobs.cells
        config = _configuration(self.knobs)
        self.cells = [
            SimulatedCell(each, number, configuration_of(config, each, number), self.clock, self.network)
            for each in range(1, number + 1)
        ]
        self._outside = Loop(self.clock, self.network)
        """Of all clients."""
        self.clients: list[SimulatedClient] = []
        self._unready: dict[tuple[int, int], list[object]] = {}
        """Links that may not be known at both ends, with their connections that have broken."""
        for one in self.cells:
            for other in self.cells[one.number :]:
                self._note_broken(one, other)
        for each in range(self.knobs.clients):
            self.clients.append(self._client(each % number + 1))
        self._calm = False

    def _client(self, home: int) -> SimulatedClient:
        letter = "abcdefgh"[home - 1]
        numbers = (f"{letter}{each}" for each in range(1_000))
        taken = [client.name for client in self.clients]
        name = next(each for each in numbers if home_of(each, self.knobs.cells) == home and each not in taken)
        return SimulatedClient(name, home, self.rng, self.books, self.network, self._outside, self.note)

    def note(self, who: object, what: str, more: object = "") -> None:
        """Write down what happens."""
        if self.trace is not None:
            self.trace.append(f"{self.books.step:5} {self.clock.us / 1e6:10.6f}  {who} {what} {_named(more)}")

    # -- the run

    def run(self) -> list[str]:
        """All of it; returns what was wrong."""
        with simulated(self.clock):
            try:
                for cell in self.cells:
                    cell.start()
                self._settle()
                for _ in range(self.knobs.steps):
                    self._step()
                    self._maybe_fail()
                self.rest()
                self.check()
            finally:
                for cell in self.cells:
                    cell.crash()
                self._outside.kill()
        return self.books.wrong

    def _step(self) -> None:
        self.books.step += 1
        if self.rng.random() < self.knobs.pace:
            self._client_moves()
        self._machine_moves()

    def _machine_moves(self) -> bool:
        """Some process, connection or disk goes on; returns whether anything but time has."""
        draw = self.rng.random()
        first = 0 if draw < 0.4 else 1 if draw < 0.8 else 2
        moves: tuple[Callable[[], bool], ...] = (self._turn, self._read, self._disk)
        moved = (draw < 0.97 or self._calm) and any(moves[(first + each) % 3]() for each in range(3))
        if moved:
            self.clock.us += self.rng.choice((0, 1, 20, 400))
        else:
            self._pass_time()
        if self._outside.ready:
            self._outside.turn()
        if self._unready:
            self._look_at_links()
        return moved

    def _turn(self) -> bool:
        ready = [cell for cell in self.cells if cell.up and cell.loop.ready]
        if ready:
            cell = self.rng.choice(ready)
            self.note(f"cell {cell.number}", "turns")
            cell.loop.turn()
        return bool(ready)

    def _read(self) -> bool:
        ends = [end for end in self.network.ends if end.readable()]
        if self.rng.random() < self.knobs.slow_links:
            ends = [end for end in ends if not end.name.endswith(LINKS)] or (ends if self._calm else [])
        if ends:
            end = self.rng.choice(ends)
            size = 65_536
            if end.incoming and self.rng.random() < self.knobs.chop:
                size = self.rng.randrange(1, min(len(end.incoming), 300) + 1)
            self.note(end.name, "reads", min(size, len(end.incoming)))
            end.read(size)
        return bool(ends)

    def _disk(self) -> bool:
        busy = [cell for cell in self.cells if cell.disk_is_busy()]
        if self.rng.random() < self.knobs.slow_disks and not self._calm:
            return False
        if busy:
            cell = self.rng.choice(busy)
            what = cell.disk_step()
            self.note(f"cell {cell.number}", "commit", what)
        return bool(busy)

    def _pass_time(self) -> None:
        """Wait for a timer, or for less."""
        at = min((at for cell in self.cells if cell.up and (at := cell.loop.next_timer())), default=0)
        if at and (self._calm or self.rng.random() < 0.4):
            self.clock.us = max(self.clock.us, at)
        else:
            self.clock.us += self.rng.randrange(3_000)
        for cell in self.cells:
            if cell.up:
                cell.loop.look_at_clock()

    def _look_at_links(self) -> None:
        """Note since when both ends of a link know all filters of each other."""
        for pair, broken in list(self._unready.items()):
            one, other = (self.cells[number - 1] for number in pair)
            links = one.link_to(other.number), other.link_to(one.number)
            if all(link is not None and link.ready and link.connection not in broken for link in links):
                del self._unready[pair]
                self.books.ready_since[pair] = self.books.last_ready[pair] = self.books.step

    def _note_broken(self, one: SimulatedCell, other: SimulatedCell, ends: Sequence[Transport] = ()) -> tuple[int, int]:
        """A connection between two cells is about to break: the one with these ends, or any."""
        pair = min(one.number, other.number), max(one.number, other.number)
        links = one.link_to(other.number), other.link_to(one.number)
        open_now = [link.connection for link in links if link is not None and link.connection is not None]
        broken = [each for each in open_now if not ends or each.socket.transport in ends]
        self._unready.setdefault(pair, []).extend(broken)
        if self.books.ready_since.pop(pair, None) is not None:
            self.books.last_ready[pair] = self.books.step
        return pair

    # -- what may happen

    def _client_moves(self) -> None:
        rng = self.rng
        client = rng.choice(self.clients)
        if client.open is None:
            if rng.random() < 0.5:
                client.connect(rng.choice(TOPICS) if rng.random() < 0.2 else "")
            return
        if not client.connected:
            return
        draw = rng.uniform(0.75, 0.93) if rng.random() < self.knobs.fickle else rng.random()
        if draw < 0.6:
            if client.may_publish():
                retain = rng.random() < 0.15
                padding = rng.choice((0, 30, 600)) if self.knobs.small else rng.choice((0, 0, 10, 3_000))
                client.publish(rng.choice(RETAINED if retain else TOPICS), rng.randrange(3), retain, padding)
        elif draw < 0.75:
            client.acknowledge(rng.randrange(1, 5))
        elif draw < 0.88:
            client.subscribe(rng.choice(self.knobs.filters), rng.choice((0, 1, 2, 2)))
        elif draw < 0.93:
            client.unsubscribe()
        elif draw < 0.95:
            client.disconnect()
        elif draw < 0.98:
            client.drop(rng)
        else:
            self.note(client.name, "connects once more")
            client.connect()

    def _maybe_fail(self) -> None:
        rng = self.rng
        if rng.random() < self.knobs.cut:
            links = [end for end in self.network.ends if end.name.endswith(LINKS) and not end.lost]
            if links:
                self._cut(rng.choice(links))
        if rng.random() < self.knobs.crash:
            self._crash(rng.choice(self.cells))
        for cell in self.cells:
            if not cell.up and rng.random() < 0.02:
                self.note(f"cell {cell.number}", "starts again")
                cell.start()
        if rng.random() < 0.02:
            self.network.forget()

    def _cut(self, end: Transport) -> None:
        cells = [cell for cell in self.cells if cell.up and cell.loop in {end.loop, end.peer.loop}]
        if len(cells) == 2:
            pair = self._note_broken(cells[0], cells[1], (end, end.peer))
            self.note(f"link {pair}", "breaks")
            self.books.cuts[pair].append(self.books.step)
            end.cut(self.rng)

    def _crash(self, cell: SimulatedCell) -> None:
        if not cell.up:
            return
        rng = self.rng
        if rng.random() < 0.5:  # in the middle of a turn
            kept = rng.randrange(len(cell.loop.ready) + 1)
            while len(cell.loop.ready) > kept:
                cell.loop.ready.pop()
            cell.loop.turn()
        if cell.disk_is_busy() and rng.random() < 0.5:
            cell.disk_step()  # perhaps the commit is on disk, and nobody was told
        self.note(f"cell {cell.number}", "is killed")
        for other in self.cells:
            if other is not cell:
                self._note_broken(cell, other)
        cell.crash()
        for end in self.network.ends:
            if end.loop is cell.loop:
                end.die(rng)
        self.network.forget()
        self.books.crashes[cell.number].append(self.books.step)

    # -- the end

    def _settle(self, most: int = 0) -> None:
        """Let all go on until all links are there, and nothing but timers for a while."""
        self._calm = True
        quiet = 0
        for _ in range(LONGEST):
            self.books.step += 1
            if not self._machine_moves():
                quiet += 1
            if quiet > most * len(self.cells) and self._is_settled():
                break
        self._calm = False

    def _is_settled(self) -> bool:
        return all(cell.serves for cell in self.cells) and not self._unready

    def rest(self) -> None:
        """No more faults: all cells run, kept clients are back, everything is acknowledged."""
        for cell in self.cells:
            if not cell.up:
                cell.start()
        self._settle()
        for client in self.clients:
            client.lazy = 0.0
            if client.open is None and client.kept and client.held is not None:
                client.connect()
            client.acknowledge(len(client.owed))
        self._settle(QUIET)

    def check(self) -> None:
        """What has to be so now."""
        books = self.books
        for sent in books.sent.values():
            if not sent.number and any(at >= sent.at for at in books.crashes[sent.home]):
                sent.promised = False  # a will, of a client that may have come back
        books.check()
        for cell in self.cells:
            if not cell.serves:
                books.wrong.append(f"cell {cell.number} does not serve")
                return
        for cell in self.cells:
            others = [each for each in self.cells if each is not cell]
            books.wrong += [f"cell {cell.number}: {each}" for each in cell.left_over(others, FILTERS)]
        for client in self.clients:
            if client.connected and client.unacknowledged:
                books.wrong.append(f"{client.name} waits for {list(client.unacknowledged)}")
            if client.kept and client.held is not None and not client.connected:
                books.wrong.append(f"{client.name} is not connected")
        self._check_retained()

    def _check_retained(self) -> None:
        retained = [cell.retained() for cell in self.cells]
        for topic in RETAINED:
            own = [sent for sent in self.books.sent.values() if sent.topic == topic and sent.retain]
            crashed = any(cell.crashes for cell in self.cells)
            if crashed and own:
                continue  # the older one may have replaced the newer one where a cell was killed (CLUSTER.md)
            if self.books.cuts and any(sent.qos == 0 for sent in own):
                continue  # it may have been lost on its way
            names = [each.get(topic, "").rstrip(".") for each in retained]
            if len(set(names)) > 1:
                self.books.wrong.append(f"cells retain {names} on {topic}")
            allowed = self.books.admissible(topic)
            if any(sent.acknowledged for sent in self.books.sent.values() if sent.topic == topic):
                self.books.wrong += [
                    f"cell {cell.number} retains {name!r} on {topic}, not one of {sorted(allowed)}"
                    for cell, name in zip(self.cells, names, strict=True)
                    if name not in allowed
                ]


def _named(more: object) -> str:
    if not isinstance(more, Packet):
        return str(more)
    shown = [f"{name}={_short(getattr(more, name))}" for name in more.fields if getattr(more, name)]
    return f"{type(more).__name__}({', '.join(shown)})"


def _short(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(_short, value))
    if isinstance(value, Subscription):
        return f"{value.topic_filter} at QoS {value.qos}"
    if isinstance(value, Will):
        return f"{_short(value.payload)} to {_short(value.topic)} at QoS {value.qos}"
    text = value.rstrip(b".").decode(errors="replace") if isinstance(value, bytes) else str(value)
    return text[:80]
