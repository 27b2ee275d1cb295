"""Features that are switched off: what CONNACK says of them, and the answer to clients that use them nevertheless."""

from collections.abc import Iterator
from typing import Any

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.connect import Will
from protocol.disconnect import Disconnect
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.subscribe import Subscribe, Subscription
from tests.broker.conftest import Start
from tests.support.broker.collecting import collect
from tests.support.broker.local import LocalBroker
from tests.support.brokers import start_sluice
from tests.support.process import Address
from tests.support.wire import WireClient, connected

LEAST: dict[str, Any] = {
    "maximum_qos": 1,
    "retain_available": False,
    "wildcard_subscription_available": False,
    "subscription_identifiers_available": False,
    "shared_subscription_available": False,
    "server_keep_alive": "100s",
    "response_information": "responses/{client_id}/of",
    "max_clientid_len": 65_535,
}
UNTOLD = (
    props.MAXIMUM_QOS,
    props.RETAIN_AVAILABLE,
    props.WILDCARD_SUBSCRIPTION_AVAILABLE,
    props.SUBSCRIPTION_IDENTIFIER_AVAILABLE,
    props.SHARED_SUBSCRIPTION_AVAILABLE,
    props.SERVER_KEEP_ALIVE,
    props.RESPONSE_INFORMATION,
)
ASK: Properties = {props.REQUEST_RESPONSE_INFORMATION: 1}


@pytest.fixture(scope="module")
def least(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """A broker that offers little."""
    with start_sluice(tmp_path_factory.mktemp("least"), sections={"mqtt": LEAST}) as running:
        yield running.address()


def check_closed(client: WireClient, code: int) -> None:
    """The broker closes; MQTT 5 clients are told why."""
    last = client.expect_close()
    if client.version == 5:
        assert isinstance(last, Disconnect)
        assert last.reason_code == code
    else:
        assert last is None


# -- CONNACK


def test_told(least: Address) -> None:
    """CONNACK names features that are off [MQTT-3.2.2-9]; Response Information is sent on request [MQTT-3.1.2-28]."""
    with WireClient(least, 5) as client:
        told = client.connect().properties or {}
        assert [told.get(key) for key in UNTOLD] == [1, 0, 0, 0, 0, 100, None]


def test_nothing_to_tell(address: Address) -> None:
    """CONNACK says nothing about features that are available."""
    with WireClient(address, 5) as client:
        told = client.connect(properties=dict(ASK)).properties or {}
        assert not set(UNTOLD) & set(told)


# -- QoS and RETAIN


@pytest.mark.parametrize("version", [4, 5])
def test_publish_above_maximum_qos(least: Address, version: int) -> None:
    """A PUBLISH above Maximum QoS is not routed and closes the connection, with 0x9B in MQTT 5 [MQTT-3.2.2-11]."""
    with connected(least, version) as subscriber, connected(least, version) as client:
        subscriber.subscribe("above", qos=2)
        client.publish("above", b"1", 1)
        client.send(Publish(b"above", b"2", 2, packet_id=1))
        check_closed(client, reason_codes.QOS_NOT_SUPPORTED)
        assert [message.payload for message in collect(subscriber)] == [b"1"]


@pytest.mark.parametrize("version", [4, 5])
def test_subscribing_above_maximum_qos(least: Address, version: int) -> None:
    """Subscriptions are granted the QoS that they ask for: Maximum QoS limits PUBLISH [MQTT-3.2.2-10]."""
    with connected(least, version) as client:
        for qos in (0, 1, 2):
            assert client.subscribe("any", qos=qos).reason_codes == [qos]


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("qos", [0, 1])
def test_publish_with_retain(least: Address, version: int, qos: int) -> None:
    """A PUBLISH with RETAIN is not routed and closes the connection, with 0x9A in MQTT 5 [MQTT-3.2.2-14]."""
    with connected(least, version) as subscriber, connected(least, version) as client:
        subscriber.subscribe("kept")
        client.send(Publish(b"kept", b"x", qos, True, packet_id=qos))
        check_closed(client, reason_codes.RETAIN_NOT_SUPPORTED)
        assert collect(subscriber) == []


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize(
    ("will", "code"),
    [
        (Will(b"will", b"", 2), reason_codes.QOS_NOT_SUPPORTED),
        (Will(b"will", b"", 1, True), reason_codes.RETAIN_NOT_SUPPORTED),
    ],
)
def test_wills(least: Address, version: int, will: Will, code: int) -> None:
    """A CONNECT whose will uses a feature that is off is refused, in 3.1.1 without a reason [MQTT-3.2.2-12, -13]."""
    with WireClient(least, version) as client:
        if version == 5:
            assert client.connect(will=will).reason_code == code
        else:
            with pytest.raises(ConnectionError):
                client.connect(will=will)


# -- subscriptions


@pytest.mark.parametrize(
    ("filters", "properties", "code"),
    [
        (["fine", "a/+"], None, reason_codes.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED),
        (["fine", "#"], None, reason_codes.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED),
        (["fine", "$share/g/a"], None, reason_codes.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED),
        (["fine"], {props.SUBSCRIPTION_IDENTIFIER: 7}, reason_codes.SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED),
    ],
)
def test_subscribing(least: Address, filters: list[str], properties: Properties | None, code: int) -> None:
    """An MQTT 5 client that subscribes with a feature that is off is disconnected, and none of its filters is kept."""
    kept: Properties = {props.SESSION_EXPIRY_INTERVAL: 60}
    client_id = f"told-{code}-{len(filters[-1])}"
    with WireClient(least, 5) as client:
        client.connect(client_id, properties=dict(kept))
        client.send(Subscribe(1, [Subscription(topic_filter) for topic_filter in filters], properties))
        check_closed(client, code)
    with WireClient(least, 5) as client:
        assert client.connect(client_id, clean_start=False, properties=dict(kept)).session_present
        client.publish("fine", b"x")
        assert collect(client) == []


def test_subscribing_v4(least: Address) -> None:
    """A 3.1.1 client cannot be told what is off: each such filter is refused with 0x80."""
    with connected(least, 4) as client:
        codes = client.subscribe("a/+", "fine", "$share/g/a", "a/#", qos=1).reason_codes
        assert codes == [0x80, 1, 0x80, 0x80]
        client.publish("fine", b"x")
        client.publish("a/b", b"x")
        assert [message.topic for message in collect(client)] == [b"fine"]


def test_shared_without_wildcards(start: Start) -> None:
    """A wildcard is refused also in the filter of a shared subscription."""
    address = start(sections={"mqtt": {"wildcard_subscription_available": False}}).address()
    with connected(address, 5) as client:
        assert client.subscribe("$share/g/a").reason_codes == [0]
        client.send(Subscribe(1, [Subscription("$share/g/a/+")]))
        check_closed(client, reason_codes.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED)


# -- keepalive


@pytest.mark.parametrize(("version", "own", "enforced"), [(5, 1000, 100), (5, 0, 100), (5, 10, 10), (4, 200, 200)])
def test_server_keep_alive(version: int, own: int, enforced: int) -> None:
    """Server Keep Alive replaces a longer keep-alive, or none [MQTT-3.2.2-21]; 3.1.1 clients keep their own."""
    with LocalBroker(mqtt={"server_keep_alive": 100.0}) as local:
        client = local.client(version)
        connack = client.connect("c", keep_alive=own)
        told = (connack.properties or {}).get(props.SERVER_KEEP_ALIVE)
        assert told == (None if enforced == own else enforced)
        local.pass_time(1.5 * enforced - 2)
        assert not client.gone
        local.pass_time(3)
        assert client.gone


# -- response information


@pytest.mark.parametrize(
    ("client_id", "level"),
    [
        ("plain", "plain"),
        ("Straße 7, {client_id}", "Straße 7, {client_id}"),
        ("a/b", "a%2Fb"),
        ("+", "%2B"),
        ("#", "%23"),
        ("a%2Fb", "a%252Fb"),
        ("../x", "..%2Fx"),
        ("tab\t", "tab%09"),
        ("next\x85line", "next%C2%85line"),
        ("$SYS", "%24SYS"),
        ("cost$", "cost$"),
    ],
)
def test_response_information(least: Address, client_id: str, level: str) -> None:
    """The client id is one level of the Response Information, whatever characters it has."""
    with WireClient(least, 5) as client:
        told = client.connect(client_id, properties=dict(ASK)).properties or {}
        assert told[props.RESPONSE_INFORMATION] == f"responses/{level}/of"


def test_response_information_of_an_assigned_id(least: Address) -> None:
    """A client id that the broker assigns is in the Response Information too."""
    with WireClient(least, 5) as client:
        told = client.connect("", properties=dict(ASK)).properties or {}
        assigned = str(told[props.ASSIGNED_CLIENT_IDENTIFIER])
        assert told[props.RESPONSE_INFORMATION] == f"responses/{assigned}/of"


@pytest.mark.parametrize(("client_id", "limit"), [("x" * 200, 150), ("/" * 30_000, 0)])
def test_response_information_that_does_not_fit(least: Address, client_id: str, limit: int) -> None:
    """Response Information is left out if it is too long for the client or for MQTT."""
    asked: Properties = {**ASK, props.MAXIMUM_PACKET_SIZE: limit} if limit else dict(ASK)
    with WireClient(least, 5) as client:
        connack = client.connect(client_id, properties=asked)
        assert connack.reason_code == reason_codes.SUCCESS
        assert props.RESPONSE_INFORMATION not in (connack.properties or {})


# -- redirection


@pytest.mark.parametrize(
    ("kind", "code"), [("temporary", reason_codes.USE_ANOTHER_SERVER), ("permanent", reason_codes.SERVER_MOVED)]
)
def test_redirection(start: Start, kind: str, code: int) -> None:
    """With a server reference every CONNECT is refused with it, whatever else is wrong with it (section 4.11)."""
    reference = "one.example:1883 two.example"
    address = start(sections={"mqtt": {"redirect_to": reference, "redirect": kind, "maximum_qos": 0}}).address()
    with WireClient(address, 5) as client:
        connack = client.connect(will=Will(b"will", b"", 2))
        assert connack.reason_code == code
        assert (connack.properties or {})[props.SERVER_REFERENCE] == reference
        assert client.expect_close() is None
    with WireClient(address, 4) as old:
        assert old.connect().reason_code == 3
        assert old.expect_close() is None


# -- payload format


UTF8: Properties = {props.PAYLOAD_FORMAT_INDICATOR: 1}


@pytest.mark.parametrize("payload", [b"\xff", b"\xed\xa0\x80", b"\xc0\xaf", b"fine to the l\xc3"])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_payload_is_not_utf8(address: Address, payload: bytes, qos: int) -> None:
    """A payload that is declared UTF-8 and is not is refused with 0x99, at QoS 0 by a DISCONNECT."""
    with connected(address, 5) as subscriber, connected(address, 5) as client:
        subscriber.subscribe("format", qos=2)
        client.send(Publish(b"format", payload, qos, True, dict(UTF8), packet_id=1 if qos else 0))
        if qos == 0:
            check_closed(client, reason_codes.PAYLOAD_FORMAT_INVALID)
        else:
            answer = client.receive()
            assert getattr(answer, "reason_code", None) == reason_codes.PAYLOAD_FORMAT_INVALID
            assert getattr(answer, "packet_id", None) == 1
            client.publish("format", "gültig \0".encode(), qos, properties=dict(UTF8))
        assert [message.payload for message in collect(subscriber)] == ["gültig \0".encode()] * (qos > 0)
        subscriber.subscribe("format")
        assert collect(subscriber) == []  # nothing was retained


def test_payload_is_bytes(address: Address) -> None:
    """A payload that is not declared UTF-8 may be any bytes."""
    with connected(address, 5) as client:
        client.subscribe("bytes")
        unsaid: list[Properties | None] = [None, {props.PAYLOAD_FORMAT_INDICATOR: 0}]
        for properties in unsaid:
            client.publish("bytes", b"\xff", properties=properties)
            assert client.receive_message().payload == b"\xff"


@pytest.mark.parametrize(("payload", "code"), [(b"\xff", reason_codes.PAYLOAD_FORMAT_INVALID), (b"x", 0)])
def test_payload_of_a_will(address: Address, payload: bytes, code: int) -> None:
    """CONNECT with a will payload that is declared UTF-8 and is not is refused."""
    with WireClient(address, 5) as client:
        assert client.connect(will=Will(b"will", payload, 0, False, dict(UTF8))).reason_code == code


def test_payload_is_not_checked(start: Start) -> None:
    """With check_payload_format: false payloads are delivered unchecked."""
    address = start(sections={"mqtt": {"check_payload_format": False}}).address()
    will = Will(b"will", b"\xff", 0, False, dict(UTF8))
    with connected(address, 5, will=will) as client:
        client.subscribe("unchecked")
        client.publish("unchecked", b"\xff", 1, properties=dict(UTF8))
        assert client.receive_message().payload == b"\xff"
