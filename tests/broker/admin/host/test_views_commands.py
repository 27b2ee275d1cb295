"""`sluice ctl`, `top`, `ctl trace` and `dashboard` on a host with several cells, and its page in a browser."""

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from broker.cli.main import app
from tests.broker.admin.host.conftest import CELLS
from tests.support.broker.cells import at_home
from tests.support.broker.dashboard import text, url
from tests.support.looking import Opened, launched
from tests.support.process import Address, BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient

pytestmark = pytest.mark.once

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = [next(at_home(cell, len(CELLS), "commanded")) for cell in CELLS]


OF_CELLS = list(zip(CELLS, NAMES, strict=True))


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """Headless Chromium. Playwright keeps an event loop running: only this module uses it."""
    with launched() as found:
        yield found


@pytest.fixture(autouse=True)
def clients(host: BrokerProcess) -> Iterator[None]:
    """A client of each cell."""
    found = [WireClient(host.address(), 5) for _ in NAMES]
    for client, name in zip(found, NAMES, strict=True):
        client.connect(name)
    yield
    for client in found:
        client.close()


def sluice(*arguments: object) -> str:
    """What a command prints."""
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert (result.exit_code, result.stderr) == (0, ""), result.exception
    return result.stdout


def test_ctl_is_about_the_host(path: Path) -> None:
    """Status, lists, one session, and what is done to it."""
    assert json.loads(sluice("ctl", "status", "--socket", path))["clients_connected"] == len(CELLS)
    rows = json.loads(sluice("ctl", "list", "clients", "--socket", path))["items"]
    assert [(row["cell"], row["client_id"]) for row in rows] == sorted(OF_CELLS, key=lambda one: one[1])
    alone = json.loads(sluice("ctl", "list", "clients", "--filter", "cell=2", "--socket", path))["items"]
    assert [row["client_id"] for row in alone] == [NAMES[1]]
    assert json.loads(sluice("ctl", "session", NAMES[2], "--socket", path))["cell"] == 3
    assert json.loads(sluice("ctl", "disconnect", NAMES[1], "--socket", path)) == {"result": "disconnected", "cell": 2}
    assert json.loads(sluice("ctl", "ready", "--socket", path))["ready"]
    assert sluice("ctl", "bridges", "--socket", path) == ""


def test_top_has_a_column_of_the_cell(path: Path) -> None:
    """In the table, and in CSV."""
    lines = sluice("top", "--sort", "name", "--limit", 100, "--socket", path).splitlines()
    assert lines[2].split()[:2] == ["client", "cell"]
    wanted = {(name, str(cell)) for cell, name in OF_CELLS}
    assert {tuple(line.split()[:2]) for line in lines} >= wanted
    table = sluice("top", "--sort", "name", "--limit", 100, "--out", "-", "--once", "--socket", path)
    rows = list(csv.DictReader(io.StringIO(table)))
    assert {(row["client_id"], row["cell"]) for row in rows} >= wanted


def test_trace_says_the_cell(path: Path) -> None:
    """In each line."""
    lines = sluice("ctl", "trace", "--topic", "#", "--for", "1s", "--socket", path).splitlines()
    assert {re.split("  +", line)[1] for line in lines} == {f"cell {cell}" for cell in CELLS}


def test_the_dashboard_shows_the_cells(browser: "Browser", path: Path, tcp: Address) -> None:
    """One link lets a browser in; the page has a row for each cell, and pages of sessions and links."""
    link = sluice("dashboard", "--socket", path).split()[-1]
    assert link.startswith(url(tcp))
    with Opened(browser, link) as seen:
        wait_until(lambda: text(seen, "#tile-connected") == str(len(CELLS)), "the clients of all cells")
        cells = seen.page.locator("section", has_text="restarts").first
        assert [each.inner_text() for each in cells.locator("tbody th").all()] == ["1", "2", "3"]
        seen.page.goto(f"{url(tcp)}#/sessions?sort=name")
        wait_until(lambda: seen.page.get_by_role("link", name="$cell/1").count() == len(CELLS) - 1, "the links")
        seen.page.get_by_role("link", name="$cell/1").last.click()
        wait_until(lambda: "cell=3" in seen.page.url, "the link in cell 3")
        wait_until(lambda: text(seen, "#why") not in {"", "…"}, "what it waits for")
        assert seen.complaints == []
