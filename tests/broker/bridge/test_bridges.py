"""Bridges between brokers: what goes through is nothing lost, nothing twice at QoS 2, and no loop."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from protocol.publish import Publish
from tests.support.broker.bridged import Remote, Ring
from tests.support.broker.restarting import KEPT, payloads
from tests.support.brokers import find_mosquitto, start_mosquitto
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

BOTH: dict[str, Any] = {"filter": "#", "direction": "both"}
VERSIONS = ("5", "3.1.1")


def wait_connected(broker: BrokerProcess, times: int = 1) -> None:
    """Wait until bridges of a broker have connected so many times."""
    broker.wait_for_output(
        lambda lines: sum('"bridge_connected"' in line for line in lines) >= times, "a connected bridge"
    )


def subscriber(broker: BrokerProcess, topic_filter: str = "#", version: int = 5) -> WireClient:
    """A client that gets what is published at QoS 2, RETAIN as published."""
    client = connected(broker.address(), version)
    client.subscribe(topic_filter, qos=2)
    return client


def publish(broker: BrokerProcess, topic: str, count: int, qos: int) -> list[bytes]:
    """Publish so many messages; returns their payloads."""
    sent = [b"%d" % number for number in range(count)]
    with connected(broker.address(), 5) as client:
        for payload in sent:
            client.publish(topic, payload, qos)
    return sent


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_two_brokers_share_their_topics(brokers: Ring, version: str, qos: int) -> None:
    """Each message of either broker comes to the other one once, and never back."""
    b = brokers.start("b")
    a = brokers.start("a", {"name": "b", "address": brokers.at("b"), "topics": [BOTH], "proto_ver": version})
    wait_connected(a)
    with subscriber(a) as here, subscriber(b) as there:
        sent = publish(a, "from/a", 50, qos) + publish(b, "from/b", 50, qos)
        for client in (here, there):
            assert sorted(payloads(client, 100)) == sorted(sent)


def test_retained_messages_go_over(brokers: Ring) -> None:
    """What was retained before the bridge is at the other broker, retained there too; so is its removal."""
    b = brokers.start("b")
    with connected(b.address(), 5) as client:
        client.publish("there", b"kept", 1, retain=True)
    a = brokers.start("a", {"name": "b", "address": brokers.at("b"), "topics": [BOTH]})
    wait_connected(a)
    with connected(a.address(), 5) as client:
        client.publish("here", b"kept", 1, retain=True)

    def retained(broker: BrokerProcess, topic: str) -> list[bytes]:
        with connected(broker.address(), 5) as client:
            client.subscribe(topic, "end")
            client.publish("end", b"end", 0)
            found = []
            while (message := client.expect(Publish)).payload != b"end":
                found.append(message.payload)
            return found

    wait_until(lambda: retained(a, "there") == [b"kept"], "the retained message of b")
    wait_until(lambda: retained(b, "here") == [b"kept"], "the retained message of a")
    with connected(a.address(), 5) as client:
        client.publish("there", b"", 1, retain=True)
    wait_until(lambda: retained(b, "there") == [], "the removal")


@pytest.mark.parametrize("direction", ["out", "both"])
def test_a_ring_of_three_has_no_loop(brokers: Ring, direction: str) -> None:
    """Each broker gets each message, the one where it was published once, and then all is quiet."""
    topics = [{"filter": "#", "direction": direction}]
    for name, neighbour in (("a", "b"), ("b", "c"), ("c", "a")):
        brokers.start(name, {"name": "next", "address": brokers.at(neighbour), "topics": topics})
    for name in "abc":
        wait_connected(brokers.broker(name))
    clients = {name: subscriber(brokers.broker(name)) for name in "abc"}
    with clients["a"], clients["b"], clients["c"]:
        publish(brokers.broker("a"), "x", 1, 1)
        assert payloads(clients["a"], 1) == [b"0"]
        copies = 1 if direction == "out" else 2  # both ways round
        for name in "bc":
            assert payloads(clients[name], copies) == [b"0"] * copies
        for client in clients.values():
            client.expect_nothing_more()


@pytest.mark.parametrize("victim", ["a", "b"])
@pytest.mark.parametrize("qos", [1, 2])
def test_nothing_acknowledged_is_lost_when_either_end_is_killed(brokers: Ring, victim: str, qos: int) -> None:
    """FC-27: kill -9 in the middle loses nothing, keeps the order, and at QoS 2 nothing comes twice."""
    bridge = {"name": "b", "address": brokers.at("b"), "topics": [{"filter": "#", "direction": "out"}]}

    def start(name: str) -> BrokerProcess:
        return brokers.start(name, *([bridge] if name == "a" else []), journal=True)

    start("b")
    start("a")
    with connected(brokers.address("b"), 5, client_id="sub", clean_start=False, properties=KEPT) as client:
        client.subscribe("#", qos=2)
    sent: list[bytes] = []
    for part in range(4):
        with connected(brokers.address("a"), 5) as client:
            for number in range(50):
                payload = b"%d" % (part * 50 + number)
                client.publish("x", payload, qos)
                sent.append(payload)
        if part < 3:
            brokers.kill(victim)
            start(victim)
    with connected(brokers.address("b"), 5, client_id="sub", clean_start=False, properties=KEPT) as client:
        if qos == 2:
            assert payloads(client, len(sent)) == sent
            return
        came: list[bytes] = []
        while sent[-1] not in came:
            came.append(client.receive_message().payload)
    assert list(dict.fromkeys(came)) == sent


def test_a_session_of_a_bridge_outlives_the_broker(brokers: Ring) -> None:
    """What waits for a remote broker that is away is still there after a restart of this one."""
    bridge = {"name": "b", "address": brokers.at("b"), "topics": [{"filter": "#"}]}
    a = brokers.start("a", bridge, journal=True)
    sent = publish(a, "x", 20, 1)
    brokers.kill("a")
    b = brokers.start("b")
    with subscriber(b) as client:
        brokers.start("a", bridge, journal=True)
        assert payloads(client, 20) == sent


def test_packet_ids_of_a_lost_session_are_not_used_first(brokers: Ring, remote: Remote) -> None:
    """Without a journal the remote broker may still hold ids of QoS 2, and would take new messages for old ones."""
    ids = set()
    for _ in range(3):
        a = brokers.start("a", {"name": "up", "address": remote.address, "topics": [{"filter": "x"}]})
        connection = remote.accepted(session_present=True)
        publish(a, "x", 1, 2)
        ids.add(connection.expect(Publish).packet_id)
        brokers.kill("a")
    assert len(ids) > 1


def test_a_bridge_that_is_configured_no_more_is_told(brokers: Ring) -> None:
    """Its session ends with what waited, and the log says how much that was."""
    bridge = {"name": "b", "address": brokers.at("b"), "topics": [{"filter": "#"}]}
    a = brokers.start("a", bridge, journal=True)
    publish(a, "x", 20, 1)
    brokers.stop("a")
    a = brokers.start("a", journal=True)
    a.wait_for_output(lambda lines: any("bridge_removed" in line for line in lines), "bridge_removed")
    assert '"dropped": 20' in next(line for line in a.stderr.splitlines() if "bridge_removed" in line)


def test_reload_changes_only_what_has_changed(brokers: Ring) -> None:
    """A reload adds, changes and removes bridges; one that stays is not disconnected, and what waits is kept."""
    b, c = brokers.start("b"), brokers.start("c")
    to_b = {"name": "b", "address": brokers.at("b"), "topics": [{"filter": "b/#"}]}
    to_c = {"name": "c", "address": brokers.at("c"), "topics": [{"filter": "c/#"}]}
    a = brokers.start("a", to_b)
    wait_connected(a)
    with subscriber(b) as at_b, subscriber(c) as at_c:
        brokers.reload("a", to_b, to_c)
        wait_connected(a, 2)
        publish(a, "b/1", 1, 1)
        publish(a, "c/1", 1, 1)
        assert at_b.receive_message().topic == b"b/1"
        assert at_c.receive_message().topic == b"c/1"
        brokers.reload("a", to_b, to_c | {"topics": [{"filter": "d/#", "remote_prefix": "new/"}]})
        wait_connected(a, 3)
        publish(a, "c/1", 1, 1)
        publish(a, "d/1", 1, 1)
        assert at_c.receive_message().topic == b"new/d/1"
        brokers.reload("a", to_c | {"topics": [{"filter": "d/#", "remote_prefix": "new/"}]})
        a.wait_for_output(lambda lines: any("bridge_removed" in line for line in lines), "bridge_removed")
        publish(a, "d/2", 1, 1)
        assert at_c.receive_message().topic == b"new/d/2"
    assert sum('"disconnected"' in line and "$bridge/" in line for line in a.stderr.splitlines()) == 2


def test_topics_that_come_in_no_longer_are_unsubscribed(brokers: Ring) -> None:
    """A reload ends the subscription at the remote broker, which keeps the session."""
    b = brokers.start("b", log={"level": "debug", "format": "json"})
    two = {"name": "b", "address": brokers.at("b"), "topics": [{"filter": f, "direction": "in"} for f in ("x", "y")]}
    a = brokers.start("a", two)
    wait_connected(a)
    brokers.reload("a", two | {"topics": [{"filter": "x", "direction": "in"}]})
    b.wait_for_output(lambda lines: any('"unsubscribed"' in line and '"y"' in line for line in lines), "UNSUBSCRIBE")


def test_the_rights_of_a_bridge_are_its_users(brokers: Ring) -> None:
    """A bridge gets only what its user may read, and what comes in by it needs the user's rights too."""
    b = brokers.start("b")
    authorization = {
        "default": "deny",
        "rules": [
            {"permit": "allow", "action": "subscribe", "topics": ["open/#"], "users": ["bridge"]},
            {"permit": "allow", "action": "publish", "topics": ["in/#"], "users": ["bridge"]},
            {"permit": "allow", "action": "all", "topics": ["#"], "listeners": ["tcp"]},
        ],
    }
    bridge = {"name": "b", "address": brokers.at("b"), "topics": [BOTH], "user": "bridge"}
    a = brokers.start("a", bridge, authorization=authorization)
    wait_connected(a)
    with subscriber(a) as here, subscriber(b) as there:
        publish(a, "secret/1", 1, 1)
        publish(a, "open/1", 1, 1)
        assert there.receive_message().topic == b"open/1"
        assert [here.receive_message().topic for _ in range(2)] == [b"secret/1", b"open/1"]
        publish(b, "forbidden/1", 1, 1)
        publish(b, "in/1", 1, 1)
        assert here.receive_message().topic == b"in/1"


def test_rules_that_permit_more_count_after_a_reload(brokers: Ring) -> None:
    """A bridge whose user may read nothing at its start gets what rules permit later, and stays connected."""
    b = brokers.start("b")
    rules = [{"permit": "allow", "action": "all", "topics": ["#"], "listeners": ["tcp"]}]
    own = {"name": "b", "address": brokers.at("b"), "topics": [{"filter": "x"}], "user": "bridge"}
    a = brokers.start("a", own, authorization={"default": "deny", "rules": rules})
    wait_connected(a)
    permitted = {"permit": "allow", "action": "subscribe", "topics": ["x"], "users": ["bridge"]}
    brokers.reload("a", own, authorization={"default": "deny", "rules": [permitted, *rules]})
    with subscriber(b) as there:
        publish(a, "x", 1, 1)
        assert payloads(there, 1) == [b"0"]
    assert sum('"bridge_connected"' in line for line in a.stderr.splitlines()) == 1


def test_what_waits_is_sent_by_the_rules_of_now(brokers: Ring, remote: Remote) -> None:
    """What waited when rules were changed does not go out against them, also if the bridge has changed too."""
    own: dict[str, Any] = {"name": "up", "address": remote.address, "topics": [{"filter": "#"}], "user": "bridge"}
    own["session"] = {"max_inflight": 1}
    rules = [{"permit": "allow", "action": "all", "topics": ["#"]}]
    a = brokers.start("a", own, authorization={"default": "deny", "rules": rules})
    connection = remote.accepted()
    for topic in ("sent", "secret", "open"):
        publish(a, topic, 1, 1)
    connection.expect(Publish)
    denied = {"permit": "deny", "action": "subscribe", "topics": ["secret"], "users": ["bridge"]}
    brokers.reload("a", own | {"keepalive": "30s"}, authorization={"default": "deny", "rules": [denied, *rules]})
    taken = remote.accepted(session_present=True).take(2)
    assert [message.topic for message in taken] == [b"sent", b"open"]


def test_what_waits_is_sent_by_the_topics_of_now(brokers: Ring) -> None:
    """What does not go over the bridge any more does not go out either, also if the rules have changed since."""
    own: dict[str, Any] = {"name": "b", "address": brokers.at("b"), "topics": [{"filter": "#", "remote_prefix": "p/"}]}
    allow = {"permit": "allow", "action": "all", "topics": ["#"]}
    a = brokers.start("a", own, authorization={"default": "deny", "rules": [allow]})
    for topic in ("x", "y"):
        publish(a, topic, 1, 1)
    fewer = own | {"topics": [{"filter": "y", "remote_prefix": "p/"}]}
    brokers.reload("a", fewer)
    other = {"permit": "deny", "action": "subscribe", "topics": ["z"]}
    brokers.reload("a", fewer, authorization={"default": "deny", "rules": [other, allow]})
    b = brokers.start("b")
    with subscriber(b) as there:
        wait_connected(a)
        assert there.receive_message().topic == b"p/y"


def test_a_lazy_bridge_connects_when_enough_waits(brokers: Ring) -> None:
    """It connects with `lazy_threshold` messages, sends all, and disconnects when nothing more comes."""
    b = brokers.start("b")
    own = {"topics": [{"filter": "#"}], "start": "lazy", "lazy_threshold": 3, "lazy_idle": "1s"}
    a = brokers.start("a", {"name": "b", "address": brokers.at("b"), **own})
    with subscriber(b) as client:
        publish(a, "x", 2, 1)
        client.expect_nothing_more()
        assert '"bridge_connected"' not in a.stderr
        publish(a, "x", 1, 1)
        assert len(payloads(client, 3)) == 3
        a.wait_for_output(lambda lines: any("nothing to send" in line for line in lines), "a bridge at rest")
        publish(a, "x", 3, 1)
        assert len(payloads(client, 3)) == 3


def test_a_bridge_that_starts_once_does_not_come_back(brokers: Ring) -> None:
    """`start: once` connects, and stays away when that connection has ended."""
    brokers.start("b")
    once = {"name": "b", "address": brokers.at("b"), "topics": [{"filter": "#"}], "start": "once"}
    a = brokers.start("a", once, {"name": "b2", "address": brokers.at("b"), "topics": [{"filter": "#"}]})
    wait_connected(a, 2)
    brokers.stop("b")
    brokers.start("b")
    wait_connected(a, 3)  # the other one
    wait_connected(a, 3)
    assert sum('"bridge": "b"' in line for line in a.stderr.splitlines() if "bridge_connected" in line) == 1


def test_addresses_are_tried_in_turn(brokers: Ring) -> None:
    """With several addresses one that does not answer is passed over."""
    brokers.start("c")
    bridge = {"name": "any", "address": [brokers.at("b"), brokers.at("c")], "topics": [{"filter": "#"}]}
    a = brokers.start("a", bridge)
    wait_connected(a)
    told = next(line for line in a.stderr.splitlines() if "bridge_connected" in line)
    assert brokers.at("c") in told


@pytest.mark.skipif(find_mosquitto() is None, reason="Mosquitto is not installed")
@pytest.mark.parametrize(("version", "qos"), list(itertools.product(VERSIONS, (0, 1, 2))))
def test_with_mosquitto_as_the_remote_broker(brokers: Ring, tmp_path: Path, version: str, qos: int) -> None:
    """Both directions, and nothing comes back."""
    folder = tmp_path / "mosquitto"
    folder.mkdir()
    with start_mosquitto(folder) as mosquitto:
        where = mosquitto.address()
        bridge = {"name": "m", "address": f"{where.host}:{where.port}", "topics": [BOTH], "proto_ver": version}
        a = brokers.start("a", bridge)
        wait_connected(a)
        with subscriber(a) as here, subscriber(mosquitto) as there:
            sent = publish(a, "from/a", 30, qos) + publish(mosquitto, "from/m", 30, qos)
            for client in (here, there):
                assert sorted(payloads(client, 60)) == sorted(sent)


@pytest.mark.skipif(find_mosquitto() is None, reason="Mosquitto is not installed")
@pytest.mark.parametrize("version", ["mqttv50", "mqttv311"])
def test_a_mosquitto_with_a_bridge_to_us(brokers: Ring, tmp_path: Path, version: str) -> None:
    """Both directions, and nothing comes back."""
    a = brokers.start("a")
    folder = tmp_path / "mosquitto"
    folder.mkdir()
    extra = ["log_type error", "connection up", f"address {brokers.at('a')}", "topic # both 2"]
    with start_mosquitto(folder, extra=[*extra, f"bridge_protocol_version {version}"]) as mosquitto:
        a.wait_for_output(lambda lines: any('"connected"' in line for line in lines), "Mosquitto's bridge")
        with subscriber(a, "from/#") as here, subscriber(mosquitto, "from/#") as there:
            sent = publish(a, "from/a", 30, 1) + publish(mosquitto, "from/m", 30, 1)
            for client in (here, there):
                assert sorted(payloads(client, 60)) == sorted(sent)
