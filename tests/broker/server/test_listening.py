"""Listeners: addresses of both families, names with several addresses, addresses that cannot be opened."""

import socket
from collections.abc import Callable
from typing import Any

import pytest

from broker.server.listening import open_sockets
from config.models import Config
from tests.support.broker.events import events
from tests.support.process import BrokerProcess
from tests.support.wire import connected

Start = Callable[..., BrokerProcess]


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost"])
def test_addresses(start: Start, host: str) -> None:
    """The server listens on IPv4 and IPv6 addresses and on names, and logs them."""
    with start(sections={"listeners": [{"name": "tcp", "bind": f"{host}:0"}]}) as broker:
        (listening, *_) = events(broker, "listening")
        assert {"listener", "host", "port", "tls"} < listening.keys()
        assert listening["listener"] == "tcp"
        assert listening["host"] in ("127.0.0.1", "::1")
        with connected(broker.address(), 5) as client:
            client.subscribe("t")
            client.publish("t", b"x")
            assert client.receive_message().payload == b"x"


def test_default_listener() -> None:
    """Without any configuration there is one listener: TCP on loopback, port 1883."""
    config = Config()
    assert [(listener.bind, listener.tls) for listener in config.listeners] == [("127.0.0.1:1883", None)]


def resolver(*addresses: str) -> Callable[..., Any]:
    """A stand-in for name resolution."""

    def resolve(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        return [
            (
                socket.AF_INET6 if ":" in address else socket.AF_INET,
                socket.SOCK_STREAM,
                6,
                "",
                (address, port, 0, 0) if ":" in address else (address, port),
            )
            for address in addresses
        ]

    return resolve


async def opened(host: str, port: int = 0) -> list[tuple[str, int]]:
    """Open the sockets of a name, close them, and return where they were."""
    sockets = await open_sockets(host, port)
    names = [sock.getsockname()[:2] for sock in sockets]
    for sock in sockets:
        sock.close()
    return names


async def test_name_with_several_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """All addresses of a name are opened, once each, on one port."""
    monkeypatch.setattr(socket, "getaddrinfo", resolver("::1", "127.1.5.3", "127.1.5.4", "::1"))
    names = await opened("many.example")
    assert [host for host, _ in names] == ["::1", "127.1.5.3", "127.1.5.4"]
    assert len({port for _, port in names}) == 1


async def test_address_of_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses that this machine does not have are skipped, unless there is no other."""
    monkeypatch.setattr(socket, "getaddrinfo", resolver("192.0.2.1", "127.0.0.1"))
    assert [host for host, _ in await opened("many.example")] == ["127.0.0.1"]
    monkeypatch.setattr(socket, "getaddrinfo", resolver("192.0.2.1", "2001:db8::1"))
    with pytest.raises(OSError, match="assign requested address"):
        await opened("many.example")


async def test_one_address_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that is in use is an error, and the other listeners are closed again."""
    free, in_use = "127.1.5.1", "127.1.5.2"  # no other test takes ports of these
    with socket.create_server((in_use, 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(socket, "getaddrinfo", resolver(free, in_use))
        with pytest.raises(OSError, match="already in use"):
            await opened("many.example", port)
        socket.create_server((free, port)).close()


async def test_unknown_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name without an address is an OSError."""

    def fail(*_: Any, **__: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(OSError, match="not known"):
        await opened("nowhere.example")
