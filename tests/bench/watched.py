"""Sluice while Prometheus scrapes it, and while somebody looks at its dashboard as well."""

import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Final

from tests.bench.peers import Candidate
from tests.support.broker.admin import Unix, request
from tests.support.process import BrokerProcess

FIRST_SCRAPE: Final = 2.0
"""Seconds after the start: in each row there is one, however short it is."""
EACH: Final = 15.0
"""Seconds from one scrape to the next."""
SOCKET: Final = "a.sock"
SECTIONS: Final = {"admin": {"socket": SOCKET}}

Start = Callable[[Path, bool], BrokerProcess]


def scraped(candidate: Candidate) -> Candidate:
    """The same broker, which has an admin socket, with scrapes."""
    return _beside(candidate, "scraped", begin_scrapes)


def watched(candidate: Candidate) -> Candidate:
    """The same, with a dashboard that is open all the time."""

    def begin(path: Path) -> None:
        begin_scrapes(path)
        open_dashboard(path)

    return _beside(candidate, "watched", begin)


def _beside(candidate: Candidate, how: str, begin: Callable[[Path], None]) -> Candidate:
    """`begin` is called with the admin socket of each broker that has started."""

    def begun(start: Start | None, folder: Path, unlimited: bool) -> BrokerProcess:
        assert start is not None  # Sluice can be measured each way
        broker = start(folder, unlimited)
        begin(folder / SOCKET)
        return broker

    starts = (partial(begun, candidate.start), partial(begun, candidate.start_tls))
    return Candidate(candidate.name, f"{candidate.version}, {how}", *starts)


def begin_scrapes(path: Path) -> None:
    """Scrape, now and then again and again. The broker loads the application with the first one: do not measure it."""
    request(path, "/metrics")
    threading.Thread(target=_scrape, args=(path,), daemon=True).start()


def open_dashboard(path: Path) -> None:
    """Open the dashboard's stream."""
    connection = Unix(path)
    connection.request("GET", "/api/v1/stream")
    answer = connection.getresponse()
    answer.readline()
    threading.Thread(target=_look, args=(connection, answer), daemon=True).start()


def _look(connection: Unix, answer: HTTPResponse) -> None:
    """Read moments until the broker has gone."""
    with closing(connection), suppress(OSError, HTTPException):
        while answer.readline():
            pass


def _scrape(path: Path) -> None:
    """Ask for the metrics until the broker has gone."""
    pause = FIRST_SCRAPE
    with suppress(OSError, HTTPException):
        while True:
            time.sleep(pause)
            request(path, "/metrics")
            pause = EACH
