"""Connections that stay half open: they send nothing, part of a packet, or part of a TLS handshake.

The broker ends them after a time; then others come in their place.
"""

import asyncio
import selectors
import socket
import ssl
from contextlib import suppress

from protocol.connect import Connect
from tests.bench.storms.plan import Plan, Tally
from tests.support.process import Address

RATE = 1_000
"""Connections that are opened a second, at most."""
STEP = 0.02
ADDRESSES = 50


def first_flight() -> bytes:
    """A whole ClientHello."""
    context = ssl.create_default_context()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


class HalfOpen:
    """So many connections, half of them to the TLS listener."""

    def __init__(self, plan: Plan, tally: Tally) -> None:
        self._plan = plan
        self._tally = tally
        hello, connect = first_flight(), Connect("half", version=5).encode(5)
        self._beginnings: dict[Address, list[bytes]] = {
            plan.tcp: [b"", connect[:1], connect[:-1]],
            plan.tls: [b"", hello[:1], hello[: len(hello) // 2], hello],
        }
        self._selector = selectors.DefaultSelector()
        self._open: set[socket.socket] = set()
        self._number = 0

    def step(self, most: int) -> None:
        """Notice those that the broker has closed, and open up to `most` others."""
        for key, _ in self._selector.select(0):
            self._look(key)
        for _ in range(min(most, self._plan.half_open - len(self._open))):
            self._connect()

    def _connect(self) -> None:
        number = self._number
        self._number += 1
        address = self._plan.tls if number % 2 else self._plan.tcp
        beginnings = self._beginnings[address]
        sock = socket.socket()
        sock.setblocking(False)
        sock.bind((f"127.0.2.{number % ADDRESSES + 1}", 0))
        with suppress(BlockingIOError):
            sock.connect(address)
        self._open.add(sock)
        self._selector.register(sock, selectors.EVENT_WRITE, beginnings[number // 2 % len(beginnings)])

    def _look(self, key: selectors.SelectorKey) -> None:
        sock = key.fileobj
        assert isinstance(sock, socket.socket)
        try:
            if key.events & selectors.EVENT_WRITE:
                sock.send(key.data)
                self._tally.counts["opened"] += 1
                self._selector.modify(sock, selectors.EVENT_READ, b"")
                return
            if sock.recv(65_536):
                return  # the broker's part of the handshake
            self._tally.counts["ended"] += 1
        except BlockingIOError:
            return
        except OSError:
            self._tally.counts["broken"] += 1
        self._selector.unregister(sock)
        self._open.discard(sock)
        sock.close()

    def __len__(self) -> int:
        return len(self._open)

    def close(self) -> None:
        """Close all."""
        self._selector.close()
        for sock in self._open:
            sock.close()


async def half_open(plan: Plan, tally: Tally) -> None:
    """Keep so many connections open."""
    connections = HalfOpen(plan, tally)
    loop = asyncio.get_running_loop()
    last = loop.time()
    try:
        while True:
            await asyncio.sleep(STEP)
            now = loop.time()
            connections.step(int((now - last) * RATE) + 1)
            last = now
            tally.ready = tally.ready or tally.counts["opened"] >= plan.half_open
            tally.counts["most"] = max(tally.counts["most"], len(connections))
    finally:
        connections.close()
