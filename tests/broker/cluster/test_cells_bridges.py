"""Bridges of brokers with several workers: one cell opens each, and the clients of all cells get what it brings."""

import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from broker.cluster.slots import home_of
from broker.routing.via import NAME
from protocol import properties as props
from protocol.properties import Properties
from protocol.publish import Publish
from tests.broker.admin.api.conftest import admin_section
from tests.support.broker.admin import listed, request
from tests.support.broker.bridged import SOON, Remote, Ring, bridge, ring
from tests.support.broker.cells import at_home, client_of, events, kill_cell, start_cells
from tests.support.broker.restarting import payloads
from tests.support.brokers import find_mosquitto, start_mosquitto
from tests.support.process import Address, BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import connected

BOTH: dict[str, Any] = {"filter": "b/#", "direction": "both"}
CELLS = (1, 2)
BROKER_ID: Properties = {props.USER_PROPERTY: [(NAME, "0badcafe")]}


def named(cell: int, number: int = 0) -> str:
    """The name of a bridge whose home is this cell."""
    names = itertools.islice(at_home(cell, name="$bridge/b"), number + 1)
    return list(names)[number].removeprefix("$bridge/")


def to(address: Address, cell: int, **keys: Any) -> dict[str, Any]:
    """A bridge to there, whose home is this cell."""
    return {"name": named(cell), "address": f"{address.host}:{address.port}", "topics": [dict(BOTH)]} | SOON | keys


def wait_connected(broker: BrokerProcess, count: int = 1) -> None:
    """Wait until so many bridges are connected."""
    wait_until(lambda: len(events(broker, "bridge_connected")) >= count, "connected bridges")


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Ring]:
    """A remote broker with one worker, `r`."""
    with ring(tmp_path, "r") as made:
        yield made


def exchange(broker: BrokerProcess, remote: BrokerProcess) -> None:
    """What clients of both cells and of the remote broker publish comes to all of them once."""
    with ExitStack() as stack:
        subscribers, publishers = (
            [stack.enter_context(each) for each in (*(client_of(broker, cell, name) for cell in CELLS), there)]
            for name, there in (("sub", connected(remote.address(), 5)), ("pub", connected(remote.address(), 5)))
        )
        for client in subscribers:
            client.subscribe("b/#", qos=2)
        sent = []
        for number, (client, qos) in enumerate(itertools.product(publishers, (0, 1, 2))):
            sent.append(b"%d" % number)
            client.publish("b/t", sent[-1], qos)
        for client in subscribers:
            assert sorted(payloads(client, len(sent))) == sorted(sent)


@pytest.mark.parametrize("cell", CELLS)
def test_messages_go_over_from_and_to_all_cells(brokers: Ring, tmp_path: Path, cell: int) -> None:
    """Whichever cell opens the bridge. The remote broker sees one connection, with the name of the host."""
    remote = brokers.start("r")
    with start_cells(tmp_path, sections={"bridges": [to(remote.address(), cell)]}) as broker:
        wait_connected(broker)
        exchange(broker, remote)
        came = [each["client_id"] for each in events(remote, "connected") if named(cell) in each["client_id"]]
        assert came == [f"test-{named(cell)}"]


@pytest.mark.skipif(find_mosquitto() is None, reason="Mosquitto is not installed")
def test_with_mosquitto(tmp_path: Path) -> None:
    """The remote broker may be another product."""
    folder = tmp_path / "mosquitto"
    folder.mkdir()
    with (
        start_mosquitto(folder) as mosquitto,
        start_cells(tmp_path, sections={"bridges": [to(mosquitto.address(), 2)]}) as broker,
    ):
        wait_connected(broker)
        exchange(broker, mosquitto)


def test_bridges_of_two_cells_form_no_loop(brokers: Ring, tmp_path: Path) -> None:
    """All cells are one broker for others: what comes back by the bridge of another cell has been here before."""
    remote = brokers.start("r")
    bridges = [to(remote.address(), cell) for cell in CELLS]
    with start_cells(tmp_path, sections={"bridges": bridges}) as broker:
        wait_connected(broker, 2)
        with ExitStack() as stack:
            here, pub_here = (stack.enter_context(client_of(broker, 1, name)) for name in ("sub", "pub"))
            there, pub_there = (stack.enter_context(connected(remote.address(), 5)) for _ in range(2))
            for client in (here, there):
                client.subscribe("b/#", qos=1)
            for payload in (b"first", b"last"):
                for publisher in (pub_here, pub_there):
                    publisher.publish("b/t", payload, 1)
                    near, far = (here, there) if publisher is pub_here else (there, here)
                    assert payloads(near, 1) == [payload]
                    assert payloads(far, 2) == [payload, payload]  # two ways, and none back


@pytest.mark.parametrize("properties", [{}, BROKER_ID], ids=["unknown", "known"])
def test_a_slow_client_of_another_cell_paces_a_bridge(tmp_path: Path, properties: Properties) -> None:
    """CL-5, FC-16: its queue has room for 50, and it loses none of 500, whether the remote broker says who it is."""
    with Remote() as remote:
        sections = {"session": {"max_mqueue_len": 50}} | bridge(remote, BOTH, name=named(2))
        with start_cells(tmp_path, sections=sections) as broker, client_of(broker, 1, "slow") as slow:
            slow.subscribe("b/#", qos=1)
            there = remote.accepted(properties=properties, filters=1)
            wait_connected(broker)
            sent = [b"%d" % number for number in range(500)]
            there.send(*[Publish(b"b/t", payload, 1, packet_id=number) for number, payload in enumerate(sent, 1)])
            assert [slow.receive_message().payload for _ in sent] == sent


def test_operators_find_the_cell_of_a_bridge(brokers: Ring, tmp_path: Path) -> None:
    """The list has each bridge once, with its cell; to reconnect one needs only its name."""
    remote = brokers.start("r")
    sections = {"bridges": [to(remote.address(), cell) for cell in CELLS], "admin": admin_section(tmp_path)}
    with start_cells(tmp_path, sections=sections) as broker:
        wait_connected(broker, 2)
        path = tmp_path / "a.sock"
        rows = listed(path, "bridges")["items"]
        assert {(each["bridge"], each["cell"], each["state"]) for each in rows} == {
            (named(cell), home_of(f"$bridge/{named(cell)}", 2), "connected") for cell in CELLS
        }
        assert request(path, f"/api/v1/bridges/{named(2)}/reconnect", "POST").status == 200
        wait_connected(broker, 3)


def test_a_bridge_without_its_cell_connects_again(brokers: Ring, tmp_path: Path) -> None:
    """What is published while its cell starts again is not lost with a journal."""
    remote = brokers.start("r")
    sections = {"bridges": [to(remote.address(), 2)], "persistence": {"directory": str(tmp_path / "journal")}}
    with start_cells(tmp_path, sections=sections) as broker:
        wait_connected(broker)
        with connected(remote.address(), 5) as there, client_of(broker, 1, "here") as here:
            there.subscribe("b/#", qos=2)
            here.publish("b/t", b"before", 2)
            kill_cell(broker, 1)
            here.publish("b/t", b"after", 2)
            assert payloads(there, 2) == [b"before", b"after"]
