"""The dashboard of a broker in a browser, as its tests open it."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.looking import Opened
from tests.support.process import Address
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser

DESK: Any = {"width": 1280, "height": 900}
PHONE: Any = {"width": 390, "height": 900}


def url(tcp: Address) -> str:
    """Where the page is."""
    return f"http://{tcp.host}:{tcp.port}/"


def screenshot(name: str, beside: Path) -> Path:
    """The path of a screenshot: in the folder SLUICE_SCREENSHOTS, or a temporary one."""
    folder = Path(os.environ.get("SLUICE_SCREENSHOTS") or beside)
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}.png"


def text(seen: Opened, selector: str) -> str:
    """The text of an element; empty if it is not there yet."""
    found = seen.page.locator(selector)
    return (found.first.text_content() or "") if found.count() else ""


def entered(browser: "Browser", tcp: Address, token: str, place: str = "", **options: Any) -> Opened:
    """The page, after a token has been entered, at a place such as `#/session/a`."""
    seen = Opened(browser, url(tcp) + place, **{"viewport": DESK, **options})
    seen.page.get_by_label("Token").fill(token)
    seen.page.get_by_role("button", name="Look").click()
    wait_until(lambda: text(seen, "#headline") not in ("", "…"), "the first moment")
    return seen
