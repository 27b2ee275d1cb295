"""The admin socket: how it answers wrong requests, too many of them, and peers that do not wait for the answer."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from broker.admin import client
from broker.admin.client import AdminError
from broker.admin.server import start_admin
from config.models import Config
from tests.broker.conftest import Start
from tests.support.broker.admin import AdminPeer, ask
from tests.support.broker.events import wait_for_event
from tests.support.broker.local import LocalBroker
from tests.support.brokers import start_sluice
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import connected

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with an admin socket."""
    folder = tmp_path_factory.mktemp("admin")
    with start_sluice(folder, sections={"admin": {"socket": str(folder / "admin.sock")}}) as running:
        wait_for_event(running, "admin_socket")
        yield running


@pytest.fixture
def path(broker: BrokerProcess) -> Path:
    """Its admin socket."""
    return broker.folder / "admin.sock"


@pytest.fixture
def peer(path: Path) -> Iterator[AdminPeer]:
    """A connection to it."""
    with AdminPeer(path) as connection:
        yield connection


def test_one_line_each(broker: BrokerProcess, peer: AdminPeer) -> None:
    """The broker answers requests in their order, one line each, over one connection."""
    peer.send({"command": "groups", "sort": "bytes"}, b"{}\r\n", {"version": 1, "command": "sessions", "sort": "drops"})
    first, second, third = peer.answer(), peer.answer(), peer.answer()
    assert (first["command"], first["sort"], first["version"], first["broker"]) == ("groups", "bytes", 1, "test")
    assert set(second) == {"version", "error"}
    assert (third["command"], third["sort"], third["rows"]) == ("sessions", "drops", [])


@pytest.mark.parametrize(
    ("request_line", "message"),
    [
        (b"\n", "this is not JSON"),
        (b"hello\n", "this is not JSON"),
        (b"\xff\xfe\n", "this is not JSON"),
        (b"\0" * 100 + b"\n", "this is not JSON"),
        (b"[" * 60_000 + b"\n", "this is not JSON"),
        (b'{"limit": ' + b"9" * 10_000 + b"}\n", "this is not JSON"),
        (b"[]\n", "this is not an object"),
        (b"null\n", "this is not an object"),
        ({}, "command null is not known: write addresses, groups or sessions"),
        ({"command": "stop"}, 'command "stop" is not known'),
        ({"command": ["sessions"]}, "is not known"),
        ({"command": "sessions", "order": 1}, '"order" is not known: write command, limit, sort or version'),
        ({"command": "sessions", "sort": "name"}, "write bytes, drops, mailbox, mqueue, patience or window_full"),
        ({"command": "sessions", "sort": {}}, "sort {} is not known for sessions"),
        ({"command": "groups", "sort": "mailbox"}, "write bytes, drops, mqueue or patience"),
        ({"command": "addresses", "sort": "mqueue"}, "write bytes, drops, refused or waiting"),
        ({"command": "sessions", "limit": 0}, "limit 0 is not possible: write 1 to 1000"),
        ({"command": "sessions", "limit": 1001}, "write 1 to 1000"),
        ({"command": "sessions", "limit": True}, "limit true"),
        ({"command": "sessions", "limit": 1.5}, "limit 1.5"),
        (b'{"command": "sessions", "limit": Infinity}\n', "limit Infinity"),
        ({"command": "sessions", "version": 2}, "version 2 is not known: write 1"),
        ({"command": "x" * 1000}, "..."),
    ],
)
def test_wrong_request(peer: AdminPeer, request_line: object, message: str) -> None:
    """The broker answers a wrong request with the mistake and what would be right, and then the next request."""
    answer = peer.ask(request_line)
    assert message in answer["error"]
    assert len(answer["error"]) < 300
    assert peer.ask({"command": "sessions"})["rows"] == []


def test_long_line(peer: AdminPeer) -> None:
    """A request that is longer than the limit ends the connection."""
    peer.send(b" " * 200_000)
    assert "at most 65536 bytes" in peer.answer()["error"]
    peer.expect_close()


def test_last_line_without_end(peer: AdminPeer) -> None:
    """The broker answers a last request without a line feed when its sender has closed its side."""
    peer.send(b'{"command": "sessions"}')
    peer.socket.shutdown(1)
    assert peer.answer()["rows"] == []
    peer.expect_close()


def test_the_loop_has_its_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker answers at most one of several requests that arrive together in a turn of the loop."""
    monkeypatch.setattr("broker.admin.server.PAUSE", 0.0)
    count = 50
    turns = 0

    async def ask_all(local: LocalBroker) -> None:
        nonlocal turns
        config = Config.model_validate({"admin": {"socket": str(tmp_path / "a.sock")}})
        server = await start_admin(local.broker.clients, local.broker.router, config)
        assert server is not None
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "a.sock"))
        writer.write(b"{}\n" * count)
        first = await reader.readline()
        rest = asyncio.create_task(reader.readexactly((count - 1) * len(first)))
        while not rest.done():
            turns += 1
            await asyncio.sleep(0)
        writer.close()
        await writer.wait_closed()
        server.stop()

    with LocalBroker() as local:
        local.complete(ask_all(local))
        local.run(lambda: None)  # the server's side is closed in the next turns
    assert turns >= count - 1


@pytest.fixture
def own_path(start: Start, tmp_path: Path) -> Path:
    """The admin socket of a broker that nobody else is connected to."""
    wait_for_event(start(sections={"admin": {"socket": "a.sock"}}), "admin_socket")
    return tmp_path / "a.sock"


def test_connections_are_bounded(own_path: Path) -> None:
    """The broker refuses a ninth connection until one of the eight has ended."""
    path = own_path
    with ExitStack() as stack:
        peers = [served(path, stack) for _ in range(8)]
        with AdminPeer(path) as another:
            assert "8 others are connected" in another.answer()["error"]
            another.expect_close()
        with pytest.raises(AdminError, match="8 others are connected"):
            client.ask(path, "sessions", None, 1)
        peers[0].close()
        served(path, stack)


def served(path: Path, stack: ExitStack) -> AdminPeer:
    """A connection that has been answered, as soon as there is room for it."""
    found: list[AdminPeer] = []

    def is_answered() -> bool:
        peer = stack.enter_context(AdminPeer(path))
        if "rows" in peer.ask({"command": "groups"}):
            found.append(peer)
        return bool(found)

    wait_until(is_answered, "there is room")
    return found[0]


def test_flood(broker: BrokerProcess, peer: AdminPeer, path: Path) -> None:
    """The broker serves MQTT clients and other peers while one peer sends a thousand requests at once."""
    count = 1_000
    peer.send(*[b"{}\n", {"command": "sessions", "limit": 1000}] * (count // 2))
    peer.answer()
    with connected(broker.address(), 5) as publisher:
        publisher.publish("t", b"x", 1)
    assert ask(path, "groups") == []
    peer.socket.setblocking(False)
    received = b""
    try:
        while chunk := peer.socket.recv(65536):
            received += chunk
    except BlockingIOError:
        pass
    assert received.count(b"\n") < count - 1


def test_gone_before_the_answer(own_path: Path) -> None:
    """A peer that closes before its answer does not disturb the others."""
    for _ in range(20):
        with AdminPeer(own_path) as peer, suppress(ConnectionError):
            peer.send({"command": "sessions", "sort": "drops"})
    wait_until(lambda: ask_anyhow(own_path) == [], "an answer")


def ask_anyhow(path: Path) -> Any:
    """The rows, or the error where too many are connected."""
    with AdminPeer(path) as peer:
        return peer.ask({"command": "sessions"}).get("rows")
