"""The lists of the admin API: the rows of sessions, groups and addresses, and their order."""

from pathlib import Path
from typing import Any

import pytest

from protocol import properties as props
from protocol.acknowledgements import Puback
from protocol.publish import Publish
from tests.broker.conftest import Start
from tests.support.broker.admin import ask, listed
from tests.support.broker.collecting import collect
from tests.support.broker.events import wait_for_event
from tests.support.costs import held
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

pytestmark = pytest.mark.once


@pytest.fixture
def broker(start: Start, tmp_path: Path) -> BrokerProcess:
    """A broker with an admin socket, whose counters the metrics take away again and again."""
    metrics = {"directory": str(tmp_path / "metrics"), "interval": "100ms"}
    broker = start(sections={"admin": {"socket": str(tmp_path / "admin.sock")}, "metrics": metrics})
    wait_for_event(broker, "admin_socket")
    return broker


@pytest.fixture
def path(broker: BrokerProcess, tmp_path: Path) -> Path:
    """Its admin socket."""
    return tmp_path / "admin.sock"


def subscriber(broker: BrokerProcess, name: str, **more: int) -> WireClient:
    """A client that is subscribed to the topic of its name; `more` are properties of its CONNECT."""
    properties: Any = {getattr(props, key.upper()): value for key, value in more.items()}
    client = connected(broker.address(), 5, client_id=name, properties=properties)
    client.subscribe(name, qos=1)
    return client


def names(rows: list[dict[str, Any]]) -> list[str]:
    """Whom the rows are about, in their order."""
    return [row["client_id"] for row in rows]


def sums(path: Path, client_id: str) -> list[int]:
    """What one session has sent, had acknowledged and dropped."""
    (row,) = [row for row in ask(path) if row["client_id"] == client_id]
    return [row["sent"], row["acknowledged"], row["dropped"]]


def wait_for_another(folder: Path) -> None:
    """Wait until there is another export."""
    before = set(folder.rglob("*.arrow"))
    wait_until(lambda: not before.issuperset(folder.rglob("*.arrow")), "it is exported")


# -- sessions


def test_sessions(broker: BrokerProcess, path: Path) -> None:
    """Each session is a row: its client, its queues, and counts of its deliveries."""
    with (
        subscriber(broker, "slow", receive_maximum=2) as slow,
        connected(broker.address(), 4, client_id="sender") as sender,
    ):
        for _ in range(5):
            sender.publish("slow", b"x" * 10, 1)
        slow.receive_message()
        slow.expect(Publish)
        slow.expect(Publish)
        slow.expect_nothing_more()
        (row,) = [row for row in ask(path) if row["client_id"] == "slow"]
        assert (row["listener"], row["protocol_version"], row["connected"]) == ("tcp", 5, True)
        assert (row["window_len"], row["window_limit"], row["mqueue_len"], row["mqueue_bytes"]) == (2, 2, 2, 20)
        assert (row["sent"], row["acknowledged"], row["dropped"], row["mailbox_len"]) == (3, 1, 0, 0)
        assert row["window_full_us"] > 0


def test_sums_last(broker: BrokerProcess, path: Path, tmp_path: Path) -> None:
    """The counts of sent, acknowledged and dropped deliveries are those of the session's life, across exports."""
    with subscriber(broker, "a", receive_maximum=1, maximum_packet_size=60) as client:
        for round_number in range(1, 4):
            with connected(broker.address(), 4) as sender:
                sender.publish("a", b"x", 1)
                sender.publish("a", b"x" * 100, 1)
            assert len(collect(client)) == 1
            wait_for_another(tmp_path)
            wanted = [round_number] * 3
            wait_until(lambda: sums(path, "a") == wanted, "all rounds are in the sums")  # noqa: B023 - called at once


def test_sorted_by_each_key(broker: BrokerProcess, path: Path) -> None:
    """The row with the highest value comes first, for each key."""
    with (
        subscriber(broker, "first to fill its window", receive_maximum=1),
        connected(broker.address(), 5, client_id="sender") as sender,
        subscriber(broker, "most drops", receive_maximum=1, maximum_packet_size=100),
        subscriber(broker, "most messages", receive_maximum=1),
        subscriber(broker, "most bytes", receive_maximum=1),
    ):
        sender.publish("first to fill its window", b"x", 1)
        wait_until(lambda: ask(path, sort="window_full")[0]["window_full_us"] > 0, "its window is full")
        for _ in range(10):
            sender.publish("most messages", b"x", 1)
            sender.publish("most drops", b"x" * 200, 1)
        for _ in range(3):
            sender.publish("most bytes", b"x" * 100, 1)
        wait_until(lambda: names(ask(path, sort="mqueue"))[:2] == ["most messages", "most bytes"], "by mqueue")
        assert names(ask(path, sort="bytes"))[:2] == ["most bytes", "most messages"]
        assert names(ask(path, sort="drops"))[0] == "most drops"
        assert names(ask(path, sort="window_full"))[0] == "first to fill its window"
        assert [row["dropped"] for row in ask(path, sort="drops")] == [10, 0, 0, 0, 0]


def test_offline_sessions(broker: BrokerProcess, path: Path) -> None:
    """A session whose client is offline is listed with its queue; one that has ended is not."""
    with connected(broker.address(), 4, client_id="away", clean_start=False) as client:
        client.subscribe("t", qos=1)
    with connected(broker.address(), 4, client_id="ended"), connected(broker.address(), 4, client_id="x") as sender:
        sender.publish("t", b"x", 1)
    wait_until(lambda: names(ask(path)) == ["away"], "the others have gone")
    (row,) = ask(path)
    assert (row["connected"], row["mqueue_len"], row["window_len"]) == (False, 1, 0)


def test_limit(broker: BrokerProcess, path: Path) -> None:
    """The answer has as many rows as asked for, those with the highest values; `total` counts all sessions."""
    clients = [subscriber(broker, f"c{number}", receive_maximum=1) for number in range(6)]
    with connected(broker.address(), 5, client_id="sender") as sender:
        for number in range(6):
            for _ in range(number + 1):
                sender.publish(f"c{number}", b"x", 1)
        answer = listed(path, "sessions", "limit=3")
        assert (names(answer["items"]), answer["total"]) == (["c5", "c4", "c3"], 7)
        assert len(ask(path, limit=1)) == 1
        assert len(ask(path)) == 7
    for client in clients:
        client.close()


@pytest.mark.parametrize("name", ["x" * 1_000, "\x1b[2J\x07", '"],"\\', "a\u2028b\u202ec", "=1+1", "[red]\n\r"])
def test_hostile_client_id(broker: BrokerProcess, path: Path, name: str) -> None:
    """The answer is one line of JSON of bounded length, whatever a client id contains."""
    with connected(broker.address(), 5, client_id=name):
        found = names(ask(path))[0]
        assert found == name if len(name) <= 256 else (len(found), found[:255]) == (256, name[:255])


# -- groups


def test_groups(broker: BrokerProcess, path: Path) -> None:
    """FC-13: each group is a row: its members, the length of its queue, and counts of its deliveries."""
    with (
        connected(broker.address(), 5, properties={props.RECEIVE_MAXIMUM: 1}) as one,
        connected(broker.address(), 5, properties={props.RECEIVE_MAXIMUM: 1}) as two,
        connected(broker.address(), 5) as sender,
    ):
        one.subscribe("$share/busy/t", qos=1)
        two.subscribe("$share/busy/t", "$share/idle/u", qos=1)
        for _ in range(5):
            sender.publish("t", b"x" * 10, 1)
        busy, idle = ask(path, "groups")
        assert (busy["group"], idle["group"]) == ("$share/busy/t", "$share/idle/u")
        assert (busy["members"], idle["members"]) == (2, 1)
        assert [busy[key] for key in ("offered", "sent", "mqueue_len", "mqueue_bytes", "dropped")] == [5, 2, 3, 30, 0]
        first = one.expect(Publish)
        one.send(Puback(first.packet_id))
        one.expect(Publish)
        wait_until(lambda: ask(path, "groups", "bytes")[0]["mqueue_bytes"] == 20, "the other one is handed over")
    wait_until(lambda: ask(path, "groups", "drops") == [], "the groups are gone")


# -- addresses


def test_addresses(start: Start, tmp_path: Path) -> None:
    """FC-24: each address is a row: its size, what waits for room, and counts of what was refused."""
    path = tmp_path / "admin.sock"
    rules = [{"match": name, "max_size_bytes": 100, "full_policy": name} for name in ("block", "fail", "drop")]
    broker = start(sections={"admin": {"socket": str(path)}, "addresses": rules})
    wait_for_event(broker, "admin_socket")
    with connected(broker.address(), 5) as subscriber, connected(broker.address(), 5) as sender:
        subscriber.subscribe("block", "fail", "drop", "other", qos=1)
        for _ in range(2):
            for topic in ("block", "fail", "drop", "other"):
                sender.send(Publish(topic.encode(), b"x" * 60, 1, packet_id=sender.packet_id()))
        wait_until(lambda: len([row for row in ask(path, "addresses", "bytes") if in_use(row)]) == 3, "all are full")
        found = {row["address"]: row for row in ask(path, "addresses", "bytes")}
        for name, row in found.items():
            assert (row["full_policy"], row["size_bytes"], row["max_size_bytes"]) == (name, held(1, 60, name), 100)
        counts = ("waiting", "parked", "refused", "dropped")
        assert {name: [row[count] for count in counts] for name, row in found.items()} == {
            "block": [1, 1, 0, 0],
            "fail": [0, 0, 1, 0],
            "drop": [0, 0, 0, 1],
        }
        for sort, first in (("waiting", "block"), ("refused", "fail"), ("drops", "drop")):
            assert ask(path, "addresses", sort)[0]["address"] == first


# -- patience


@pytest.mark.parametrize(
    ("what", "name", "topic_filter"), [("sessions", "client_id", "t"), ("groups", "group", "$share/g/t")]
)
def test_patience(start: Start, tmp_path: Path, what: str, name: str, topic_filter: str) -> None:
    """FC-16: sorting by patience lists sessions and groups first for which publishers were held back longest."""
    path = tmp_path / "admin.sock"
    broker = start(sections={"admin": {"socket": str(path)}, "session": {"max_mqueue_len": 5}})
    wait_for_event(broker, "admin_socket")
    one_at_a_time: Any = {props.RECEIVE_MAXIMUM: 1}
    with (
        connected(broker.address(), 5, client_id="a") as quick,
        connected(broker.address(), 5, client_id="slow", properties=one_at_a_time) as slow,
        connected(broker.address(), 5, client_id="sender") as sender,
    ):
        quick.subscribe("$share/quick/u", "u", qos=1)
        slow.subscribe(topic_filter, qos=1)

        def overflow() -> bool:
            for _ in range(8):
                sender.publish("t", b"x", 1)
            slow.send(Puback(slow.expect(Publish).packet_id))
            first = ask(path, what, "patience")[0]
            return first["paced_for_us"] > 0 and first[name] in {"slow", topic_filter}

        wait_until(overflow, "its queue has held somebody back")


def in_use(row: dict[str, Any]) -> bool:
    """Whether an address has been full."""
    return bool(row["parked"] or row["refused"] or row["dropped"])
