"""Reason Strings: in which packets MQTT 5 clients get them, their content, and when they are left out."""

from collections.abc import Iterator
from typing import Any

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.acknowledgements import Puback, Pubrec
from protocol.connack import Connack
from protocol.connect import Connect, Will
from protocol.disconnect import Disconnect
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.subscribe import Subscribe, Subscription
from tests.support.broker.events import events, wait_for_event
from tests.support.broker.local import LocalBroker
from tests.support.brokers import start_sluice
from tests.support.process import Address, BrokerProcess
from tests.support.wire import WireClient, connected

SECTIONS: dict[str, Any] = {
    "mqtt": {"max_clientid_len": 30, "retain_available": False, "max_topic_levels": 5},
    "authorization": {"deny_publish": ["closed/#"], "deny_subscribe": ["closed/#"]},
}
MOST = 256
"""Bytes that a reason has at most."""
LONG = "closed/" + "ä" * 20_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that has reasons to refuse."""
    with start_sluice(tmp_path_factory.mktemp("reasons"), sections=SECTIONS) as running:
        yield running


@pytest.fixture(scope="module")
def address(broker: BrokerProcess) -> Address:
    """Where it listens."""
    return broker.address()


def reason(packet: object) -> str:
    """A packet's Reason String, which has to be there and not too long."""
    properties = getattr(packet, "properties", None) or {}
    found = properties[props.REASON_STRING]
    assert isinstance(found, str)
    assert 0 < len(found.encode()) <= MOST
    return found


# -- CONNACK and DISCONNECT

REFUSED: list[tuple[Connect, int, str]] = [
    (Connect("x" * 31), reason_codes.CLIENT_IDENTIFIER_NOT_VALID, "31 bytes"),
    (Connect("c", will=Will(b"a", b"", 0, True)), reason_codes.RETAIN_NOT_SUPPORTED, "RETAIN"),
    (Connect("c", will=Will(b"a/b/c/d/e/f", b"")), reason_codes.TOPIC_NAME_INVALID, "6 levels"),
    (Connect("c", will=Will(LONG.encode(), b"")), reason_codes.NOT_AUTHORIZED, "closed/ää"),
    (Connect("c", will=Will(b"a/+", b"")), reason_codes.MALFORMED_PACKET, "wildcard"),
    (Connect("c", will=Will(("ä" * 9000 + "/#").encode(), b"")), reason_codes.MALFORMED_PACKET, "wildcard"),
    (
        Connect("c", properties={props.AUTHENTICATION_METHOD: "m" * 60_000}),
        reason_codes.BAD_AUTHENTICATION_METHOD,
        "mmm",
    ),
]


@pytest.mark.parametrize(("connect", "code", "words"), REFUSED)
def test_connack(address: Address, connect: Connect, code: int, words: str) -> None:
    """The Reason String of a CONNACK that refuses says what was wrong."""
    with WireClient(address, 5) as client:
        client.send(connect)
        connack = client.expect(Connack)
        assert connack.reason_code == code
        assert words in reason(connack)
        assert client.expect_close() is None


BROKEN: list[tuple[Publish | Subscribe, int, str]] = [
    (Publish(b"a", b"", 0, True), reason_codes.RETAIN_NOT_SUPPORTED, "RETAIN"),
    (Publish(b"a/b/c/d/e/f", b""), reason_codes.TOPIC_NAME_INVALID, "6 levels"),
    (Publish(b"x" * 60_000 + b"/+", b""), reason_codes.MALFORMED_PACKET, "wildcard"),
    (Publish(b"\n\x1b[31m+", b""), reason_codes.MALFORMED_PACKET, r"\n\x1b"),
    (Publish(b"a", b"", properties={props.TOPIC_ALIAS: 99}), reason_codes.TOPIC_ALIAS_INVALID, "99"),
    (
        Publish(b"a", b"\xff", properties={props.PAYLOAD_FORMAT_INDICATOR: 1}),
        reason_codes.PAYLOAD_FORMAT_INVALID,
        "UTF-8",
    ),
    (Subscribe(1, [Subscription("a/#/" + "b" * 60_000)]), reason_codes.MALFORMED_PACKET, "last character"),
    (Subscribe(1, [Subscription("$share//a")]), reason_codes.MALFORMED_PACKET, "share name"),
    (Subscribe(1, [Subscription("$share/g/" + "a" * 60_000, 0, True)]), reason_codes.PROTOCOL_ERROR, "No Local"),
]


@pytest.mark.parametrize(("packet", "code", "words"), BROKEN)
def test_disconnect(address: Address, packet: Publish | Subscribe, code: int, words: str) -> None:
    """The Reason String of a DISCONNECT says what the client did wrong, even if it asked for no problem information."""
    wanted: list[Properties | None] = [None, {props.REQUEST_PROBLEM_INFORMATION: 0}]
    for properties in wanted:
        with connected(address, 5, properties=properties) as client:
            client.send(packet)
            last = client.expect_close()
            assert isinstance(last, Disconnect)
            assert last.reason_code == code
            assert words in reason(last)


def test_disconnect_of_the_servers_own(address: Address) -> None:
    """A take-over has a Reason String too."""
    with connected(address, 5, client_id="twice") as older, connected(address, 5, client_id="twice"):
        assert "client id" in reason(older.expect_close())


def test_keep_alive() -> None:
    """A keep-alive that ended has a Reason String too."""
    with LocalBroker() as local:
        client = local.client(5)
        client.connect("c", keep_alive=10)
        local.pass_time(16)
        assert "keep-alive" in reason(client.expect(Disconnect))


def test_v4(address: Address) -> None:
    """3.1.1 has no Reason String: the CONNACK has four bytes, and there is no DISCONNECT."""
    with WireClient(address, 4) as client:
        client.send(Connect("x" * 31, version=4))
        assert client.expect(Connack).encode(4) == b"\x20\x02\x00\x02"
        assert client.expect_close() is None
    with connected(address, 4) as client:
        client.send(Publish(b"a", b"", 0, True))
        assert client.expect_close() is None


# -- acknowledgements


@pytest.mark.parametrize(("qos", "kind"), [(1, Puback), (2, Pubrec)])
def test_publish(address: Address, qos: int, kind: type[Puback | Pubrec]) -> None:
    """A PUBACK or PUBREC for a denied topic has a Reason String."""
    with connected(address, 5) as client:
        client.send(Publish(LONG.encode(), b"", qos, packet_id=1))
        assert "closed/ää" in reason(client.expect(kind))


def test_suback(address: Address) -> None:
    """The Reason String of a SUBACK names the refused filters, or some of them if there are many."""
    with connected(address, 5) as client:
        said = reason(client.subscribe("closed/a", "fine", "a/b/c/d/e/f"))
        assert "closed/a" in said
        assert "a/b/c/d/e/f" in said
        assert "fine" not in said
        reason(client.subscribe(*[f"{LONG}/{number}" for number in range(10)]))
        assert not client.subscribe("fine").properties


@pytest.mark.parametrize(
    "properties", [{props.REQUEST_PROBLEM_INFORMATION: 0}, {props.MAXIMUM_PACKET_SIZE: 30}], ids=["unwanted", "small"]
)
def test_no_words_with_acknowledgements(address: Address, properties: Properties) -> None:
    """An acknowledgement has no Reason String if unwanted or too large [MQTT-3.1.2-29, MQTT-3.4.2-2]."""
    with connected(address, 5, properties=dict(properties)) as client:
        assert not client.subscribe("closed/a").properties
        client.send(Publish(b"closed/a", b"", 1, packet_id=1))
        puback = client.expect(Puback)
        assert puback.reason_code == reason_codes.NOT_AUTHORIZED
        assert not puback.properties
        client.expect_nothing_more()


@pytest.mark.parametrize("code", [0, 1])
def test_problem_information_is_the_connections(address: Address, code: int) -> None:
    """Request Problem Information applies to its own connection, not to later ones of the session."""
    kept: Properties = {props.SESSION_EXPIRY_INTERVAL: 60}
    name = f"wishes-{code}"
    with WireClient(address, 5) as client:
        client.connect(name, properties={**kept, props.REQUEST_PROBLEM_INFORMATION: code})
    with WireClient(address, 5) as client:
        again: Properties = {**kept, props.REQUEST_PROBLEM_INFORMATION: 1 - code}
        client.connect(name, clean_start=False, properties=again)
        assert bool(client.subscribe("closed/a").properties) == (code == 0)


# -- Maximum Packet Size


@pytest.mark.parametrize("limit", [1, 4, 5, 20, 100])
@pytest.mark.parametrize(
    "connect",
    [Connect("x" * 31), Connect("c", will=Will(b"a/+", b"")), Connect("c", will=Will(b"closed/a", b""))],
    ids=["client id", "cannot be read", "denied"],
)
def test_connack_keeps_to_the_maximum(address: Address, connect: Connect, limit: int) -> None:
    """A Reason String that is too large is left out [MQTT-3.2.2-19], and so is such a CONNACK [MQTT-3.1.2-24]."""
    connect = Connect(connect.client_id, will=connect.will, properties={props.MAXIMUM_PACKET_SIZE: limit})
    with WireClient(address, 5) as client:
        client.send(connect)
        last = client.expect_close()
        if limit < len(Connack(False, 0x80).encode(5)):
            assert last is None
        else:
            assert isinstance(last, Connack)
            assert len(last.encode(5)) <= limit
            assert bool(last.properties) == (limit == 100)


@pytest.mark.parametrize("limit", [20, 100])
def test_disconnect_keeps_to_the_maximum(address: Address, limit: int) -> None:
    """A Reason String that does not fit into a DISCONNECT is left out [MQTT-3.14.2-3]."""
    with connected(address, 5, properties={props.MAXIMUM_PACKET_SIZE: limit}) as client:
        client.send(Publish(b"a", b"", 0, True))
        last = client.expect_close()
        assert isinstance(last, Disconnect)
        assert last.reason_code == reason_codes.RETAIN_NOT_SUPPORTED
        assert len(last.encode(5)) <= limit
        assert bool(last.properties) == (limit == 100)


def test_reference_that_does_not_fit() -> None:
    """A client that cannot take the Server Reference gets the reason code alone."""
    reference = "server.example:1883"
    with LocalBroker(mqtt={"redirect_to": reference}) as local:
        for limit, told in (
            (1000, [props.SERVER_REFERENCE, props.REASON_STRING]),
            (40, [props.SERVER_REFERENCE]),
            (20, []),
        ):
            client = local.client(5)
            connack = client.connect("c", properties={props.MAXIMUM_PACKET_SIZE: limit})
            assert connack.reason_code == reason_codes.USE_ANOTHER_SERVER
            assert list(connack.properties or {}) == told
            assert client.gone


# -- the log


def test_log_lines_are_bounded(broker: BrokerProcess) -> None:
    """The log line about a client has a bounded length, whatever the client has sent."""
    before = len(events(broker, "client_refused"))
    packets = [packet for packet, _, _ in BROKEN]
    for packet in packets:
        with connected(broker.address(), 5) as client:
            client.send(packet)
            client.expect_close()
    with WireClient(broker.address(), 5) as client:
        client.send(Connect("x" * 60_000))
        client.expect_close()
    for event in wait_for_event(broker, "client_refused", before + len(packets) + 1):
        assert len(str(event)) < 800
