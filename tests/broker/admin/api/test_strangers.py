"""Peers without a valid token: their requests take turns, and they make room for those who have one."""

import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest

from broker.admin.api.strangers import BURST, PACE
from broker.admin.server import MOST_CONNECTIONS
from tests.broker.admin.api.conftest import OPERATOR
from tests.support.broker.admin import TIMEOUT, request
from tests.support.process import Address
from tests.support.waiting import wait_until

pytestmark = pytest.mark.once

WHO = "/api/v1/who"
PEERS = 10
STRANGERS = 200
"""Connections a second, at most."""


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes what a test has opened."""
    with ExitStack() as opened:
        yield opened


def stranger(stack: ExitStack, tcp: Address, target: str, requests: int) -> socket.socket:
    """A peer that asks so many times at once, without a token."""
    connection = stack.enter_context(closing(socket.create_connection(tcp, TIMEOUT)))
    connection.sendall(b"GET %s HTTP/1.1\r\nHost: sluice\r\n\r\n" % target.encode() * requests)
    return connection


@pytest.mark.parametrize(("target", "status"), [("/health", b" 200 "), (WHO, b" 401 "), ("/nothing", b" 404 ")])
def test_their_requests_take_turns(stack: ExitStack, tcp: Address, target: str, status: bytes) -> None:
    """So many requests a second are answered without a token, whatever they ask for, and those with one do not wait."""
    requests = BURST + 100
    began = time.monotonic()
    peers = [stranger(stack, tcp, target, requests) for _ in range(PEERS)]

    def waits_for_no_turn() -> bool:
        asked = time.monotonic()
        assert request(tcp, WHO, token=OPERATOR).status == 200
        return time.monotonic() - asked < PEERS * PACE  # when it would be the turn of who comes after all peers

    wait_until(waits_for_no_turn, "an answer before those who were there first")
    for each in peers:
        answers = b""
        while answers.count(status) < requests // PEERS:
            answers += each.recv(65_536)
    assert time.monotonic() - began >= 100 * PACE


def test_they_make_room(stack: ExitStack, tcp: Address) -> None:
    """64 peers that always have a request in hand keep nobody with a token out."""
    for _ in range(64):
        stranger(stack, tcp, "/health", 1_000)
    assert request(tcp, WHO, token=OPERATOR).status == 200


def test_new_ones_make_room_too(tcp: Address) -> None:
    """However many connections without a token come each second, who has one is answered every time."""
    assert request(tcp, WHO, token=OPERATOR).status == 200
    over = threading.Event()
    opened = 0

    def flood() -> None:
        nonlocal opened
        peers: deque[socket.socket] = deque()
        while not over.wait(1 / STRANGERS):
            peer = socket.create_connection(tcp, TIMEOUT)
            peer.sendall(b"GET /health HTTP/1.1\r\nHost: sluice\r\n\r\n")
            peers.append(peer)
            opened += 1
            if len(peers) > 2 * MOST_CONNECTIONS:
                peers.popleft().close()
        for peer in peers:
            peer.close()

    with ThreadPoolExecutor() as pool:
        flooding = pool.submit(flood)
        try:
            wait_until(lambda: opened > MOST_CONNECTIONS, "all places are taken")
            assert [request(tcp, WHO, token=OPERATOR).status for _ in range(100)] == [200] * 100
        finally:
            over.set()
        flooding.result(TIMEOUT)
    assert [request(tcp, WHO, token=OPERATOR).status for _ in range(10)] == [200] * 10


def test_who_has_gone_takes_no_turn(tcp: Address) -> None:
    """The requests of peers that have gone meanwhile keep nobody waiting."""
    for _ in range(10):
        with ExitStack() as stack:
            for _ in range(50):
                stranger(stack, tcp, "/health", 1)
    began = time.monotonic()
    assert request(tcp, "/health").status == 200
    assert time.monotonic() - began < 300 * PACE
