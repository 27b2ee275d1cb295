"""What the dashboard says first is true: of drops, of slow and absent clients, of a publisher; and its search."""

from collections.abc import Iterator
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from protocol import properties as props
from tests.support.broker.dashboard import DESK, PHONE, entered, screenshot, text
from tests.support.broker.events import wait_for_event
from tests.support.brokers import start_sluice
from tests.support.looking import STICKS_OUT, launched
from tests.support.process import Address, BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.once

TOKEN = "token of a viewer"
LONGEST = 50
"""Of an mqueue."""
KEPT: Any = {props.SESSION_EXPIRY_INTERVAL: 3600}


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """Headless Chromium. Playwright keeps an event loop running: only this module uses it."""
    with launched() as browser:
        yield browser


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker whose mqueues are short."""
    tokens = [{"name": "grafana", "role": "viewer", "sha256": sha256(TOKEN.encode()).hexdigest()}]
    session = {"max_mqueue_len": LONGEST, "overflow_patience": 0}
    admin = {"socket": "a.sock", "listen": "127.0.0.1:0", "tokens": tokens}
    with start_sluice(tmp_path, sections={"admin": admin, "session": session}) as running:
        yield running


@pytest.fixture
def tcp(broker: BrokerProcess) -> Address:
    """Where its dashboard is."""
    (event,) = wait_for_event(broker, "admin_listening")
    return Address(str(event["host"]), int(str(event["port"])))


def go_away(broker: BrokerProcess, name: str) -> None:
    """A client with a kept session, which subscribes and vanishes."""
    with connected(broker.address(), 5, client_id=name, properties=KEPT, clean_start=False) as client:
        client.subscribe("work/#", qos=1)
        client.reset()


def publish(publisher: WireClient, count: int) -> bool:
    """So many messages of QoS 1, one after the other."""
    for _ in range(count):
        publisher.publish("work/a", b"x", 1)
    return True


@pytest.mark.parametrize("window", [pytest.param(DESK, marks=pytest.mark.slow), PHONE], ids=["desk", "phone"])
def test_absent_clients(browser: "Browser", broker: BrokerProcess, tcp: Address, tmp_path: Path, window: Any) -> None:
    """Whose deliveries are dropped while they are away comes first; then who is away; at no time all is well."""
    for number in range(3):
        go_away(broker, f"truck-{number}")
    with ExitStack() as stack:
        publisher = stack.enter_context(connected(broker.address(), 5, client_id="sensors"))
        publish(publisher, LONGEST + 1)
        seen = stack.enter_context(entered(browser, tcp, TOKEN, viewport=window))
        assert "away" in text(seen, "#headline")

        def says_so() -> bool:
            return publish(publisher, 10) and "dropped while it is away" in text(seen, "#headline")

        wait_until(says_so, "the drops")
        headline = text(seen, "#headline")
        assert (headline.startswith("truck-"), headline.endswith("in all: mqueue full.")) == (True, True)
        assert "The client is away" in text(seen, "#advice")
        assert f"{LONGEST} deliveries wait for it; 2 others are away too" in text(seen, "#findings li.away")
        seen.page.screenshot(path=screenshot(f"away-{window['width']}", tmp_path), full_page=True)
        assert seen.wrong(STICKS_OUT) == []
        wait_until(lambda: "dropped in the last minute: mqueue full." in text(seen, "#headline"), "what has been")
        assert [said for said in seen.complaints if "401" not in said] == []


def test_slow_and_absent_clients(browser: "Browser", broker: BrokerProcess, tcp: Address, tmp_path: Path) -> None:
    """Who is slow comes before who is away."""
    go_away(broker, "truck")
    with ExitStack() as stack:
        slow: Any = {props.RECEIVE_MAXIMUM: 1}
        stack.enter_context(connected(broker.address(), 5, client_id="display", properties=slow)).subscribe("#", qos=1)
        publish(stack.enter_context(connected(broker.address(), 5, client_id="sensors")), 20)
        seen = stack.enter_context(entered(browser, tcp, TOKEN))
        wait_until(lambda: text(seen, "#headline").startswith("display is slow: window full"), "the slow one")
        assert text(seen, "#findings li.away") == "truck is away: 20 deliveries wait for it."
        seen.page.screenshot(path=screenshot("slow", tmp_path), full_page=True)


def test_all_is_well(browser: "Browser", broker: BrokerProcess, tcp: Address, tmp_path: Path) -> None:
    """That all is well is said when nothing waits and nothing is dropped."""
    go_away(broker, "truck")
    with connected(broker.address(), 5) as client, entered(browser, tcp, TOKEN) as seen:
        client.subscribe("work/#")
        client.publish("work/other", b"x", 0)
        client.receive_message()
        wait_until(lambda: "truck is away: 1 delivery waits for it" in text(seen, "#headline"), "the absent one")
        with connected(broker.address(), 5, client_id="truck", properties=KEPT, clean_start=False):
            well = "Nothing waits and nothing is dropped: what is offered is sent at once."
            wait_until(lambda: text(seen, "#headline") == well, "all is well")
        seen.page.screenshot(path=screenshot("well", tmp_path), full_page=True)


@pytest.mark.slow
def test_a_publisher(browser: "Browser", broker: BrokerProcess, tcp: Address, tmp_path: Path) -> None:
    """The page of a client that only publishes has what it publishes, and no picture of what is not sent to it."""
    with connected(broker.address(), 5, client_id="sensors") as publisher:
        publish(publisher, 30)
        with entered(browser, tcp, TOKEN, "#/session/sensors") as seen:
            facts = seen.page.locator("section", has_text="What it publishes").locator("dd")
            wait_until(lambda: publish(publisher, 5) and facts.nth(2).text_content() not in ("–", "0"), "its rate")
            assert int(str(facts.nth(0).text_content())) >= 30
            assert facts.nth(1).text_content() == f"{facts.nth(0).text_content()} B"
            assert facts.nth(3).text_content() == "none"
            assert not seen.page.locator(".flow").is_visible()
            assert text(seen, "#advice") == "Nothing has been sent to it."
            seen.page.screenshot(path=screenshot("publisher", tmp_path), full_page=True)
            assert [said for said in seen.complaints if "401" not in said] == []


@pytest.mark.slow
def test_the_last_disconnect(browser: "Browser", broker: BrokerProcess, tcp: Address) -> None:
    """The page of a session says how and when its last connection ended, while the client is away and afterwards."""
    go_away(broker, "truck")
    wait_for_event(broker, "disconnected")
    with entered(browser, tcp, TOKEN, "#/session/truck") as seen:
        fact = seen.page.locator("dl.facts div", has_text="last disconnect").locator("dd")
        wait_until(lambda: "Connection lost, " in str(fact.text_content()), "how it has ended")
        with connected(broker.address(), 5, client_id="truck", properties=KEPT, clean_start=False):
            wait_until(lambda: ":" in text(seen, "dl.facts div:has-text('address') dd"), "it is there again")
            assert str(fact.text_content()).endswith(" ago")


@pytest.mark.slow
def test_one_search_after_another(browser: "Browser", broker: BrokerProcess, tcp: Address) -> None:
    """`/` begins a search anew, also right after one, and a client id may have a `/` itself."""
    with (
        connected(broker.address(), 5, client_id="a/1"),
        connected(broker.address(), 5, client_id="b/2"),
        entered(browser, tcp, TOKEN) as seen,
    ):
        for name in ("a/1", "b/2", "a/1"):
            seen.page.keyboard.press("/")
            seen.page.keyboard.type(name)
            seen.page.keyboard.press("Enter")
            wait_until(lambda name=name: text(seen, "#headline") == name, "its page")  # type: ignore[misc]
            assert seen.page.get_by_label("Show the session of a client id").input_value() == ""
