"""A cell of a host that does not answer, or has ended: it is named, and the other cells are shown."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.broker.admin.api.conftest import admin_section
from tests.broker.admin.api.test_tracing import Watcher
from tests.broker.admin.host.test_streams import first
from tests.support.broker.admin import listed, request
from tests.support.broker.cells import at_home, kill_cell, processes, start_cells
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient

pytestmark = pytest.mark.once

HANGS = "cell 2 gives no sign of life: it is killed 15 s after its last one"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Two cells."""
    folder = tmp_path_factory.mktemp("stalled")
    with start_cells(folder, 2, {"admin": admin_section(folder)}) as running:
        yield running


@contextmanager
def stalled(host: BrokerProcess) -> Iterator[None]:
    """The second cell does nothing meanwhile."""
    victim = processes(host)[1]
    os.kill(victim, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(victim, signal.SIGCONT)


def test_a_stalled_cell_is_named_everywhere(host: BrokerProcess, path: Path) -> None:
    """Within seconds, in lists, sums, metrics, health and readiness, and in the refusal of what concerns it."""
    names = [next(at_home(cell, name="there")) for cell in (1, 2)]
    with WireClient(host.address(), 5) as one, WireClient(host.address(), 5) as other:
        one.connect(names[0])
        other.connect(names[1])
        watcher = Watcher(path, topic_filter="#", seconds=10)
        with stalled(host):
            page = listed(path, "clients")
            assert ([row["client_id"] for row in page["items"]], page["unanswered"]) == ([names[0]], [HANGS])
            found = request(path, "/api/v1/broker").json
            assert (found["ready"], found["not_ready_because"], found["unanswered"]) == (False, [HANGS], [HANGS])
            assert (found["clients_connected"], found["cells"][1]["why"]) == (1, HANGS.removeprefix("cell 2 "))
            for target in ("/health", "/ready"):
                answer = request(path, target)
                assert (answer.status, answer.json["reasons"]) == (503, [HANGS])
            assert 'sluice_cell_up{cell="2"} 0.0' in request(path, "/metrics").text
            answer = request(path, f"/api/v1/clients/{names[1]}", "DELETE")
            assert (answer.status, answer.json["detail"]) == (503, HANGS)
            answer = request(path, "/api/v1/reload", "POST")
            assert (answer.status, answer.json["detail"]) == (502, f"{HANGS}; done by cell 1")
            assert answer.json["done"]["changed"] == []
            moment = first(path, "/api/v1/stream", 1)[-1]
            assert (moment["findings"][0]["kind"], moment["findings"][0]["text"]) == ("cell", f"C{HANGS[1:]}")
            assert "well" not in [each["kind"] for each in moment["findings"]]
            assert watcher.told("ended")[0]["text"] == HANGS
        watcher.end()
        wait_until(lambda: request(path, "/ready").status == 200, "the cell goes on")


def test_restarts_of_a_cell_are_counted(host: BrokerProcess, path: Path) -> None:
    """In the overview and in /metrics; that a cell starts again is no failure of the host's health."""
    before = request(path, "/api/v1/broker").json["cells"][0]
    kill_cell(host, 0)
    assert request(path, "/health").status == 200
    wait_until(lambda: request(path, "/ready").status == 200, "the cell serves again")
    after = request(path, "/api/v1/broker").json["cells"][0]
    assert (after["restarts"], after["pid"] == before["pid"]) == (before["restarts"] + 1, False)
    assert f'sluice_cell_restarts_total{{cell="1"}} {after["restarts"]:.1f}' in request(path, "/metrics").text
