"""The clients of a round, and the loop that serves them."""

import selectors
import time
from collections.abc import Callable
from typing import Final

from tests.ledger.books import Books, Page
from tests.ledger.clients import Client, Publisher, Receiver, Told
from tests.ledger.plan import LARGE, Plan
from tests.support.process import Address

GROUP: Final = "$share/g/#"
MEMBERS: Final = ("m0", "m1", "m2")
ALONE: Final = ("steady", "slow", "away", "ending", "ruled", "first", "simple")
PUBLISHERS: Final = 4
TOPICS: Final = 6
"""Of each publisher, of either kind."""
DENIED: Final = frozenset(b"%s/%d/%d" % (kind, who, 0) for kind in (b"d", b"c") for who in range(PUBLISHERS))
"""Topics that the client `ruled` may not receive while the rules say so."""
STEP: Final = 0.002
LONGEST: Final = 0.05
"""Seconds."""


class Cast:
    """All clients, and the books that they keep."""

    def __init__(self, plan: Plan, address: Address, told: Address) -> None:
        rng = plan.rng
        pages = {name: Page(name, 1 if name == "simple" else 2) for name in (*ALONE, GROUP)}
        self.books = Books(pages.values(), dict.fromkeys(MEMBERS, GROUP), sums=plan.sums, conflates=plan.conflates)
        self.receivers = {name: Receiver(name, address, self.books, pages[name], ["#"]) for name in ALONE} | {
            name: Receiver(name, address, self.books, pages[GROUP], [GROUP]) for name in MEMBERS
        }
        self.publishers = [
            Publisher(
                f"p{who}",
                address,
                self.books,
                [f"{kind}/{who}/{number}".encode() for kind in "dc" for number in range(TOPICS)],
                plan.window,
                rng,
            )
            for who in range(PUBLISHERS)
        ]
        for each in self.publishers:
            each.expiring = plan.expiring
            each.sizes = LARGE if plan.large else each.sizes
        self.told = Told("told", told, self.books, "$SYS/broker/dropped/+")
        self.clients: list[Client] = [self.told, *self.receivers.values(), *self.publishers]
        self.down = False
        """Whether the broker ends, so that connections may."""
        self._selector = selectors.DefaultSelector()

    def serve(self, enough: Callable[[], bool], seconds: float) -> bool:
        """Serve the clients until `enough`, or for so long; returns which.

        A turn counts as LONGEST at most, so that nothing fails because the machine had no time for us.
        """
        waited, before = 0.0, time.perf_counter()
        while not enough():
            now = time.perf_counter()
            waited += min(now - before, LONGEST)
            before = now
            if waited > seconds:
                return False
            for client in self.clients:
                self._turn(client, now)
            for key, _ in self._selector.select(STEP):
                self._read(key.data)
        return True

    def _turn(self, client: Client, now: float) -> None:
        try:
            if client.line is None:
                if client.wanted and not self.down:
                    client.connect()
                    assert client.line is not None
                    self._selector.register(client.line.socket, selectors.EVENT_READ, client)
                return
            client.line.flush()
            client.turn(now)
        except OSError as error:
            self.lost(client, error)

    def _read(self, client: Client) -> None:
        try:
            client.on_readable()
        except OSError as error:
            self.lost(client, error)

    def lost(self, client: Client, error: OSError | None = None) -> None:
        """A connection has ended."""
        if error is not None and not client.leaving and not self.down:
            self.books.faults.append(f"the connection of {client.name} ends: {error}")
        if client.line is not None:
            self._selector.unregister(client.line.socket)
        client.lost()

    def lose_all(self) -> None:
        """The broker is gone: read what has still come from it, and close."""
        for client in self.clients:
            while client.line is not None:
                self._read(client)

    def answered(self) -> bool:
        """Whether no publisher waits for an answer."""
        return not any(each.outgoing for each in self.publishers)

    def ready(self) -> bool:
        """Whether all who are to be connected are, and are subscribed."""
        receivers = [each for each in (*self.receivers.values(), self.told) if each.wanted]
        return all(each.ready for each in self.clients if each.wanted) and all(each.subscribed for each in receivers)
