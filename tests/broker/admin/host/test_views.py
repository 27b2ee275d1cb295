"""What operators see of a host with several cells: lists as one, sums, metrics with the cell."""

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from broker.cluster.slots import home_of
from protocol.publish import Publish
from tests.broker.admin.host.conftest import CELLS, wait_for_retained
from tests.support.broker.admin import listed, request
from tests.support.broker.cells import at_home
from tests.support.process import BrokerProcess
from tests.support.wire import WireClient

pytestmark = pytest.mark.once

NAMES = [name for cell in CELLS for name in islice(at_home(cell, len(CELLS), "listed"), 3)]


@pytest.fixture(scope="module", autouse=True)
def clients(host: BrokerProcess) -> Any:
    """Three clients of each cell, each with one more subscription than the one before."""
    found = []
    for number, name in enumerate(NAMES):
        client = WireClient(host.address(), 5)
        client.connect(name)
        for each in range(number + 1):
            client.subscribe(f"own/{number}/{each}", qos=1)
        found.append(client)
    yield found
    for client in found:
        client.close()


def pages(path: Path, what: str, query: str, limit: int = 2) -> list[dict[str, Any]]:
    """The items of all pages, one after the other."""
    found: list[dict[str, Any]] = []
    after = ""
    while True:
        page = listed(path, what, f"{query}&limit={limit}{after}")
        assert len(page["items"]) <= limit
        assert (page["cells"], page["unanswered"]) == (len(CELLS), [])
        found += page["items"]
        if page["next"] is None:
            return found
        after = f"&after={page['next']}"


def test_lists_have_the_items_of_all_cells_in_order(path: Path) -> None:
    """Page by page, by name or by value; each row says its cell, which is the client's home."""
    by_name = pages(path, "clients", "client_id=listed")
    assert [row["client_id"] for row in by_name] == sorted(NAMES)
    assert [row["cell"] for row in by_name] == [home_of(row["client_id"], len(CELLS)) for row in by_name]
    by_value = pages(path, "clients", "client_id=listed&sort=subscriptions")
    assert [row["subscriptions"] for row in by_value] == list(range(len(NAMES), 0, -1))


@pytest.mark.parametrize("limit", [1, 2, 4])
def test_items_with_one_name_in_several_cells_are_all_shown(path: Path, limit: int) -> None:
    """Each cell has a link to each other one: `$cell/1` is in cells 2 and 3, also where a page ends between them."""
    found = [(row["client_id"], row["cell"]) for row in pages(path, "sessions", "sort=name&listener=$cell", limit)]
    assert found == [(f"$cell/{other}", cell) for other in CELLS for cell in CELLS if other != cell]


def test_totals_are_added_up(path: Path) -> None:
    """And so is what the filters match."""
    page = listed(path, "subscriptions", "limit=1")
    assert page["total"] == sum(range(1, len(NAMES) + 1))
    assert listed(path, "clients", "client_id=listed&limit=1")["matched"] == len(NAMES)


def test_a_retained_message_is_shown_once(host: BrokerProcess, path: Path) -> None:
    """Each cell has it: it is counted once, too, page by page."""
    with WireClient(host.address(), 5) as client:
        client.connect(next(at_home(2, len(CELLS), "retainer")))
        for number in range(5):
            client.publish(f"kept/{number}", b"x" * (number + 1), 1, retain=True)
        wait_for_retained(path, "kept/", 5)
    assert [row["topic"] for row in pages(path, "retained", "topic=kept/")] == [f"kept/{each}" for each in range(5)]
    assert [row["size_bytes"] for row in pages(path, "retained", "topic=kept/&sort=bytes")] == [5, 4, 3, 2, 1]
    assert listed(path, "retained", "topic=kept/&limit=1")["matched"] == 5


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("sort=colour", "sort"),
        ("after=nonsense", "after"),
        ("limit=many", "limit"),
        ("limit=0", "limit"),
        ("cell=4", "cell"),
        ("cell=one", "cell"),
    ],
)
def test_wrong_questions_are_refused_as_by_one_broker(path: Path, query: str, why: str) -> None:
    """With the key that is wrong."""
    answer = request(path, f"/api/v1/clients?{query}")
    assert (answer.status, answer.json["detail"].partition(":")[0]) == (422, why)


def test_one_cell_can_be_asked_alone(path: Path) -> None:
    """`cell` names it, in each question."""
    rows = listed(path, "clients", "client_id=listed&cell=2")["items"]
    assert {row["cell"] for row in rows} == {2}
    answer = request(path, "/api/v1/sessions/%24cell%2F1?cell=3")
    assert (answer.status, answer.json["cell"], answer.json["listener"]) == (200, 3, "$cell")


def test_a_session_is_asked_at_its_home(path: Path) -> None:
    """With what one broker says of it, and the cell; what is not there is missing there."""
    for name in NAMES:
        found = request(path, f"/api/v1/sessions/{name}").json
        assert (found["client_id"], found["cell"]) == (name, home_of(name, len(CELLS)))
    assert request(path, "/api/v1/sessions/nobody").status == 404


def test_the_overview_adds_up_and_has_a_row_for_each_cell(host: BrokerProcess, path: Path) -> None:
    """Links between cells are no clients."""
    found = request(path, "/api/v1/broker").json
    assert (found["broker"], found["ready"], found["unanswered"]) == ("test", True, [])
    assert found["clients_connected"] == found["sessions"] == found["connections"] == len(NAMES)
    assert [(row["cell"], row["ready"], row["why"], row["restarts"]) for row in found["cells"]] == [
        (cell, True, "", 0) for cell in CELLS
    ]
    assert sum(row["clients_connected"] for row in found["cells"]) == len(NAMES)


def test_what_all_cells_have_alike_is_shown_once(host: BrokerProcess, path: Path) -> None:
    """Listeners; and the configuration is that of the host, not of a cell."""
    (listener,) = request(path, "/api/v1/listeners").json
    assert listener["port"] == host.address().port
    settings = {each["key"]: each["value"] for each in request(path, "/api/v1/configuration").json}
    assert (settings["node_name"], settings["cluster.workers"]) == ("test", len(CELLS))
    assert settings["admin.listen"] == "127.0.0.1:0"


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text; version=1.0.0"])
def test_metrics_have_the_series_of_each_cell(path: Path, accept: str) -> None:
    """Each family once, each series with its cell; whether cells are up, and how often they were started again."""
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
    from prometheus_client.parser import text_string_to_metric_families as prometheus

    text = request(path, "/metrics", headers={"Accept": accept}).text
    families = list((openmetrics if accept else prometheus)(text))
    assert len({family.name for family in families}) == len(families)
    samples = [sample for family in families for sample in family.samples]
    connected = [each for each in samples if each.name == "sluice_sessions" and each.labels["listener"] == "tcp"]
    assert sum(each.value for each in connected) == len(NAMES)
    assert {each.labels["cell"] for each in connected} == {"1", "2", "3"}
    assert [each.value for each in samples if each.name == "sluice_cell_up"] == [1, 1, 1]
    assert [each.value for each in samples if each.name == "sluice_cell_restarts_total"] == [0, 0, 0]
    alone = {each.name for each in samples if "cell" not in each.labels}
    assert alone == {"sluice_admin_refused_total"}


def test_health_and_readiness_are_those_of_all_cells(path: Path) -> None:
    """Load balancers ask so, also by HEAD."""
    assert request(path, "/health").json == {"status": "ok", "reasons": []}
    assert request(path, "/ready").json == {"ready": True, "reasons": []}
    assert request(path, "/ready", "HEAD").status == 200


def test_the_api_is_described(path: Path) -> None:
    """As by one broker: programs and people read it."""
    document = json.loads(request(path, "/api/v1/openapi.json").text)
    assert "/api/v1/sessions/{client_id}" in document["paths"]
    assert "The API of Sluice" in request(path, "/api/v1/docs").text


def test_messages_cross_meanwhile(clients: list[WireClient]) -> None:
    """The clients that are listed are served by their cells."""
    clients[0].publish("own/8/0", b"over", 1)
    assert clients[8].expect(Publish).payload == b"over"
