"""Sluice while operators look at it: an open dashboard, and Prometheus."""

import threading
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


def watched(candidate: Candidate) -> Candidate:
    """The same broker, which has an admin socket, with a dashboard that is open all the time, and scrapes."""

    def begun(start: Start | None, folder: Path, unlimited: bool) -> BrokerProcess:
        assert start is not None  # Sluice can be measured both ways
        broker = start(folder, unlimited)
        connection = Unix(folder / SOCKET)
        connection.request("GET", "/api/v1/stream")
        answer = connection.getresponse()
        answer.readline()  # by now the application has been loaded, once: that is not measured
        gone = threading.Event()
        threading.Thread(target=_look, args=(connection, answer, gone), daemon=True).start()
        threading.Thread(target=_scrape, args=(folder / SOCKET, gone), daemon=True).start()
        return broker

    starts = (partial(begun, candidate.start), partial(begun, candidate.start_tls))
    return Candidate(candidate.name, f"{candidate.version}, watched", *starts)


def _look(connection: Unix, answer: HTTPResponse, gone: threading.Event) -> None:
    """Read moments until the broker has gone."""
    with closing(connection), suppress(OSError, HTTPException):
        while answer.readline():
            pass
    gone.set()


def _scrape(path: Path, gone: threading.Event) -> None:
    """Ask for the metrics until the broker has gone."""
    pause = FIRST_SCRAPE
    while not gone.wait(pause):
        with suppress(OSError, HTTPException):
            request(path, "/metrics")
        pause = EACH
