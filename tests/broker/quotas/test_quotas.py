"""Quotas (FC-31): what users may use, by paho and aiomqtt, for all, for a role and for one user."""

from time import monotonic

import pytest

from protocol import properties as props
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.properties import Properties
from protocol.publish import Publish
from tests.broker.quotas.conftest import RunQuotas
from tests.support.broker.admin import listed
from tests.support.broker.events import wait_for_event
from tests.support.broker.quotas import QUOTA_EXCEEDED, VERSIONS, client, reached
from tests.support.broker.real_clients import aiomqtt_client
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

SERVER_UNAVAILABLE = 0x88
"""What paho makes of 3.1.1's code 3."""


@pytest.mark.parametrize("version", VERSIONS)
def test_subscriptions(run: RunQuotas, version: int) -> None:
    """A subscription too many gets 0x97, in 3.1.1 0x80; one that is there may be replaced, ending one makes room."""
    broker = run({"roles": ["sensor"], "max_subscriptions": 2}, {"max_subscriptions": 3})
    refused = QUOTA_EXCEEDED if version == 5 else 0x80
    with client(broker, version, "x", "ann") as ann, client(broker, version, "y", "eve") as eve:
        assert ann.subscribe("a", "b", "c") == [1, 1, refused]
        assert ann.subscribe("a", qos=2) == [2]
        assert eve.subscribe("a", "b", "c", "d") == [1, 1, 1, refused]
        ann.client.unsubscribe("a")
        wait_until(lambda: ann.subscribe("d") == [1], "there is room again")
    assert reached(broker, "max_subscriptions") >= 2
    assert [event["user"] for event in wait_for_event(broker, "quota_reached", 2)] == ["ann", "eve"]
    with connected(broker.address(), version) as anybody:
        anybody.subscribe("$SYS/broker/quotas/max_subscriptions/reached")
        assert int(anybody.receive_message().payload) >= 2


@pytest.mark.parametrize("version", VERSIONS)
def test_filter_levels(run: RunQuotas, version: int) -> None:
    """A topic filter with too many levels gets 0x97 (0x80); the share's name is none of them."""
    broker = run({"max_filter_levels": 3})
    with client(broker, version, "x") as anybody:
        refused = QUOTA_EXCEEDED if version == 5 else 0x80
        assert anybody.subscribe("a/b/c", "a/b/c/d", "$share/g/a/+/#", "a//b/") == [1, refused, 1, refused]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_retained_messages(run: RunQuotas, version: int, qos: int) -> None:
    """A message too many is refused, whichever client of the user publishes it; another user's room stays."""
    broker = run({"users": ["ann"], "max_retained_messages": 2}, {"max_retained_messages": 3})
    with client(broker, version, "y", "ben") as ben:
        with client(broker, version, "x1", "ann") as ann:
            assert ann.publish("a/1", b"x", qos, True) == 0
            assert ann.publish("a/2", b"x", qos, True) == 0
            assert ann.publish("a/2", b"y", qos, True) == 0  # it replaces her own
        with client(broker, version, "x2", "ann") as ann:
            refusal = ann.publish("a/3", b"x", qos, True)
            told = [0, QUOTA_EXCEEDED, 0x92][qos]  # paho sends PUBREL although PUBREC refuses, and keeps its answer
            assert refusal == (told if version == 5 or qos == 0 else -1)
            wait_until(lambda: reached(broker, "max_retained_messages") == 1, "it is counted")
        with client(broker, version, "x2", "ann") as ann:
            assert ann.publish("a/1", b"", qos, True) == 0  # it removes one
            assert ann.publish("a/4", b"x", qos, True) == 0
        assert ben.publish("b/1", b"x", qos, True) == 0
    with connected(broker.address(), 5) as anybody:
        anybody.subscribe("+/+")
        topics = {anybody.receive_message().topic for _ in range(3)}
        anybody.expect_nothing_more()
    assert topics == {b"a/2", b"a/4", b"b/1"}
    (event,) = wait_for_event(broker, "quota_reached")
    assert (event["user"], event["quota"], event["limit"]) == ("ann", "max_retained_messages", 2)


def test_retained_bytes(run: RunQuotas) -> None:
    """Bytes count with topic, properties and 64 for each message, and come free with what is replaced."""
    broker = run({"roles": ["sensor"], "max_retained_bytes": "1000B"})
    with client(broker, 5, "x", "ann") as ann, client(broker, 5, "y", "ben") as ben:
        assert ann.publish("a", bytes(500), 1, True) == 0
        assert ann.publish("b", bytes(400), 1, True) == QUOTA_EXCEEDED
        assert ann.publish("a", bytes(935), 1, True) == 0
        assert ann.publish("a", bytes(936), 1, True) == QUOTA_EXCEEDED
        assert ben.publish("a", bytes(100), 1, True) == 0  # it is his from now on
        assert ann.publish("b", bytes(935), 1, True) == 0


async def test_aiomqtt(run: RunQuotas) -> None:
    """aiomqtt is told what is refused: a subscription by the codes of SUBACK."""
    broker = run({"users": ["a*"], "max_subscriptions": 1})
    for version in VERSIONS:
        async with aiomqtt_client(broker.address(), version, "x", "ann", "a") as ann:
            codes = [await ann.subscribe("a", qos=1), await ann.subscribe("b", qos=1)]
            refused = [getattr(code[0], "value", code[0]) for code in codes]
            assert refused == [1, QUOTA_EXCEEDED if version == 5 else 0x80]


@pytest.mark.parametrize("version", VERSIONS)
def test_connections(run: RunQuotas, version: int) -> None:
    """A client too many of a user gets 0x97, in 3.1.1 code 3; a take-over is none, and others are let in."""
    broker = run({"users": ["ann"], "max_connections": 2})
    with client(broker, version, "x1", "ann"), client(broker, version, "x2", "ann") as second:
        third = client(broker, version, "x3", "ann")
        assert third.connect() == (QUOTA_EXCEEDED if version == 5 else SERVER_UNAVAILABLE)
        with client(broker, version, "x2", "ann") as again, client(broker, version, "y", "ben") as ben:
            assert (again.connack, ben.connack) == (0, 0)
            wait_until(lambda: second.closed, "the older connection is closed")
        wait_until(lambda: client(broker, version, "x3", "ann").connect() == 0, "there is room again")
    assert reached(broker, "max_connections") >= 1
    assert len(wait_for_event(broker, "quota_reached")) == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_anonymous_clients_count_as_one(run: RunQuotas, version: int) -> None:
    """Clients without a user share one quota, whatever their client ids; a user has its own."""
    broker = run({"max_connections": 1})
    with client(broker, version, "x") as first, client(broker, version, "y", "ben") as ben:
        assert (first.connack, ben.connack) == (0, 0)
        assert client(broker, version, "z").connect() in {QUOTA_EXCEEDED, SERVER_UNAVAILABLE}


@pytest.mark.parametrize("version", VERSIONS)
def test_kept_sessions(run: RunQuotas, version: int) -> None:
    """A session too many that would be kept is refused; one that is there is resumed, one that is not kept let in."""
    broker = run({"roles": ["sensor"], "max_kept_sessions": 2})
    for name in ("x1", "x2", "x1"):
        with client(broker, version, name, "ann", kept=True) as kept:
            assert kept.connack == 0
    refused = client(broker, version, "x3", "ann", kept=True)
    assert refused.connect() == (QUOTA_EXCEEDED if version == 5 else SERVER_UNAVAILABLE)
    with client(broker, version, "x3", "ann") as passing, client(broker, version, "y", "ben", kept=True) as ben:
        assert (passing.connack, ben.connack) == (0, 0)
    with client(broker, version, "x1", "ann") as ended:  # a clean start ends what was kept
        assert ended.connack == 0
    with client(broker, version, "x3", "ann", kept=True) as kept:
        assert kept.connack == 0
    assert reached(broker, "max_kept_sessions") == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_publish_rates(run: RunQuotas, version: int) -> None:
    """A client past its rate is read later: nothing is lost or refused, and it takes the time that the rate says."""
    broker = run({"users": ["ann"], "producer_max_rate": 50}, {"users": ["ben"], "producer_max_bytes": "20KiB"})
    with connected(broker.address(), version) as reader:
        reader.subscribe("#", qos=1)
        for user, size in (("ann", 10), ("ben", 500)):
            begin = monotonic()
            with client(broker, version, user, user) as sender:
                for number in range(60):
                    sender.client.publish(f"{user}/{number}", bytes(size), 1)
                names = [reader.receive_message().topic for _ in range(60)]
            assert names == [f"{user}/{number}".encode() for number in range(60)]
            assert 0.8 < monotonic() - begin < 5
    assert reached(broker, "producer_max_rate") > 0
    assert reached(broker, "producer_max_bytes") > 0
    found = wait_for_event(broker, "quota_reached", 2)
    assert [event["quota"] for event in found] == ["producer_max_rate", "producer_max_bytes"]


@pytest.mark.parametrize("version", VERSIONS)
def test_window_and_queue(run: RunQuotas, version: int) -> None:
    """A user's window and mqueue are those of its quota: what exceeds them waits, then overflows as FC-5 says."""
    broker = run({"users": ["ann"], "max_inflight": 2, "max_mqueue_len": 3}, session={"overflow_patience": 0})
    with client(broker, version, "x", "ann", kept=True) as ann:
        assert ann.subscribe("t") == [1]
    with connected(broker.address(), 5) as sender:
        for number in range(10):
            sender.publish("t", bytes([number]), 1)
        (row,) = listed(broker.folder / "a.sock", "sessions", "client_id=x")["items"]
        assert (row["mqueue_len"], row["dropped"]) == (3, 7)
    with silent(broker, version):
        wait_until(lambda: window(broker) == (2, 2), "two deliveries are sent, and the third waits")
    assert len(wait_for_event(broker, "mqueue_full")) == 1


def window(broker: BrokerProcess) -> tuple[int, int]:
    """What is in ann's window, and its limit."""
    (row,) = listed(broker.folder / "a.sock", "sessions", "client_id=x")["items"]
    return row["window_len"], row["window_limit"]


def silent(broker: BrokerProcess, version: int) -> WireClient:
    """ann's client, which acknowledges nothing."""
    own = WireClient(broker.address(), version)
    properties: Properties | None = {props.SESSION_EXPIRY_INTERVAL: 3600} if version == 5 else None
    own.send(Connect("x", False, 0, username="ann", password=b"a", properties=properties, version=version))
    assert own.expect(Connack).reason_code == 0
    own.expect(Publish)
    return own
