"""MQTT.js in a page of a real browser, over WSS."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from protocol.publish import Publish
from tests.broker.conftest import Start
from tests.clients.catalogue import CLIENTS
from tests.support.broker.logins import NO_LIMITS, write_users
from tests.support.certificates import Certificates
from tests.support.looking import launched
from tests.support.node import install
from tests.support.process import BrokerProcess
from tests.support.wire import WireClient

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.once

ORIGIN = "https://page.example"
SCRIPT = """([url, options]) => new Promise((done, failed) => {
  const client = mqtt.connect(url, options)
  const received = []
  client.on('error', (error) => { client.end(true); failed(error) })
  client.on('close', () => { if (!received.length) { client.end(true); failed(new Error('closed')) } })
  client.on('message', (topic, payload) => {
    received.push([topic, payload.length])
    if (received.length === 2) client.end(false, {}, () => done(received))
  })
  client.on('connect', () => client.subscribe('page/#', { qos: 1 }, () => {
    client.publish('page/small', 'small', { qos: 1 })
    client.publish('page/large', new Uint8Array(200000), { qos: 2 })
  }))
})"""


@pytest.fixture
def broker(start: Start, tmp_path: Path, certificates: Certificates) -> BrokerProcess:
    """A broker with a user, and a listener of WSS for the pages of one origin."""
    server = certificates.server
    tls = {"certfile": str(server.certfile), "keyfile": str(server.keyfile)}
    wss = {"name": "wss", "bind": "127.0.0.1:0", "tls": tls, "websocket": {"origins": [ORIGIN]}}
    users = {"password_file": str(write_users(tmp_path / "users")), **NO_LIMITS}
    sections = {
        "listeners": [{"name": "tcp", "bind": "127.0.0.1:0"}, wss],
        "allow_anonymous": True,
        "authentication": users,
        "authorization": {"default": "allow"},
    }
    return start(sections=sections)


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """Headless Chromium. Playwright keeps an event loop running: only this module uses it."""
    with launched() as browser:
        yield browser


def in_page(browser: "Browser", broker: BrokerProcess, origin: str, password: str) -> Any:
    """What MQTT.js receives in a page of this origin. Raises playwright's Error with what MQTT.js says."""
    missing = CLIENTS["mqttjs"].missing()
    if missing:
        pytest.skip(missing)
    library = install("mqtt@5.16.0") / "mqtt/dist/mqtt.min.js"
    host, port = broker.address("wss")
    options = {"protocolVersion": 5, "username": "ann", "password": password, "reconnectPeriod": 0}
    with browser.new_context(ignore_https_errors=True) as context:
        context.grant_permissions(["local-network-access"])  # the page is not from this machine, the broker is
        page = context.new_page()
        page.route(f"{origin}/**", lambda route: route.fulfill(body="<!doctype html>", content_type="text/html"))
        page.goto(f"{origin}/")
        page.add_script_tag(path=library)
        return page.evaluate(SCRIPT, [f"wss://{host}:{port}/mqtt", options])


def test_page_publishes_and_subscribes(browser: "Browser", broker: BrokerProcess) -> None:
    """A page logs in, subscribes and publishes; a client on TCP gets the same."""
    with WireClient(broker.address(), 5) as watcher:
        watcher.connect()
        watcher.subscribe("page/#")
        received = in_page(browser, broker, ORIGIN, "correct horse")
        assert sorted(received) == [["page/large", 200_000], ["page/small", 5]]
        assert sorted(len(watcher.expect(Publish).payload) for _ in received) == [5, 200_000]


@pytest.mark.parametrize(
    ("origin", "password", "reason"),
    [(ORIGIN, "wrong", "Bad User Name or Password|Bad username"), ("https://other.example", "correct horse", "closed")],
    ids=["password", "origin"],
)
@pytest.mark.slow
def test_page_is_refused(browser: "Browser", broker: BrokerProcess, origin: str, password: str, reason: str) -> None:
    """A page with a wrong password is told so; a page from elsewhere cannot connect."""
    pytest.importorskip("playwright.sync_api", reason="pip install 'sluice-mqtt[browser]'")
    from playwright.sync_api import Error

    with pytest.raises(Error, match=reason):
        in_page(browser, broker, origin, password)
