"""The dashboard's table of bridges: which are connected, why not, and what waits in them."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.connack import Connack
from protocol.publish import Publish
from tests.broker.conftest import Start
from tests.support.broker.bridged import SOON, Remote
from tests.support.broker.dashboard import DESK, PHONE, entered, screenshot, text
from tests.support.broker.events import wait_for_event
from tests.support.looking import STICKS_OUT, Opened, launched
from tests.support.process import Address, BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import connected

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.once

TOKEN = "token of a viewer"
WHY: Any = {props.REASON_STRING: "<b>who</b> are you, " + "x" * 200}


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """Headless Chromium. Playwright keeps an event loop running: only this module uses it."""
    with launched() as browser:
        yield browser


def running(start: Start, *bridges: dict[str, Any]) -> tuple[BrokerProcess, Address]:
    """A broker with these bridges, and where its dashboard is."""
    tokens = [{"name": "grafana", "role": "viewer", "sha256": sha256(TOKEN.encode()).hexdigest()}]
    broker = start(sections={"admin": {"listen": "127.0.0.1:0", "tokens": tokens}, "bridges": list(bridges)})
    (event,) = wait_for_event(broker, "admin_listening")
    return broker, Address(str(event["host"]), int(str(event["port"])))


def cells(seen: Opened, name: str) -> list[str]:
    """The row of a bridge, without its name."""
    found = seen.page.locator("tr", has=seen.page.get_by_role("link", name=name, exact=True)).locator("td")
    return found.all_text_contents()


def test_bridges(browser: "Browser", start: Start, tmp_path: Path) -> None:
    """A row says whether a bridge is connected, in colour too, what waits, what is sent now, and why it is down."""
    with Remote() as near, Remote() as far:
        up = {"name": "up", "address": near.address, "topics": [{"filter": "up/#"}]}
        down = {"name": "down", "address": far.address, "topics": [{"filter": "down/#"}]}
        later = {"reconnect_min": "1h", "reconnect_max": "1h"}
        broker, tcp = running(start, up | SOON, down | later)
        connection = near.accepted(properties={props.RECEIVE_MAXIMUM: 1})
        far.next().send(Connack(False, reason_codes.NOT_AUTHORIZED, WHY))
        with entered(browser, tcp, TOKEN) as seen, connected(broker.address(), 5) as client:
            wait_until(lambda: cells(seen, "up")[:1] == ["connected"], "one is connected")
            wait_until(lambda: cells(seen, "down")[0].startswith("waiting: again in "), "the other one is not")
            for topic in ("up/1", "up/2", "up/3", "down/1"):
                client.publish(topic, b"x", 1)
            connection.expect(Publish)
            wait_until(lambda: cells(seen, "up")[2] == "2" and cells(seen, "down")[2] == "1", "what waits")
            assert [cells(seen, name)[1] for name in ("up", "down")] == [f"mqtt://{near.address}", f"mqtt://{far.address}"]
            assert cells(seen, "up")[3].endswith(("ms", "s"))
            assert "<b>who</b> are you" in cells(seen, "down")[6]
            tones = seen.page.locator("[data-tone]")
            assert tones.evaluate_all("(all) => all.map((e) => e.dataset.tone)") == ["good", "bad"]
            for window in (PHONE, DESK):
                seen.page.set_viewport_size(window)
                assert seen.wrong(STICKS_OUT) == []
                seen.page.screenshot(path=screenshot(f"bridges-{window['width']}", tmp_path), full_page=True)
            assert [said for said in seen.complaints if "401" not in said] == []
            seen.page.get_by_role("link", name="up", exact=True).click()
            wait_until(lambda: text(seen, "#headline") == "$bridge/up", "the page of its session")


def test_what_is_sent_now(browser: "Browser", start: Start) -> None:
    """What a bridge sends is shown as a rate, which is 0 again when nothing is published."""
    with Remote() as remote:
        bridge = {"name": "up", "address": remote.address, "topics": [{"filter": "up/#"}]}
        broker, tcp = running(start, bridge | SOON)
        connection = remote.accepted()
        with entered(browser, tcp, TOKEN) as seen, connected(broker.address(), 5) as client:

            def is_sent() -> bool:
                client.publish("up/1", b"x", 1)
                connection.take(1)
                return cells(seen, "up")[4] not in ("–", "0")

            wait_until(is_sent, "a rate")
            wait_until(lambda: cells(seen, "up")[4] == "0", "nothing is sent")


def test_without_bridges(browser: "Browser", start: Start) -> None:
    """Who has no bridges sees no table of them."""
    _, tcp = running(start)
    with entered(browser, tcp, TOKEN) as seen:
        wait_until(lambda: text(seen, "#tile-connected") == "0", "a moment")
        assert not seen.page.get_by_role("heading", name="Bridges").is_visible()
        assert seen.page.get_by_role("heading", name="Groups").is_visible()
