"""What operators do to a host: at the home of a client, or in all cells, and what the audit log says."""

from pathlib import Path

import pytest
import yaml

from broker.cluster.slots import home_of
from protocol import reason_codes
from protocol.disconnect import Disconnect
from protocol.publish import Publish
from tests.broker.admin.api.conftest import OPERATOR, VIEWER
from tests.broker.admin.host.conftest import CELLS, wait_for_retained
from tests.support.broker.admin import listed, request
from tests.support.broker.cells import at_home
from tests.support.broker.events import events
from tests.support.process import Address, BrokerProcess
from tests.support.wire import WireClient

pytestmark = pytest.mark.once


@pytest.mark.parametrize("cell", CELLS)
def test_a_client_is_disconnected_at_its_home(host: BrokerProcess, path: Path, cell: int) -> None:
    """Wherever that is; the answer and the audit log name the cell."""
    client_id = next(at_home(cell, len(CELLS), "sent-away"))
    with WireClient(host.address(), 5) as client:
        client.connect(client_id)
        answer = request(path, f"/api/v1/clients/{client_id}", "DELETE")
        assert (answer.status, answer.json) == (200, {"result": "disconnected", "cell": cell})
        assert client.expect(Disconnect).reason_code == reason_codes.ADMINISTRATIVE_ACTION
    (line,) = [each for each in events(host, "audit") if each["target"] == client_id]
    assert (line["action"], line["cell"], line["peer"]) == ("disconnect", cell, "unix")
    assert request(path, f"/api/v1/sessions/?id={client_id}", "DELETE").status == 404


def test_the_audit_log_names_who_has_asked_the_host(host: BrokerProcess, tcp: Address) -> None:
    """A cell is asked by the keeper, on behalf of a token; viewers are refused by the keeper."""
    target = "/api/v1/sessions/nobody-there"
    assert request(tcp, target, "DELETE").status == 401
    assert request(tcp, target, "DELETE", token=VIEWER).status == 403
    assert request(tcp, target, "DELETE", token=OPERATOR).status == 404
    found = [each for each in events(host, "audit") if "nobody-there" in f"{each['action']} {each['target']}"]
    assert [(each["who"], each["peer"], each.get("cell")) for each in found] == [
        ("token grafana", "127.0.0.1", None),
        ("token ann", "127.0.0.1", home_of("nobody-there", len(CELLS))),
    ]


def test_retained_messages_are_cleared_in_all_cells(host: BrokerProcess, path: Path) -> None:
    """Each has all of them: they are counted once."""
    with WireClient(host.address(), 5) as client:
        client.connect("clearing")
        for number in range(3):
            client.publish(f"cleared/{number}", b"x", 1, retain=True)
        wait_for_retained(path, "cleared/", 3)
    assert request(path, "/api/v1/retained?topic_filter=cleared/%23", "DELETE").json == {"count": 3}
    for cell in CELLS:
        assert listed(path, "retained", f"topic=cleared/&cell={cell}")["matched"] == 0


def test_messages_are_published_once_and_in_order(host: BrokerProcess, path: Path) -> None:
    """To the subscribers of all cells."""
    subscribers = []
    for cell in CELLS:
        client = WireClient(host.address(), 5)
        client.connect(next(at_home(cell, len(CELLS), "listener")))
        client.subscribe("by/operator", qos=1)
        subscribers.append(client)
    for number in range(3):
        message = {"topic": "by/operator", "payload": str(number), "qos": 1}
        assert request(path, "/api/v1/publish", "POST", message).json == {"matched": True}
    for client in subscribers:
        assert [client.expect(Publish).payload for _ in range(3)] == [b"0", b"1", b"2"]
        client.expect_nothing_more()
        client.close()


@pytest.mark.parametrize("body", [{"topic": "a/+"}, {"payload": "x"}, b"nonsense"])
def test_wrong_messages_are_refused(path: Path, body: object) -> None:
    """By a cell, as by one broker."""
    assert request(path, "/api/v1/publish", "POST", body).status == 422


def test_what_no_cell_has_is_missing(path: Path) -> None:
    """Addresses and bridges are asked for in all cells."""
    assert request(path, "/api/v1/addresses/drain", "POST", {"address": "none"}).status == 404
    assert request(path, "/api/v1/bridges/none/reconnect", "POST").status == 404


def test_a_reload_goes_to_all_cells(host: BrokerProcess, path: Path, tcp: Address) -> None:
    """Tokens apply at the keeper, limits in each cell; a mistake changes nothing anywhere."""
    file = host.folder / "sluice.yaml"
    before = file.read_text()
    settings = yaml.safe_load(before)
    try:
        settings["session"] = {"max_inflight": 7}
        settings["admin"]["tokens"] = settings["admin"]["tokens"][:1]
        file.write_text(yaml.safe_dump(settings))
        answer = request(path, "/api/v1/reload", "POST")
        assert answer.status == 200, answer.text
        assert answer.json["changed"] == ["session.max_inflight"]
        assert answer.json["restart"] == {}
        assert request(tcp, "/api/v1/broker", token=OPERATOR).status == 401
        shown = {each["key"]: each["value"] for each in request(path, "/api/v1/configuration").json}
        assert shown["session.max_inflight"] == 7
        reloaded = [each for each in events(host, "reloaded") if each["changed"] == ["session.max_inflight"]]
        assert sorted(each["cell"] for each in reloaded) == list(CELLS)
        settings["listeners"].append({"name": "another", "bind": "127.0.0.1:0"})
        settings["session"] = {"max_inflight": 8}
        file.write_text(yaml.safe_dump(settings))
        answer = request(path, "/api/v1/reload", "POST")
        assert (answer.status, "by a restart only" in answer.json["detail"]) == (422, True)
        shown = {each["key"]: each["value"] for each in request(path, "/api/v1/configuration").json}
        assert shown["session.max_inflight"] == 7
        file.write_text(before + "\nnonsense: 1\n")
        answer = request(path, "/api/v1/reload", "POST")
        assert (answer.status, "nonsense" in answer.json["detail"]) == (422, True)
        assert len(events(host, "reload_failed")) == 0
    finally:
        file.write_text(before)
        assert request(path, "/api/v1/reload", "POST").status == 200
    assert request(tcp, "/api/v1/broker", token=OPERATOR).status == 200
