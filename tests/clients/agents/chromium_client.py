"""MQTT.js in a page of Chromium: only WebSocket, and certificates as the browser has them."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, BrowserContext, Page, Playwright, async_playwright

from tests.clients.agents.base import PATH, Agent, Link, RefusedError, serve
from tests.support.looking import ARGUMENTS, CHROMIUM
from tests.support.node import install

HERE = Path(__file__).parent
ORIGIN = "http://localhost"
"""Of the page: the browser trusts it enough for cryptography."""

LIBRARY = "mqtt@5.16.0"


class Chromium(Agent):
    """An agent for a page."""

    _playwright: Playwright
    _browser: Browser | None = None
    _context: BrowserContext | None = None
    _page: Page

    async def connect(self, link: Link) -> None:
        """Connect, in a new page of a new profile."""
        if self._context is not None:
            await self._context.close()
        self.begin()
        if self._browser is None:
            self._playwright = await async_playwright().start()
            self._browser = await self._playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        scheme = "wss" if link.cafile else "ws"
        shown: list[Any] = []
        if link.certfile:
            origin = f"https://{link.host}:{link.port}"
            shown = [{"origin": origin, "certPath": link.certfile, "keyPath": link.keyfile}]
        # The browser does not know the tests' authority.
        self._context = await self._browser.new_context(ignore_https_errors=True, client_certificates=shown or None)
        await self._context.grant_permissions(["local-network-access"])  # the page is nowhere, the broker is here
        page = self._page = await self._context.new_page()
        await page.route(f"{ORIGIN}/**", lambda route: route.fulfill(body="<!doctype html>", content_type="text/html"))
        await page.goto(f"{ORIGIN}/")
        await page.expose_function("received", self._on_message)
        await page.expose_function("gone", self.gone)
        for script in (install(LIBRARY) / "mqtt/dist/mqtt.min.js", HERE / "scram.cjs", HERE / "page.js"):
            await page.add_script_tag(path=script)
        url = f"{scheme}://{link.host}:{link.port}{PATH}"
        answer = await page.evaluate("([url, order]) => begin(url, order)", [url, asdict(link)])
        if "error" in answer:
            raise RefusedError(answer["code"], answer["error"])

    async def subscribe(self, filter: str, qos: int) -> None:  # noqa: A002  # the field of the order
        """Subscribe and wait for the SUBACK, which must grant the QoS."""
        answer = await self._done("subscribe", filter, {"qos": qos})
        assert answer.get("granted") == qos, answer

    async def publish(self, topic: str, payload: str, qos: int, retain: bool) -> None:
        """Publish and wait until it is sent, or acknowledged."""
        text = bytes.fromhex(payload).decode()
        answer = await self._done("publish", topic, text, {"qos": qos, "retain": retain})
        assert "error" not in answer, answer

    async def disconnect(self) -> None:
        """Disconnect."""
        self.leaving = True
        await self._done("end", False)

    async def _done(self, verb: str, *more: Any) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = await self._page.evaluate("([verb, more]) => done(verb, ...more)", [verb, more])
        return answer

    def _on_message(self, topic: str, payload: list[int], qos: int, retain: bool) -> None:
        self.received(topic, bytes(payload), qos, retain)


if __name__ == "__main__":
    serve(Chromium)
