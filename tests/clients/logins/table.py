"""The table of logins: which client logs in by which method over what, what it cannot do and why, and a cover of it."""

import heapq
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import cache

TRANSPORTS = ("tcp", "tls", "ws", "wss")

WAYS = ("direct", "haproxy-v1", "haproxy-v2", "nginx-v1", "haproxy-tls", "nginx-tls")
"""Directly, or through a proxy with headers of a version; -tls: the proxy ends TLS, and HAProxy says whose certificate
it has seen. nginx sends version 1 only, which cannot say that."""

METHODS = ("password", "mosquitto", "jwt", "certificate", "scram", "http", "client_id", "postgres")
"""A password in our file, or as mosquitto_passwd has written it; a token as password; a client certificate;
SCRAM-SHA-256; a service that knows the password, or the client id of a client without a user name; a database."""

CLIENTS = {
    "paho": TRANSPORTS,
    "aiomqtt": TRANSPORTS,
    "gmqtt": ("tcp", "tls"),
    "mqttjs": TRANSPORTS,
    "chromium": ("ws", "wss"),
    "mosquitto": ("tcp", "tls"),
}
"""The transports of each client; mosquitto_pub and _sub have WebSocket from 2.1 on."""

WITH_SCRAM = ("mqttjs", "chromium")
"""Clients that let their users answer AUTH."""


@dataclass(frozen=True)
class Cell:
    """One client that logs in."""

    client: str
    transport: str
    way: str
    method: str
    version: int

    @property
    def name(self) -> str:
        """A name for the table."""
        version = "v5" if self.version == 5 else "v3"
        return f"{self.client}-{version}-{self.transport}-{self.way}-{self.method}"

    @property
    def has_tls(self) -> bool:
        """Whether the client connects by TLS."""
        return self.transport in ("tls", "wss")


def why_not(cell: Cell) -> str:
    """Why a cell is not in the table; empty if it is."""
    if cell.transport not in CLIENTS[cell.client]:
        return f"{cell.client} has no {cell.transport}"
    if cell.way.endswith("-tls") and not cell.has_tls:
        return "there is no TLS to end"
    if cell.method == "certificate" and not cell.has_tls:
        return "certificates need TLS"
    if cell.method == "certificate" and cell.way == "nginx-tls":
        return "version 1 says nothing about certificates"
    if cell.method == "scram" and cell.version != 5:
        return "3.1.1 has no AUTH"
    if cell.method == "scram" and cell.client not in WITH_SCRAM:
        return f"{cell.client} cannot answer AUTH"
    return ""


@cache
def all_cells() -> Sequence[Cell]:
    """The whole table."""
    every = itertools.product(CLIENTS, TRANSPORTS, WAYS, METHODS, (4, 5))
    return [cell for cell in (Cell(*each) for each in every) if not why_not(cell)]


@cache
def cover() -> Sequence[Cell]:
    """Some of the table, in which every two things meet that meet in it: a client and a method, a way and a version."""
    open_pairs = {pair for cell in all_cells() for pair in _pairs(cell)}
    heap = [(-len(list(_pairs(cell))), number) for number, cell in enumerate(all_cells())]
    heapq.heapify(heap)
    chosen = []
    while open_pairs:
        promised, number = heapq.heappop(heap)
        cell = all_cells()[number]
        found = [pair for pair in _pairs(cell) if pair in open_pairs]
        if len(found) == -promised:  # no other one can have more: what is open only shrinks
            chosen.append(number)
            open_pairs.difference_update(found)
        elif found:
            heapq.heappush(heap, (-len(found), number))
    return [all_cells()[number] for number in sorted(chosen)]


def _pairs(cell: Cell) -> Iterator[tuple[tuple[int, object], tuple[int, object]]]:
    return itertools.combinations(enumerate(astuple(cell)), 2)
