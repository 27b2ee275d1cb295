"""Listeners that a reload opens, changes and closes, while clients are connected."""

import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from protocol import reason_codes
from protocol.connect import Will
from protocol.disconnect import Disconnect
from tests.broker.conftest import Start
from tests.support.broker import guarded
from tests.support.broker.admin import request
from tests.support.broker.events import wait_for_event
from tests.support.broker.reloads import reload, rewrite
from tests.support.brokers import LOOPS
from tests.support.certificates import Certificates
from tests.support.process import Address, BrokerProcess, free_port
from tests.support.wire import WireClient, connected

pytestmark = pytest.mark.once

SECTIONS: Any = {"admin": {"socket": "a.sock"}}
Change = Callable[[list[dict[str, Any]]], object]


@pytest.fixture(params=LOOPS)
def broker(start: Start, request: pytest.FixtureRequest) -> BrokerProcess:
    """A broker with an admin socket and one listener, on either event loop."""
    broker = start(sections=SECTIONS, command=LOOPS[request.param])
    wait_for_event(broker, "admin_socket")
    return broker


def change(broker: BrokerProcess, how: Change) -> Any:
    """Change the listeners in the broker's file, and reload; returns the answer."""
    file = broker.folder / "sluice.yaml"
    written = yaml.safe_load(file.read_text())
    how(written["listeners"])
    file.write_text(yaml.safe_dump(written))
    return reload(broker)


def update_first(listeners: list[dict[str, Any]], **keys: object) -> None:
    """Change keys of the first listener."""
    listeners[0].update(keys)


def sockets(broker: BrokerProcess) -> dict[str, Address]:
    """Where each listener is now."""
    found = request(broker.folder / "a.sock", "/api/v1/listeners").json
    return {each["name"]: Address(each["host"] or each["path"], each["port"] or 0) for each in found}


def tls_section(certificates: Certificates, **more: object) -> dict[str, object]:
    """The section `tls` of a listener."""
    own = certificates.server
    return {"certfile": str(own.certfile), "keyfile": str(own.keyfile), "cafile": str(certificates.cafile), **more}


def test_opened_and_closed(broker: BrokerProcess) -> None:
    """A new listener serves clients at once; when it is removed they are told and gone, and others notice nothing."""
    added = {"name": "more", "bind": "127.0.0.1:0"}
    with connected(broker.address(), 5) as client:
        answer = change(broker, lambda listeners: listeners.append(added)).json
        assert answer == {"changed": [], "renewed": [], "opened": [added], "closed": [], "restart": {}}
        where = sockets(broker)["more"]
        client.subscribe("will")
        with connected(where, 5, will=Will(b"will", b"gone")) as leaving, connected(where, 4) as silent:
            answer = change(broker, lambda listeners: listeners.pop()).json
            assert answer["closed"] == [added | {"disconnected": 2}]
            assert leaving.expect(Disconnect).reason_code == reason_codes.ADMINISTRATIVE_ACTION
            assert (leaving.expect_close(), silent.expect_close()) == (None, None)
        assert client.receive_message().payload == b"gone"
        with pytest.raises(ConnectionRefusedError):
            connected(where)
        assert list(sockets(broker)) == ["tcp"]
        client.expect_nothing_more()


def test_other_addresses(start: Start) -> None:
    """A listener moves to all addresses and back, on the same port: it keeps its clients and serves new ones."""
    port = free_port()
    broker = start(sections=SECTIONS | {"listeners": [{"name": "tcp", "bind": f"127.0.0.1:{port}"}]})
    wait_for_event(broker, "admin_socket")
    for bind in (f"0.0.0.0:{port}", f"127.0.0.1:{port}"):
        with connected(broker.address(), 5) as client:
            answer = change(broker, partial(update_first, bind=bind)).json
            assert ([each["bind"] for each in answer["opened"]], answer["restart"]) == ([bind], {})
            assert answer["changed"] == ["listeners[0].bind"]
            assert [each["disconnected"] for each in answer["closed"]] == [0]
            client.expect_nothing_more()
            connected(broker.address()).close()


def test_another_name(start: Start) -> None:
    """A listener of another name takes over the socket of one that is gone: new clients are never refused."""
    bind = f"127.0.0.1:{free_port()}"
    broker = start(sections=SECTIONS | {"listeners": [{"name": "tcp", "bind": bind}]})
    wait_for_event(broker, "admin_socket")
    with connected(broker.address(), 5) as client:
        answer = change(broker, partial(update_first, name="other")).json
        assert answer["opened"] == [{"name": "other", "bind": bind}]
        assert answer["closed"] == [{"name": "tcp", "bind": bind, "disconnected": 1}]
        assert client.expect(Disconnect).reason_code == reason_codes.ADMINISTRATIVE_ACTION
    with connected(sockets(broker)["other"], 5) as client:
        client.expect_nothing_more()


def test_refused_whole(broker: BrokerProcess) -> None:
    """If one socket cannot be bound, nothing changes: none is opened, none is closed, and the answer says why."""
    free, taken = free_port(), broker.address().port

    def replace(listeners: list[dict[str, Any]]) -> None:
        listeners[0].update(name="renamed", bind="127.0.0.1:0")
        listeners.append({"name": "free", "bind": f"127.0.0.1:{free}"})
        listeners.append({"name": "nowhere", "bind": "192.0.2.1:1883"})

    with connected(broker.address(), 5) as client:
        answer = change(broker, replace)
        assert answer.status == 422
        assert "listener nowhere: cannot listen on 192.0.2.1:1883" in answer.json["detail"]
        assert sockets(broker) == {"tcp": Address("127.0.0.1", taken)}
        with pytest.raises(ConnectionRefusedError):
            connected(Address("127.0.0.1", free))
        client.expect_nothing_more()
        connected(broker.address()).close()


def test_wrong_certificate(broker: BrokerProcess) -> None:
    """A listener with a certificate that cannot be used is not opened; what comes with it does not change either."""
    own = {"name": "tls", "bind": "127.0.0.1:0", "tls": {"certfile": str(broker.folder / "sluice.yaml")}}

    def add(listeners: list[dict[str, Any]]) -> None:
        listeners[0]["allow_anonymous"] = False
        listeners.append(own)

    answer = change(broker, add)
    assert (answer.status, "listeners[1].tls.certfile" in answer.json["detail"]) == (422, True)
    connected(broker.address()).close()


def test_tls_on_an_open_port(broker: BrokerProcess, certificates: Certificates) -> None:
    """TLS is switched on, and with other terms: who is connected stays, new clients need it."""
    context = certificates.client_context(with_certificate=False)
    with connected(broker.address(), 5) as plain, WireClient(broker.address(), 5) as early:
        answer = change(broker, partial(update_first, tls=tls_section(certificates))).json
        assert "listeners[0].tls.certfile" in answer["changed"]
        with WireClient(broker.address(), 5, tls=context) as secure:
            secure.connect()
            own = tls_section(certificates, require_client_certificate=True)
            change(broker, partial(update_first, tls=own, allow_anonymous=False))
            assert early.connect().reason_code == reason_codes.NOT_AUTHORIZED  # its listener asks for a certificate now
            with WireClient(broker.address(), 5, tls=context) as new, pytest.raises((ssl.SSLError, ConnectionError)):
                new.connect()
            known = certificates.client_context(with_certificate=True)
            with WireClient(broker.address(), 5, tls=known) as certified:
                assert certified.connect().reason_code == reason_codes.SUCCESS
            for client in (plain, secure):
                client.expect_nothing_more()


def test_proxy(broker: BrokerProcess) -> None:
    """A listener is for trusted proxies only from now on, and is not any more: who is connected stays."""
    with connected(broker.address(), 5) as client:
        trusted = {"trusted": ["192.0.2.1"]}
        answer = change(broker, partial(update_first, proxy_protocol=trusted)).json
        assert "listeners[0].proxy_protocol.trusted[0]" in answer["changed"]
        with WireClient(broker.address(), 5) as direct, pytest.raises(ConnectionError):
            direct.connect()
        change(broker, partial(update_first, proxy_protocol=None))
        connected(broker.address(), 5).close()
        client.expect_nothing_more()


def test_authentication(broker: BrokerProcess) -> None:
    """A listener lets nobody in without a name any more; who is connected stays."""
    users = guarded.GUARDED["authentication"]
    rewrite(broker, authentication=users)
    with connected(broker.address(), 5) as client:
        change(broker, partial(update_first, allow_anonymous=False))
        with WireClient(broker.address(), 5) as nobody:
            assert nobody.connect().reason_code == reason_codes.NOT_AUTHORIZED
        guarded.authenticated(broker.address()).close()
        client.expect_nothing_more()


def test_unix_socket(broker: BrokerProcess, tmp_path: Path) -> None:
    """A Unix socket comes, gets another mode and the name of another listener, and goes with its file."""
    path = tmp_path / "m.sock"
    own = {"name": "unix", "bind": f"unix:{path}"}
    change(broker, lambda listeners: listeners.append(own))
    assert path.stat().st_mode & 0o777 == 0o660
    with connected(Address(str(path), 0), 5) as client:
        assert change(broker, lambda listeners: listeners[1].update(mode="0600")).json["changed"] == [
            "listeners[1].mode"
        ]
        assert path.stat().st_mode & 0o777 == 0o600
        client.expect_nothing_more()
        answer = change(broker, lambda listeners: listeners[1].update(name="local")).json
        assert ([each["name"] for each in answer["opened"]], answer["closed"][0]["disconnected"]) == (["local"], 1)
        assert client.expect(Disconnect).reason_code == reason_codes.ADMINISTRATIVE_ACTION
    connected(Address(str(path), 0)).close()
    change(broker, lambda listeners: listeners.pop())
    assert not path.exists()
