"""Denied topics: publishing to them, subscribing to them, and wider filters that match them."""

from collections.abc import Iterator
from typing import Any

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.connect import Will
from protocol.disconnect import Disconnect
from protocol.packet import Packet
from protocol.publish import Publish
from tests.broker.conftest import Start
from tests.support.broker.collecting import collect
from tests.support.broker.events import events, wait_for_event
from tests.support.broker.local import LocalBroker
from tests.support.brokers import start_sluice
from tests.support.process import Address, BrokerProcess
from tests.support.wire import WireClient, connected

RULES: dict[str, Any] = {"deny_publish": ["closed/#", "+/shut"], "deny_subscribe": ["secret/#", "+/private"]}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with denied topics."""
    with start_sluice(tmp_path_factory.mktemp("denied"), sections={"authorization": RULES}) as running:
        yield running


@pytest.fixture(scope="module")
def address(broker: BrokerProcess) -> Address:
    """Where it listens."""
    return broker.address()


def answer_to(client: WireClient, publish: Publish) -> Packet:
    """What comes back for a PUBLISH at QoS 1 or 2, with its packet id."""
    client.send(publish)
    answer = client.receive()
    assert isinstance(answer, Puback if publish.qos == 1 else Pubrec)
    assert answer.packet_id == publish.packet_id
    return answer


# -- PUBLISH


@pytest.mark.parametrize("topic", ["closed", "closed/a/b", "a/shut", "$SYS/broker/version", "$SYS"])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_publish(address: Address, topic: str, qos: int) -> None:
    """A PUBLISH to a denied topic is not routed; QoS 1 and 2 get 0x87; the client stays [MQTT-3.3.5-2]."""
    with connected(address, 5) as subscriber, connected(address, 5) as client:
        subscriber.subscribe("#", topic, qos=2)
        collect(subscriber)
        publish = Publish(topic.encode(), b"denied", qos, True, packet_id=9 if qos else 0)
        if qos:
            for _ in range(2):  # the packet id is free again
                answer = answer_to(client, publish)
                assert isinstance(answer, (Puback, Pubrec))
                assert answer.reason_code == reason_codes.NOT_AUTHORIZED
        else:
            client.send(publish)
        client.expect_nothing_more()
        client.publish("shut/closed", b"fine")
        assert b"denied" not in [message.payload for message in collect(subscriber)]
    with connected(address, 5) as late:
        late.subscribe(topic)
        assert b"denied" not in [message.payload for message in collect(late)]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_publish_v4(address: Address, qos: int) -> None:
    """3.1.1 has no reason code: the PUBLISH is acknowledged and discarded."""
    with connected(address, 4) as subscriber, connected(address, 4) as client:
        subscriber.subscribe("closed/#", qos=2)
        client.publish("closed/old", b"denied", qos, retain=True)
        client.expect_nothing_more()
        assert collect(subscriber) == []


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_publish_closes(start: Start, qos: int) -> None:
    """With refused_publish: close 3.1.1 connections are closed; MQTT 5 clients get 0x87 and stay."""
    rules = {**RULES, "refused_publish": "close"}
    address = start(sections={"authorization": rules}).address()
    publish = Publish(b"closed/x", b"", qos, packet_id=1 if qos else 0)
    with connected(address, 4) as client:
        client.send(publish)
        assert client.expect_close() is None
    with connected(address, 5) as client:
        client.send(publish)
        assert [type(packet) for packet in ([client.receive()] if qos else [])] == [[], [Puback], [Pubrec]][qos]
        client.expect_nothing_more()


def test_alias(address: Address) -> None:
    """A topic alias does not circumvent a denied topic; an alias that a refused PUBLISH sets is set [MQTT-3.3.2-12]."""
    with connected(address, 5) as client:
        for topic in (b"closed/alias", b""):
            answer = answer_to(client, Publish(topic, b"", 1, properties={props.TOPIC_ALIAS: 1}, packet_id=1))
            assert isinstance(answer, Puback)
            assert answer.reason_code == reason_codes.NOT_AUTHORIZED


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("topic", [b"closed/will", b"$SYS/will"])
def test_will(address: Address, version: int, topic: bytes) -> None:
    """A CONNECT with a will on a denied topic is refused: 0x87, return code 5 in 3.1.1."""
    with WireClient(address, version) as client:
        connack = client.connect(will=Will(topic, b"gone"))
        assert connack.reason_code == (reason_codes.NOT_AUTHORIZED if version == 5 else 5)
        assert client.expect_close() is None


def test_counted_and_logged(broker: BrokerProcess) -> None:
    """Each refused message is counted; the log has one line of bounded length for each episode."""
    before = len(events(broker, "publish_refused"))
    with connected(broker.address(), 5, client_id="y" * 1000) as client:
        topic = b"closed/" + b"x" * 60_000
        for _ in range(50):
            answer_to(client, Publish(topic, b"", 1, packet_id=1))
            answer_to(client, Publish(b"closed/other", b"", 2, packet_id=1))
    logged = wait_for_event(broker, "publish_refused", before + 1)[before:]
    assert len(logged) == 1
    assert logged[0]["reason"] == "Not authorized"
    assert "closed/xxx" in logged[0]["detail"]
    assert len(str(logged[0])) < 1000


@pytest.mark.parametrize("version", [4, 5])
def test_episodes(version: int) -> None:
    """The counter belongs to the session and is exported; the decision about a topic is cached with it."""
    with LocalBroker(authorization=RULES) as local:
        client = local.client(version)
        client.connect("c")
        publishes = [Publish(b"closed/a", b"", qos, packet_id=qos) for qos in (0, 1, 2)]
        client.send(*publishes)
        kept = local.broker.router.cached.receivers[b"closed/a"]
        client.send(Publish(b"open", b"", 1, packet_id=3), *publishes)
        assert local.broker.router.cached.receivers[b"closed/a"] is kept
        session = client.connection.session
        assert session is not None
        counters = session.take_counters(0)
        assert counters.uncommon.publish_refused == 6
        assert counters.received_qos0 + counters.received_qos1 + counters.received_qos2 == 7
        assert session.take_counters(0).quiet()


# -- SUBSCRIBE


FILTERS = {
    "secret": True,
    "secret/a": True,
    "secret/#": True,
    "secret/+/b": True,
    "a/private": True,
    "+/private": True,
    "$share/g/secret/a": True,
    "$share/secret/a": False,
    "#": False,
    "+": False,
    "+/#": False,
    "+/+": False,
    "a/+": False,
    "a/private/x": False,
    "$SYS/private": False,
    "secrets": False,
}
"""Filters, and whether they are refused."""


@pytest.mark.parametrize("version", [4, 5])
def test_subscribe(address: Address, version: int) -> None:
    """Each filter that a denied filter covers is refused; wider filters are granted."""
    with connected(address, version) as client:
        expected = [0x80 if refused else 1 for refused in FILTERS.values()]
        assert client.subscribe(*FILTERS, qos=1).reason_codes == expected


@pytest.mark.parametrize(("version", "code"), [(4, 0x80), (5, reason_codes.NOT_AUTHORIZED)])
def test_said_outright(start: Start, version: int, code: int) -> None:
    """With `refused_subscribe: not_authorized` MQTT 5 clients get the reason; 3.1.1 has one code only."""
    rules = {"deny_subscribe": ["secret/#"], "refused_subscribe": "not_authorized"}
    with connected(start(sections={"authorization": rules}).address(), version) as client:
        assert client.subscribe("secret/a", "free").reason_codes == [code, 0]


@pytest.mark.parametrize("version", [4, 5])
def test_wider_filters(address: Address, version: int) -> None:
    """A wider filter delivers no denied topic: neither shared, nor retained, nor live messages."""
    denied = (b"secret", b"secret/x", b"x/private", b"secret/y/z")
    with connected(address, version) as early, connected(address, version) as shares:
        early.subscribe("#", "+", "+/+", "secret/../#", qos=1)
        shares.subscribe("$share/g/#", qos=1)
        with connected(address, version) as client:
            for topic in denied:
                client.publish(topic.decode(), b"x", 1, retain=True)
            client.publish("open/x", b"x", 1, retain=True)
            client.publish("x/private/y", b"x", 1, retain=True)
        with connected(address, version) as late:
            late.subscribe("#", qos=1)
            for receiver in (early, shares, late):
                found = {message.topic for message in collect(receiver)}
                assert not found & set(denied)
                assert {b"open/x", b"x/private/y"} <= found


def test_denied_system_topics(start: Start) -> None:
    """Denying $SYS/# hides the broker's topics from all clients; # alone does not, as it does not match them."""
    for denied, refused in (("$SYS/#", True), ("#", False)):
        address = start(sections={"authorization": {"deny_subscribe": [denied]}}).address()
        with connected(address, 5) as client:
            codes = client.subscribe("$SYS/#", "$SYS/broker/uptime", "+/broker/uptime", "a").reason_codes
            own = [0x80 if refused else 0] * 2
            others = [0 if refused else 0x80] * 2
            assert codes == own + others
            assert any(message.topic == b"$SYS/broker/uptime" for message in collect(client)) != refused


# -- without rules


@pytest.mark.parametrize("version", [4, 5])
def test_only_system_topics(start: Start, version: int) -> None:
    """By default only publishing to the broker's own topics is denied."""
    address = start().address()
    with connected(address, version) as client:
        client.subscribe("$SYS/mine", "$SYSTEM/mine", "closed/a", "secret/a")
        for topic in ("$SYS/mine", "$SYSTEM/mine", "closed/a", "secret/a"):
            client.publish(topic, b"x")
        assert [message.topic for message in collect(client)] == [b"$SYSTEM/mine", b"closed/a", b"secret/a"]


def test_exchange_after_a_refusal(address: Address) -> None:
    """A PUBREC with an error ends the exchange: a PUBREL for it is answered with 0x92 [MQTT-4.3.3-9]."""
    with connected(address, 5) as client:
        answer_to(client, Publish(b"closed/x", b"", 2, packet_id=5))
        client.send(Pubrel(5))
        assert client.expect(Pubcomp).reason_code == reason_codes.PACKET_IDENTIFIER_NOT_FOUND
        client.send(Disconnect())
        assert client.expect_close() is None
