"""Sockets that go from one process to another (SCM_RIGHTS)."""

import asyncio
import os
import socket
from pathlib import Path

from broker.cluster import passing
from broker.cluster.passing import Arrivals, Departures, Passed
from broker.runtime.origin import Origin

REFUSAL = b"not now"


def pair() -> tuple[socket.socket, int]:
    """A client's end of a connection, and a descriptor of the other end."""
    ours, theirs = socket.socketpair()
    return ours, theirs.detach()


async def collected(path: Path, count: int) -> tuple[Arrivals, "asyncio.Future[list[tuple[socket.socket, Passed]]]"]:
    """What arrives at `path`, once so many have come."""
    came: list[tuple[socket.socket, Passed]] = []
    all_came: asyncio.Future[list[tuple[socket.socket, Passed]]] = asyncio.get_running_loop().create_future()

    def begin(sock: socket.socket, passed: Passed) -> None:
        came.append((sock, passed))
        if len(came) == count:
            all_came.set_result(came)

    arrivals = Arrivals(begin)
    arrivals.open(path)
    return arrivals, all_came


async def test_sockets_arrive_in_order_with_what_was_read(tmp_path: Path) -> None:
    """The other process can write to each client, and has all that the client had sent, however much that is."""
    arrivals, came = await collected(tmp_path / "s", 50)
    departures = Departures(tmp_path / "s")
    sent = []
    for number in range(50):
        ours, fd = pair()
        origin = Origin("192.0.2.1", f"192.0.2.1:{number}", "cn") if number % 2 else None
        passed = Passed(f"listener {number}", origin, os.urandom(1 if number % 10 else 300_000))
        assert departures.send(passed, fd, REFUSAL)
        sent.append((ours, passed))
    found = await asyncio.wait_for(came, 20)
    for (ours, passed), (theirs, arrived) in zip(sent, found, strict=True):
        assert arrived == passed
        theirs.sendall(passed.listener.encode())
        assert ours.recv(100) == passed.listener.encode()
        ours.close()
        theirs.close()
    departures.close()
    arrivals.close()


async def test_a_socket_waits_for_a_process_that_is_not_up(tmp_path: Path) -> None:
    """It is passed on when the process is there."""
    departures = Departures(tmp_path / "s")
    ours, fd = pair()
    assert departures.send(Passed("l", None, b"hello"), fd, REFUSAL)
    arrivals, came = await collected(tmp_path / "s", 1)
    [(theirs, passed)] = await asyncio.wait_for(came, 20)
    assert passed.data == b"hello"
    for each in (ours, theirs):
        each.close()
    departures.close()
    arrivals.close()


async def test_a_client_is_told_if_nobody_comes(tmp_path: Path) -> None:
    """After a while it gets the refusal, and the connection is closed."""
    departures = Departures(tmp_path / "s", 0.2)
    ours, fd = pair()
    ours.setblocking(False)
    assert departures.send(Passed("l", None, b""), fd, REFUSAL)
    loop = asyncio.get_running_loop()
    assert await asyncio.wait_for(loop.sock_recv(ours, 100), 20) == REFUSAL
    assert await asyncio.wait_for(loop.sock_recv(ours, 100), 20) == b""
    ours.close()
    departures.close()


async def test_what_waits_is_bounded(tmp_path: Path) -> None:
    """Past MOST_WAITING a connection is refused at once, and keeps its descriptor."""
    departures = Departures(tmp_path / "s")
    ours, fd = pair()
    for _ in range(passing.MOST_WAITING):
        assert departures.send(Passed("l", None, b""), os.dup(fd), REFUSAL)
    assert not departures.send(Passed("l", None, b""), fd, REFUSAL)
    os.close(fd)
    ours.close()
    departures.close()
