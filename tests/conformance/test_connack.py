"""CONNACK: it comes first and once, and states the server's limits (section 3.2)."""

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.auth import Auth
from protocol.connack import Connack
from protocol.connect import Connect, Will
from protocol.ping import Pingresp
from protocol.properties import Properties
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from tests.conformance import by_hand
from tests.conformance.configured import Configured
from tests.conformance.connecting import connect, refusal, refused, will
from tests.conformance.delivery import unique
from tests.conformance.scram import Scram, settings
from tests.conformance.sessions import KeptSession
from tests.support.process import Address
from tests.support.wire import WireClient, connected

CODES = {
    4: set(range(6)),
    5: {0, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, *range(0x99, 0x9E), 0x9F},
}
"""The codes that CONNACK may have."""


# -- first and once


def test_first(address: Address, version: int) -> None:
    """CONNACK is the first packet, although messages wait for the client and it has already sent other packets."""
    topic = unique("waiting")
    with KeptSession(address, version) as session, connected(address, version) as publisher:
        client = session.connect()
        client.subscribe(topic, qos=1)
        client.disconnect()
        for _ in range(5):
            publisher.publish(topic, b"x", 1)
        properties = b"\x11\0\0\2\x58" if version == 5 else b""
        with WireClient(address, version) as client:
            client.send(
                connect(version, session.client_id, flags=0, properties=properties)
                + by_hand.subscribe(version, 1, [(topic, 1)])
                + by_hand.PINGREQ
            )
            assert client.expect(Connack).session_present


def test_once(address: Address, version: int) -> None:
    """A second CONNACK is never sent."""
    topic = unique("once")
    with connected(address, version) as client:
        client.send(
            by_hand.subscribe(version, 1, [(topic, 0)])
            + by_hand.publish(version, topic)
            + by_hand.unsubscribe(version, 2, [topic])
            + by_hand.PINGREQ
        )
        packets = [client.receive()]
        while not isinstance(packets[-1], Pingresp):
            packets.append(client.receive())
        assert not any(isinstance(packet, Connack) for packet in packets)


# -- codes


@pytest.mark.parametrize("reason", ["refused", "level", "flags", "no payload", "will topic"])
def test_codes(address: Address, version: int, reason: str) -> None:
    """A client that is refused for any reason gets a code of the standard's table, and the connection closes."""
    name = unique("c")
    bad = {
        "refused": refusal(version, name),
        "level": connect(version, name, level=0x70),
        "flags": connect(version, name, flags=3),
        "no payload": connect(version, name)[:1] + b"\x0a" + connect(version, name)[2:12],
        "will topic": connect(version, name, will(version, "a/#"), flags=6),
    }
    with WireClient(address, version) as client:
        client.send(bad[reason])
        data = b""
        while more := client.socket.recv(1000):
            data += more
    assert data == b"" or data[0] == 0x20
    assert data == b"" or data[3] in CODES[4] | CODES[5]
    assert data == b"" or data[2:4] != b"\0\0"


EXCHANGE_BREAKERS = {
    "Topic Alias 0": by_hand.packet(0x30, by_hand.string("t") + b"\x03\x23\0\0"),
    "SUBSCRIBE": by_hand.subscribe(5, 1, [("t", 0)]),
    "a/#/b": by_hand.subscribe(5, 1, [("a/#/b", 0)]),
    "PINGREQ": by_hand.PINGREQ,
    "QoS 3": by_hand.packet(0x36, by_hand.string("t") + b"\0\1\0"),
}
"""Packets that a client must not send during authentication; some of their codes are not allowed in CONNACK."""


@pytest.mark.parametrize("breaker", EXCHANGE_BREAKERS)
def test_codes_in_an_exchange(configured: Configured, breaker: str) -> None:
    """A client that breaks a rule after the first AUTH gets a code of CONNACK's table too."""
    with WireClient(configured(authentication=settings()), 5) as client:
        client.send(Connect(unique("c"), True, 0, properties=Scram().first(), version=5))
        client.expect(Auth)
        client.send(EXCHANGE_BREAKERS[breaker])
        data = b""
        while more := client.socket.recv(1000):
            data += more
    assert data == b"" or (data[0] == 0x20 and data[3] in CODES[5] - {0})


def test_no_word_for_it(address: Address) -> None:
    """A reason for which 3.1.1 has no code closes the connection without a CONNACK."""
    with WireClient(address, 4) as client:
        assert refused(client, connect(4, unique("c"), flags=3)) is None


def test_success(address: Address, version: int) -> None:
    """The CONNACK of a client that is accepted has code 0."""
    with WireClient(address, version) as client:
        assert client.connect(unique("c")).reason_code == 0


# -- what the server does not support (MQTT 5)


@pytest.fixture(scope="module")
def nothing_more() -> dict[str, dict[str, object]]:
    """Settings of a server with as few features as the standard allows."""
    return {
        "mqtt": {
            "maximum_qos": 0,
            "retain_available": False,
            "wildcard_subscription_available": False,
            "subscription_identifiers_available": False,
            "shared_subscription_available": False,
        }
    }


@pytest.mark.parametrize("maximum_qos", [0, 1])
def test_maximum_qos(configured: Configured, maximum_qos: int) -> None:
    """A server that does not support every QoS states its Maximum QoS in CONNACK."""
    with WireClient(configured(mqtt={"maximum_qos": maximum_qos}), 5) as client:
        assert (client.connect(unique("c")).properties or {})[props.MAXIMUM_QOS] == maximum_qos


def test_no_maximum_qos(address: Address) -> None:
    """A server that states no Maximum QoS accepts QoS 2; Maximum QoS is never 2."""
    with WireClient(address, 5) as client:
        maximum = (client.connect(unique("c")).properties or {}).get(props.MAXIMUM_QOS)
        assert maximum in (None, 0, 1)
        if maximum is None:
            client.publish(unique("t"), b"x", 1)
            client.publish(unique("t"), b"x", 2)


@pytest.mark.parametrize("maximum_qos", [0, 1])
def test_subscribe_at_any_qos(configured: Configured, version: int, maximum_qos: int) -> None:
    """A server with a Maximum QoS accepts subscriptions at any QoS nevertheless."""
    with connected(configured(mqtt={"maximum_qos": maximum_qos}), version) as client:
        client.send(Subscribe(1, [Subscription(f"t/{qos}", qos) for qos in range(3)]))
        codes = client.expect(Suback).reason_codes
        assert [code <= qos for qos, code in enumerate(codes)] == [True] * 3


@pytest.mark.parametrize(("maximum_qos", "qos"), [(0, 1), (0, 2), (1, 2)])
def test_will_above_maximum_qos(configured: Configured, maximum_qos: int, qos: int) -> None:
    """A client whose will has a QoS above the server's Maximum QoS is refused with 0x9B."""
    with WireClient(configured(mqtt={"maximum_qos": maximum_qos}), 5) as client:
        connack = client.connect(unique("c"), will=Will(b"will", b"gone", qos))
        assert (connack.reason_code, connack.session_present) == (reason_codes.QOS_NOT_SUPPORTED, False)
        assert client.expect_close() is None


def test_will_retain_not_available(configured: Configured) -> None:
    """A server without retained messages refuses a client whose will has RETAIN with 0x9A."""
    with WireClient(configured(mqtt={"retain_available": False}), 5) as client:
        connack = client.connect(unique("c"), will=Will(b"will", b"gone", 0, True))
        assert (connack.reason_code, connack.session_present) == (reason_codes.RETAIN_NOT_SUPPORTED, False)
        assert client.expect_close() is None


def test_not_available_is_told(configured: Configured, nothing_more: dict[str, dict[str, object]]) -> None:
    """CONNACK states each feature that the server does not support."""
    with WireClient(configured(**nothing_more), 5) as client:
        told = client.connect(unique("c")).properties or {}
    expected = (
        props.MAXIMUM_QOS,
        props.RETAIN_AVAILABLE,
        props.WILDCARD_SUBSCRIPTION_AVAILABLE,
        props.SUBSCRIPTION_IDENTIFIER_AVAILABLE,
        props.SHARED_SUBSCRIPTION_AVAILABLE,
    )
    assert [told.get(each) for each in expected] == [0] * 5


# -- information that the client does not want (MQTT 5)


@pytest.mark.parametrize("asked", [{}, {props.REQUEST_RESPONSE_INFORMATION: 0}], ids=["unasked", "asked not to"])
def test_no_response_information(address: Address, asked: Properties) -> None:
    """Only a client that requests Response Information gets it."""
    with WireClient(address, 5) as client:
        connack = client.connect(unique("c"), properties=asked)
        assert props.RESPONSE_INFORMATION not in (connack.properties or {})


def test_no_problem_information(address: Address) -> None:
    """With Request Problem Information 0 no acknowledgement has a Reason String or User Properties."""
    topic = unique("t")
    with connected(address, 5, properties={props.REQUEST_PROBLEM_INFORMATION: 0}) as client:
        client.send(
            by_hand.packet(0x32, by_hand.string(topic) + b"\0\1\0"),  # no matching subscription: 0x10
            by_hand.unsubscribe(5, 2, [topic]),  # no such subscription: 0x11
            by_hand.subscribe(5, 3, [(f"$share//{topic}", 0), ("a/#/b", 0)]),
        )
        packets = []
        try:
            client.send(by_hand.PINGREQ)
            while not isinstance(packet := client.receive(), Pingresp):
                packets.append(packet)
        except ConnectionError:  # the last one may close the connection
            pass
    told = [getattr(packet, "properties", None) or {} for packet in packets if packet.packet_type != 14]
    assert len(told) >= 2
    assert not any(props.REASON_STRING in each or props.USER_PROPERTY in each for each in told)
