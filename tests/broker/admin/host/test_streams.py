"""Traces and the dashboard's moments of a host: what comes from all cells is one stream."""

import http.client
import json
from contextlib import closing
from pathlib import Path
from typing import Any

from broker.cluster.slots import home_of
from tests.broker.admin.api.test_tracing import Watcher
from tests.broker.admin.host.conftest import CELLS
from tests.support.broker.admin import Unix, request
from tests.support.broker.cells import at_home
from tests.support.process import BrokerProcess
from tests.support.wire import WireClient


def first(path: Path, target: str, count: int = 2) -> list[dict[str, Any]]:
    """The first events of a stream."""
    found: list[dict[str, Any]] = []
    with closing(Unix(path)) as connection:
        connection.request("GET", target)
        answer = connection.getresponse()
        assert answer.status == http.client.OK
        while len(found) < count:
            line = answer.readline()
            if line.startswith(b"data: "):
                found.append(json.loads(line[6:]))
    return found


def test_a_trace_of_a_topic_tells_of_all_cells(host: BrokerProcess, path: Path) -> None:
    """Each line says its cell: the message comes in at one, and goes out at another."""
    subscriber, publisher = (next(at_home(cell, len(CELLS), "traced")) for cell in (3, 1))
    with WireClient(host.address(), 5) as one, WireClient(host.address(), 5) as other:
        one.connect(subscriber)
        one.subscribe("traced/#")
        other.connect(publisher)
        watcher = Watcher(path, topic_filter="traced/#", limit=20)
        other.publish("traced/a", b"x", 0)
        (received,) = [each for each in watcher.told("received", packet="PUBLISH") if each["client_id"] == publisher]
        (sent,) = [each for each in watcher.told("sent", packet="PUBLISH") if each["client_id"] == subscriber]
        assert (received["cell"], sent["cell"]) == (1, 3)
        assert {each["cell"] for each in watcher.told("began")} == set(CELLS)
        again = request(path, "/api/v1/trace?topic_filter=a")
        assert (again.status, "another trace runs" in again.json["detail"]) == (503, True)
        for _ in range(20):
            other.publish("traced/a", b"x", 0)
        watcher.told("ended", "the limit of lines is reached")
    watcher.end()
    numbered = [each for each in watcher.lines if each["event"] not in {"began", "ended"}]
    assert len(numbered) == 20


def test_a_trace_of_a_client_is_that_of_its_home(host: BrokerProcess, path: Path) -> None:
    """And its limit of lines is that of the whole."""
    client_id = next(at_home(2, len(CELLS), "traced-alone"))
    watcher = Watcher(path, client_id=client_id, limit=4)
    with WireClient(host.address(), 5) as client:
        client.connect(client_id)
        for _ in range(10):
            client.publish("traced/b", b"x", 1)
    watcher.told("ended", "the limit of lines is reached")
    watcher.end()
    assert {each["cell"] for each in watcher.lines if each["cell"] is not None} == {2}


def test_the_moments_of_all_cells_are_one(host: BrokerProcess, path: Path) -> None:
    """Sums, rows with their cells, and a row for each cell."""
    names = [next(at_home(cell, len(CELLS), "moment")) for cell in CELLS]
    clients = []
    for name in names:
        client = WireClient(host.address(), 5)
        client.connect(name)
        clients.append(client)
    moment = first(path, "/api/v1/stream")[-1]
    assert (moment["broker"], moment["connected"], moment["not_ready_because"]) == ("test", len(names), [])
    assert [(row["cell"], row["why"], row["connected"]) for row in moment["cells"]] == [(cell, "", 1) for cell in CELLS]
    assert moment["findings"][0]["kind"] == "well"
    for client in clients:
        client.close()


def test_the_stream_of_a_session_comes_from_its_home(host: BrokerProcess, path: Path) -> None:
    """With the name of the host; that of a client that is not there is refused."""
    name = next(at_home(3, len(CELLS), "looked-at"))
    assert home_of(name, len(CELLS)) == 3
    with WireClient(host.address(), 5) as client:
        client.connect(name)
        client.subscribe("looked/at")
        moment = first(path, f"/api/v1/stream?client_id={name}")[-1]
        assert (moment["broker"], moment["session"]["client_id"]) == ("test", name)
        assert [row["topic_filter"] for row in moment["subscriptions"]] == ["looked/at"]
    assert request(path, "/api/v1/stream?client_id=nobody").status == 404
