"""The dashboard in a browser: what it shows of a broker, to whom, and what it lets them do."""

import http.client
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from broker.admin.dashboard.moment import Moment
from broker.admin.dashboard.places import MOST_OF_ONE
from protocol import properties as props
from tests.broker.admin.api.conftest import OPERATOR, VIEWER
from tests.support.broker.admin import TIMEOUT, request
from tests.support.broker.dashboard import DESK, PHONE, entered, screenshot, text, url
from tests.support.broker.events import events
from tests.support.looking import STICKS_OUT, Opened, launched
from tests.support.process import Address, BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.once

HOSTILE = "<img src=x onerror=alert(1)>\"'&</script>/ü\u202e%2e"
SLOW: Any = {props.RECEIVE_MAXIMUM: 1}


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """Headless Chromium. Playwright keeps an event loop running: only this module uses it."""
    with launched() as browser:
        yield browser


def slow_client(stack: ExitStack, broker: BrokerProcess, name: str, waiting: int = 20) -> WireClient:
    """A client with a Receive Maximum of 1 that acknowledges nothing, and what waits for it."""
    address = broker.address()
    slow = stack.enter_context(connected(address, 5, client_id=name, properties=SLOW))
    slow.subscribe("work/<b>x</b>", qos=1)
    with connected(address, 5) as publisher:
        for _ in range(waiting + 1):
            publisher.publish("work/<b>x</b>", b"x", 1)
    return slow


def test_the_rates_are_live(browser: "Browser", broker: BrokerProcess, tcp: Address) -> None:
    """Who enters a token sees what is published, each second, and nothing is loaded from elsewhere."""
    with entered(browser, tcp, VIEWER) as seen, connected(broker.address(), 5) as client:
        wait_until(lambda: text(seen, "#tile-connected") == "1", "the client is there")
        client.publish("t", b"x", 1)
        wait_until(lambda: text(seen, "#tile-received") not in ("–", "0"), "its message")
        assert seen.page.locator("#chart-rates canvas").count() == 1
        assert all(address.startswith(url(tcp)) for address in seen.requests)
        assert [said for said in seen.complaints if "401" not in said] == []


@pytest.mark.parametrize(
    ("window", "scheme"),
    [
        pytest.param(DESK, "light", id="desk-light"),
        pytest.param(DESK, "dark", id="desk-dark", marks=pytest.mark.slow),
        pytest.param(PHONE, "light", id="phone-light", marks=pytest.mark.slow),
        pytest.param(PHONE, "dark", id="phone-dark"),
    ],
)
def test_it_fits(
    browser: "Browser", broker: BrokerProcess, tcp: Address, tmp_path: Path, window: Any, scheme: str
) -> None:
    """The broker and a session fit into the window of a desk and of a phone, in both colours, whatever clients send."""
    with ExitStack() as stack:
        slow_client(stack, broker, HOSTILE)
        slow_client(stack, broker, "x" * 200)
        seen = stack.enter_context(entered(browser, tcp, OPERATOR, viewport=window, color_scheme=scheme))
        wait_until(lambda: " is slow: window full" in text(seen, "#headline"), "the slow session")
        assert text(seen, "#headline bdi") == HOSTILE  # alone, so that it does not turn the sentence round
        assert seen.wrong(STICKS_OUT) == []
        seen.page.screenshot(path=screenshot(f"dashboard-{window['width']}-{scheme}", tmp_path), full_page=True)
        paper = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert paper == ("rgb(255, 254, 252)" if scheme == "light" else "rgb(20, 22, 26)")
        seen.page.get_by_role("link", name=HOSTILE).click()
        wait_until(lambda: text(seen, "#headline") == HOSTILE, "its page")
        wait_until(lambda: "window full" in text(seen, "#why"), "the reason")
        assert seen.wrong(STICKS_OUT) == []
        seen.page.screenshot(path=screenshot(f"session-{window['width']}-{scheme}", tmp_path), full_page=True)
        assert [said for said in seen.complaints if "401" not in said] == []


@pytest.mark.slow
@pytest.mark.parametrize("window", [DESK, PHONE], ids=["desk", "phone"])
def test_the_api(browser: "Browser", tcp: Address, tmp_path: Path, window: Any) -> None:
    """The page of the API is behind a link, also for viewers, works by keyboard, and loads nothing from elsewhere."""
    with entered(browser, tcp, VIEWER, viewport=window) as seen:
        seen.page.get_by_role("link", name="API", exact=True).click()
        wait_until(lambda: "The API of Sluice" in text(seen, "#headline"), "the page")
        endpoint = seen.page.locator("summary", has_text="/api/v1/reload")
        endpoint.focus()
        seen.page.keyboard.press("Enter")
        wait_until(seen.page.locator("details[open]").get_by_text("Reloaded").is_visible, "what it answers")
        assert seen.wrong(STICKS_OUT) == []
        seen.page.screenshot(path=screenshot(f"api-{window['width']}", tmp_path), full_page=True)
        assert all(address.startswith(url(tcp)) for address in seen.requests)
        assert [said for said in seen.complaints if "401" not in said] == []
        seen.page.keyboard.press("Escape")
        wait_until(lambda: "API" not in text(seen, "#headline"), "the overview")


@pytest.mark.slow
def test_a_session(browser: "Browser", broker: BrokerProcess, tcp: Address) -> None:
    """The page of a session has its way as a picture, with what holds it back, in words which key, and its filters."""
    with ExitStack() as stack:
        slow = slow_client(stack, broker, "slow")
        seen = stack.enter_context(entered(browser, tcp, VIEWER, "#/session/slow"))
        wait_until(lambda: "window full, a sign of late acknowledgement" in text(seen, "#why"), "the reason")
        assert "the client's own Receive Maximum" in text(seen, "#advice")
        assert text(seen, ".flow .window.holds .value") == "1"
        assert text(seen, ".flow .mqueue .value") == "20"
        assert text(seen, ".flow .gate.shut .aside") == "window full"
        assert seen.page.get_by_role("rowheader", name="work/<b>x</b>").count() == 1
        assert seen.page.locator("#actions").count() == 0
        for _ in range(21):
            slow.finish(slow.receive_message())
        wait_until(lambda: text(seen, "#why") == "Nothing waits.", "it has caught up")
        assert seen.page.locator(".flow .holds").count() == 0


@pytest.mark.slow
def test_the_list_of_sessions(browser: "Browser", broker: BrokerProcess, tcp: Address, tmp_path: Path) -> None:
    """What sessions wait for leads to a list of those that do; it can be filtered and sorted, and leads to each."""
    with ExitStack() as stack:
        slow_client(stack, broker, "slow-2", 9)
        slow_client(stack, broker, "slow-1", 5)  # those are for slow-2 too
        stack.enter_context(connected(broker.address(), 5, client_id="swift"))
        seen = stack.enter_context(entered(browser, tcp, VIEWER))
        names = seen.page.locator("tbody th")
        seen.page.get_by_role("link", name="window full", exact=True).click()
        wait_until(lambda: names.all_text_contents() == ["slow-2", "slow-1"], "both, the longest first")
        seen.page.get_by_label("Sort by").select_option("name")
        wait_until(lambda: names.all_text_contents() == ["slow-1", "slow-2"], "by name")
        seen.page.get_by_label("What they wait for").select_option("")
        wait_until(lambda: "swift" in names.all_text_contents(), "all")
        seen.page.get_by_label("Part of a client id").fill("w-2")
        seen.page.keyboard.press("Enter")
        wait_until(lambda: names.all_text_contents() == ["slow-2"], "one")
        for window in (PHONE, DESK):
            seen.page.set_viewport_size(window)
            assert seen.wrong(STICKS_OUT) == []
            seen.page.screenshot(path=screenshot(f"list-{window['width']}", tmp_path))
        seen.page.get_by_role("link", name="slow-2").click()
        wait_until(lambda: "window full" in text(seen, "#why"), "its page")
        assert [said for said in seen.complaints if "401" not in said] == []


@pytest.mark.slow
def test_by_keyboard(browser: "Browser", broker: BrokerProcess, tcp: Address) -> None:
    """`/` and a client id lead to a session, Tab to the links, Escape back to the broker."""
    with ExitStack() as stack:
        slow_client(stack, broker, HOSTILE)
        seen = stack.enter_context(entered(browser, tcp, VIEWER))
        keyboard = seen.page.keyboard
        keyboard.press("/")
        keyboard.insert_text(HOSTILE)
        keyboard.press("Enter")
        wait_until(lambda: "window full" in text(seen, "#why"), "its page")
        keyboard.press("Escape")
        keyboard.press("Escape")
        wait_until(lambda: "is slow" in text(seen, "#headline"), "the broker")
        link = seen.page.get_by_role("link", name=HOSTILE).first
        wait_until(lambda: bool(link.evaluate("(e) => { e.focus(); return document.activeElement === e; }")), "focus")
        moments = text(seen, "#state")
        wait_until(lambda: text(seen, "#state") != moments, "more moments")
        assert link.evaluate("(e) => document.activeElement === e")
        keyboard.press("Enter")
        wait_until(lambda: "window full" in text(seen, "#why"), "its page again")


@pytest.mark.parametrize("name", ["a/b", *(pytest.param(each, marks=pytest.mark.slow) for each in ("..", "%2e"))])
def test_an_operator_acts(browser: "Browser", broker: BrokerProcess, tcp: Address, name: str) -> None:
    """An operator is asked first, and then the client is disconnected; who cancels changes nothing."""
    with ExitStack() as stack:
        client = stack.enter_context(connected(broker.address(), 5, client_id=name))
        seen = stack.enter_context(entered(browser, tcp, OPERATOR, f"#/session/{quote(name, safe='')}"))
        button = seen.page.get_by_role("button", name="Disconnect")
        button.click()
        seen.page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
        client.publish("t", b"x", 1)
        button.click()
        seen.page.get_by_role("dialog").get_by_role("button", name="Disconnect").click()
        assert client.expect_close() is not None
        wait_until(lambda: "there is no session" in text(seen, "main"), "it has gone")


@pytest.mark.slow
def test_retained_messages(browser: "Browser", broker: BrokerProcess, tcp: Address, tmp_path: Path) -> None:
    """Retained messages are listed with their payloads; an operator clears one, and a viewer has no button for it."""
    with ExitStack() as stack:
        client = stack.enter_context(connected(broker.address(), 5, client_id="keeper"))
        for topic in ("plant/<b>", "plant/two"):
            client.publish(topic, "<i>21 °C</i>".encode(), 1, retain=True)
        seen = stack.enter_context(entered(browser, tcp, OPERATOR))
        seen.page.get_by_role("link", name="Retained messages").click()
        names = seen.page.locator("tbody th")
        wait_until(lambda: names.all_text_contents() == ["plant/<b>", "plant/two"], "both")
        assert text(seen, "tbody td") == "<i>21 °C</i>"
        seen.page.screenshot(path=screenshot("retained", tmp_path))
        seen.page.set_viewport_size(PHONE)
        assert seen.wrong(STICKS_OUT) == []
        seen.page.get_by_label("Part of a topic").fill("<b>")
        seen.page.keyboard.press("Enter")
        wait_until(lambda: names.all_text_contents() == ["plant/<b>"], "one")
        seen.page.get_by_role("button", name="Clear").click()
        seen.page.get_by_role("dialog").get_by_role("button", name="Clear").click()
        wait_until(lambda: "1 message removed" in text(seen, "main"), "it is removed")
        assert [said for said in seen.complaints if "401" not in said] == []
        viewer = stack.enter_context(entered(browser, tcp, VIEWER, "#/retained"))
        wait_until(lambda: viewer.page.locator("tbody th").all_text_contents() == ["plant/two"], "the other")
        assert viewer.page.locator("tbody button").count() == 0
        client.publish("plant/two", b"", 1, retain=True)


def test_a_link_lets_one_browser_in(browser: "Browser", path: Path) -> None:
    """The link's code counts once, leaves the address at once, and is in no request."""
    link = request(path, "/api/v1/links", "POST", {"role": "viewer"}).json["url"]
    with Opened(browser, link, viewport=DESK) as seen, Opened(browser, link, viewport=DESK) as late:
        wait_until(lambda: text(seen, "#user") == "viewer", "it is let in")
        wait_until(lambda: text(seen, "#tile-connected") != "–", "it sees")
        wait_until(lambda: "the link has been used" in text(late, "main"), "the other is not")
        assert "code" not in seen.page.url
        assert not any(link.partition("code=")[2] in address for address in seen.requests[1:])
        seen.page.reload()
        wait_until(lambda: text(seen, "#tile-connected") not in ("", "–"), "it is still in")


@pytest.mark.slow
def test_revoked_links(browser: "Browser", broker: BrokerProcess, path: Path, tcp: Address) -> None:
    """When links are revoked, who has come by one is sent away within a moment; who has a token of their own is not."""
    link = request(path, "/api/v1/links", "POST", {}).json["url"]
    unused = request(path, "/api/v1/links", "POST", {}).json["url"].partition("#code=")[2]
    with Opened(browser, link, viewport=DESK) as seen, entered(browser, tcp, VIEWER) as other:
        wait_until(lambda: text(seen, "#tile-connected") not in ("", "–"), "it sees")
        wait_until(lambda: text(other, "#tile-connected") not in ("", "–"), "the other sees")
        assert request(path, "/api/v1/links", "DELETE").json["count"] >= 2  # those of other tests too
        wait_until(lambda: seen.page.get_by_label("Token").count() == 1, "it is asked for a token")
        assert request(tcp, "/api/v1/login", "POST", {"code": unused}).status == 403
        before = text(other, "#tile-connected")
        with connected(broker.address(), 5):
            wait_until(lambda: text(other, "#tile-connected") != before, "the other still sees")


@pytest.mark.slow
def test_a_wrong_token(browser: "Browser", tcp: Address) -> None:
    """Who has no valid token is told so, and can try again."""
    with Opened(browser, url(tcp), viewport=PHONE) as seen:
        seen.page.get_by_label("Token").fill("wrong")
        seen.page.get_by_role("button", name="Look").click()
        wait_until(lambda: "a token is needed" in text(seen, "[role=alert]"), "the refusal")
        assert seen.wrong(STICKS_OUT) == []
        assert seen.page.get_by_label("Token").input_value() == ""


def test_the_page_needs_no_token_and_the_stream_does(tcp: Address) -> None:
    """The page is no secret: what it shows is."""
    page = request(tcp, "/")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert request(tcp, "/dashboard/main.js").headers["content-type"] == "text/javascript; charset=utf-8"
    assert "MIT" in request(tcp, "/dashboard/uplot-license.txt").text
    assert request(tcp, "/dashboard/%2e%2e/observer.py").status == 404
    assert request(tcp, "/api/v1/stream").status == 401
    assert request(tcp, "/api/v1/who").status == 401


def test_links_are_made_on_the_unix_socket(path: Path, tcp: Address) -> None:
    """A token makes no links, so that nothing of it stays when it is taken away; a link's token says who asks."""
    for token, status in (("", 401), (VIEWER, 403), (OPERATOR, 403)):
        assert request(tcp, "/api/v1/links", "POST", {}, token=token).status == status
    made = request(path, "/api/v1/links", "POST", {"role": "viewer"}).json["url"]
    assert made.startswith(url(tcp))
    code = made.partition("#code=")[2]
    let_in = request(tcp, "/api/v1/login", "POST", {"code": code}).json
    assert request(tcp, "/api/v1/who", token=let_in["token"]).json == {
        "name": f"link of uid {os.getuid()}",
        "role": "viewer",
    }
    assert request(tcp, "/api/v1/reload", "POST", token=let_in["token"]).status == 403
    assert request(tcp, "/api/v1/login", "POST", {"code": code}).status == 403


def test_logins_are_audited(broker: BrokerProcess, path: Path, tcp: Address) -> None:
    """Who exchanges a link is in the audit log, with whose it is and from where, and who tries in vain."""
    code = request(path, "/api/v1/links", "POST", {"role": "viewer"}).json["url"].partition("#code=")[2]
    for _ in range(2):
        request(tcp, "/api/v1/login", "POST", {"code": code})
    keys = ("who", "peer", "action", "target", "result")

    def logins() -> list[list[object]]:
        return [[each[key] for key in keys] for each in events(broker, "audit") if each["action"] == "login"][-2:]

    wanted: list[list[object]] = [
        [f"link of uid {os.getuid()}", "127.0.0.1", "login", "viewer", "let in"],
        ["nobody", "127.0.0.1", "login", "", "the link is unknown, used or too old"],
    ]
    wait_until(lambda: logins() == wanted, "both lines")


def test_the_stream(stack: ExitStack, tcp: Address) -> None:
    """Each event has a moment as JSON of its schema; so many may look with one token, and others still may."""
    first = http.client.HTTPConnection(*tcp, timeout=TIMEOUT)
    events = [stream(stack, first), *(stream(stack, tcp) for _ in range(MOST_OF_ONE - 1))]
    event(events[0])  # with rates or not: another test's stream may have been looked at just now
    following = [Moment.model_validate_json(event(each)) for each in events]
    assert following[1].rates is not None
    assert request(tcp, "/api/v1/stream", token=VIEWER).status == 503
    event(stream(stack, tcp, OPERATOR))
    events[0].close()
    first.close()
    wait_until(lambda: asked(tcp, VIEWER) == 200, "there is room")


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes what a test has opened."""
    with ExitStack() as opened:
        yield opened


def asked(tcp: Address, token: str) -> int:
    """The status of a stream that is then left."""
    with closing(http.client.HTTPConnection(*tcp, timeout=TIMEOUT)) as connection:
        connection.request("GET", "/api/v1/stream", headers={"Authorization": f"Bearer {token}"})
        with closing(connection.getresponse()) as answer:
            return answer.status


def stream(
    stack: ExitStack, where: Address | http.client.HTTPConnection, token: str = VIEWER
) -> http.client.HTTPResponse:
    """A stream of moments."""
    connection = http.client.HTTPConnection(*where, timeout=TIMEOUT) if isinstance(where, Address) else where
    stack.enter_context(closing(connection))
    connection.request("GET", "/api/v1/stream", headers={"Authorization": f"Bearer {token}"})
    answer = stack.enter_context(closing(connection.getresponse()))
    assert (answer.status, answer.getheader("content-type")) == (200, "text/event-stream; charset=utf-8")
    return answer


def event(answer: http.client.HTTPResponse) -> bytes:
    """The data of the next event."""
    line, empty = answer.readline(), answer.readline()
    assert (line[:6], empty) == (b"data: ", b"\n")
    assert isinstance(json.loads(line[6:]), dict)
    return line[6:]
