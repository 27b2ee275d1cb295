"""`sluice run --dashboard` and `sluice dashboard`: the links that they print, and what a browser then sees."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from broker.cli.main import app
from tests.bench.mixed_load import RECEIVE_BUFFER, Plan, Reader, Writer
from tests.broker.conftest import Start
from tests.support.broker.admin import request, wait_for_api
from tests.support.broker.events import events
from tests.support.brokers import Listener, sluice_config
from tests.support.looking import Opened, launched
from tests.support.process import Address, clean_environment, free_port
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[3]
LINK = re.compile(r"Dashboard, for one browser within an hour: (http://127\.0\.0\.1:(\d+)/#code=([\w-]{43}))\n")
SOON = 30.0
"""Seconds after which a slow reader has to be on the page, also on a busy machine."""


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """Headless Chromium. Playwright keeps an event loop running: only this module uses it."""
    with launched() as browser:
        yield browser


@contextmanager
def run(folder: Path) -> Iterator[tuple[Address, str]]:
    """`make run`, as if everything had been installed: the broker, and the link that is printed."""
    address = Address("127.0.0.1", free_port())
    file = folder / "sluice.yaml"
    listeners = [{"name": "tcp", "bind": f"{address.host}:{address.port}"}]
    file.write_text(sluice_config([Listener()], {"listeners": listeners}))
    program = folder / "bin" / "sluice"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho $$ >{folder}/pid\ncd {folder} && exec {sys.executable} -m broker "$@"\n')
    program.chmod(0o755)
    command = ["make", "--silent", "--old-file=.venv/.sluice/run", "run", f"BIN={program.parent}"]
    command.append(f"ARGS=--config {file}")
    environment = clean_environment(
        XDG_RUNTIME_DIR=str(folder),
        PYTHONPATH=str(ROOT),
        SLUICE_METRICS__DIRECTORY=str(folder / "metrics"),
        SLUICE_PERSISTENCE__DIRECTORY=str(folder / "journal"),
    )
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=log, text=True) as made,
    ):
        try:
            assert made.stdout is not None
            found = LINK.fullmatch(made.stdout.readline())
            assert found is not None, (folder / "log").read_text()
            yield address, found[1]
        finally:
            os.kill(int((folder / "pid").read_text()), signal.SIGTERM)
            assert made.wait(60) == 0
            assert "Traceback" not in (folder / "log").read_text()


def test_the_slow_reader_is_on_the_page(browser: "Browser", tmp_path: Path) -> None:
    """`make run`; the page at the printed link shows the demo's slow reader, and why."""
    plan = Plan(seconds=60, qos0_rate=1500)
    with run(tmp_path) as (address, link), Opened(browser, link) as seen:
        well = Reader(address, "reads-well", plan)
        slow = Reader(address, "reads-slowly", plan, RECEIVE_BUFFER)
        writer = Writer(address, plan)
        for part in (well, slow, writer):
            part.start()
        headline = seen.page.locator("#headline")
        tile = seen.page.locator("#tile-sent")
        wait_until(lambda: tile.count() > 0 and tile.text_content() not in ("–", "0"), "the load")
        slow.slow = True
        wait_until(lambda: "reads-slowly is slow: send path congested" in (headline.text_content() or ""), "it", SOON)
        assert "a sign of a slow client or network" in (headline.text_content() or "")
        wait_until(lambda: "A larger session.max_inflight does not help" in _text(seen, "#advice"), "the advice")
        seen.page.get_by_role("link", name="reads-slowly").first.click()
        wait_until(lambda: seen.page.locator(".flow .path.holds").count() == 1, "the picture")
        assert seen.complaints == []
        slow.slow = False
        for part in (writer, well, slow):
            part.stop()


def _text(seen: Opened, selector: str) -> str:
    return seen.page.locator(selector).text_content() or ""


def test_the_link_is_not_in_the_log(tmp_path: Path) -> None:
    """Who may read the log cannot get in by it."""
    with run(tmp_path) as (_, link):
        pass
    log = (tmp_path / "log").read_text()
    assert "admin_listening" in log
    assert link.partition("code=")[2] not in log


def test_a_link_of_a_running_broker(start: Start, tmp_path: Path) -> None:
    """`sluice dashboard` opens a port of its own on loopback, once, and prints a new link each time."""
    broker = start(sections={"admin": {"socket": "a.sock"}})
    wait_for_api(broker, tmp_path / "a.sock")
    assert events(broker, "admin_listening") == []
    printed = [dashboard("--socket", str(tmp_path / "a.sock")) for _ in range(2)]
    links = [LINK.fullmatch(out) for _, out, _ in printed]
    assert links[0] is not None
    assert links[1] is not None
    assert (links[0][2], links[0][3] != links[1][3]) == (links[1][2], True)
    tcp = Address("127.0.0.1", int(links[0][2]))
    let_in = request(tcp, "/api/v1/login", "POST", {"code": links[1][3]}).json
    assert let_in["role"] == "operator"
    assert request(tcp, "/api/v1/sessions").status == 401
    assert request(tcp, "/api/v1/sessions", token=let_in["token"]).status == 200
    audited = [line for line in events(broker, "audit") if line["action"] == "link"]
    assert [line["result"] for line in audited] == [f"http://127.0.0.1:{tcp.port}/"] * 2


def test_links_are_revoked(start: Start, tmp_path: Path) -> None:
    """`sluice dashboard --revoke` says how many links counted, and no browser gets in by them."""
    broker = start(sections={"admin": {"socket": "a.sock"}})
    wait_for_api(broker, tmp_path / "a.sock")
    _, out, _ = dashboard("--socket", str(tmp_path / "a.sock"))
    link = LINK.fullmatch(out)
    assert link is not None
    assert dashboard("--revoke", "--socket", str(tmp_path / "a.sock")) == (0, "Revoked: 1\n", "")
    tcp = Address("127.0.0.1", int(link[2]))
    assert request(tcp, "/api/v1/login", "POST", {"code": link[3]}).status == 403


def test_no_broker(tmp_path: Path) -> None:
    """Without a broker it says so."""
    status, out, err = dashboard("--socket", str(tmp_path / "none.sock"))
    assert (status, out) == (1, "")
    assert "is the broker running" in err


def dashboard(*arguments: str) -> tuple[int, str, str]:
    """Run `sluice dashboard`, away from the loop that Playwright keeps running: status, output, errors."""
    found = []
    thread = threading.Thread(target=lambda: found.append(CliRunner().invoke(app, ["dashboard", *arguments])))
    thread.start()
    thread.join()
    (result,) = found
    return result.exit_code, result.stdout, result.stderr
