"""SUBSCRIBE and SUBACK (sections 3.8 and 3.9)."""

import pytest

from protocol import properties as props
from protocol.disconnect import Disconnect
from protocol.properties import Properties
from protocol.publish import Publish, encode_publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from tests.conformance import by_hand
from tests.conformance.answer_size import MANY, check_size
from tests.conformance.configured import Configured
from tests.conformance.delivery import REFUSED, collect, messages, payloads, subscribe, unique
from tests.support.process import Address
from tests.support.wire import connected

CODES = {
    4: {0x00, 0x01, 0x02, 0x80},
    5: {0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2},
}
"""The codes that SUBACK may have."""

NO_LOCAL = 0x04


# -- malformed SUBSCRIBEs


@pytest.mark.parametrize("flags", [flags for flags in range(16) if flags != 2])
def test_wrong_flags(address: Address, version: int, flags: int) -> None:
    """SUBSCRIBE with flags other than 0010 closes the connection."""
    with connected(address, version) as client:
        client.send(by_hand.subscribe(version, 1, [(unique("flags"), 0)], first=0x80 | flags))
        assert not isinstance(client.expect_close(), Suback)


@pytest.mark.parametrize("topic_filter", [b"a/\xff", b"a/\xc0\xaf", b"a/\xed\xa0\x80", b"a/\xf5\x80\x80\x80", b"\xc3"])
def test_filter_is_utf8(address: Address, version: int, topic_filter: bytes) -> None:
    """A filter that is not valid UTF-8 closes the connection."""
    with connected(address, version) as client:
        client.send(by_hand.subscribe(version, 1, [(topic_filter, 0)]))
        assert not isinstance(client.expect_close(), Suback)


def test_filter_beyond_ascii(address: Address, version: int) -> None:
    """A filter with characters of two, three and four bytes is accepted and matches."""
    topic = unique("Straße/温度/🌡")
    with connected(address, version) as client:
        client.send(by_hand.subscribe(version, 1, [(topic, 0)]))
        assert by_hand.codes(version, by_hand.receive(client)[1], 1) == [0]
        client.send(by_hand.publish(version, topic, b"warm"))
        assert client.expect(Publish).topic == topic.encode()


def test_no_filter(address: Address, version: int) -> None:
    """SUBSCRIBE without a filter closes the connection."""
    with connected(address, version) as client:
        client.send(by_hand.subscribe(version, 1, []))
        assert not isinstance(client.expect_close(), Suback)


def test_reserved_option_bits(address: Address, version: int) -> None:
    """Each reserved bit of the options closes the connection: six in 3.1.1, two in 5.0."""
    reserved = [0x40, 0x80] if version == 5 else [0x04, 0x08, 0x10, 0x20, 0x40, 0x80]
    for bit in reserved:
        with connected(address, version) as client:
            client.send(by_hand.subscribe(version, 1, [(unique("reserved"), 1 | bit)]))
            assert not isinstance(client.expect_close(), Suback), f"bit {bit:#04x}"


def test_qos_3(address: Address, version: int) -> None:
    """QoS 3 closes the connection."""
    with connected(address, version) as client:
        client.send(by_hand.subscribe(version, 1, [(unique("qos"), 3)]))
        assert not isinstance(client.expect_close(), Suback)


def test_retain_handling_3(address: Address) -> None:
    """Retain Handling 3 is a protocol error [MQTT5 3.8.3.1]."""
    with connected(address, 5) as client:
        client.send(by_hand.subscribe(5, 1, [(unique("handling"), 0x30)]))
        assert not isinstance(client.expect_close(), Suback)


@pytest.mark.parametrize("identifiers", [b"\x0b\x00", b"\x0b\x01\x0b\x02"], ids=["zero", "two"])
def test_bad_subscription_identifiers(address: Address, identifiers: bytes) -> None:
    """A Subscription Identifier of 0, or a second one, is a protocol error [MQTT5 3.8.2.1.2]."""
    with connected(address, 5) as client:
        body = b"\0\1" + bytes((len(identifiers),)) + identifiers + by_hand.string(unique("identifier")) + b"\0"
        client.send(by_hand.packet(by_hand.SUBSCRIBE, body))
        assert not isinstance(client.expect_close(), Suback)


# -- SUBACK


@pytest.mark.parametrize("packet_id", [1, 255, 256, 65535])
def test_suback(address: Address, version: int, packet_id: int) -> None:
    """SUBSCRIBE is answered with SUBACK with the same packet identifier."""
    with connected(address, version) as client:
        client.send(by_hand.subscribe(version, packet_id, [(unique("suback"), 0)]))
        first, body = by_hand.receive(client)
        assert first == by_hand.SUBACK
        assert by_hand.codes(version, body, packet_id) == [0]


def test_several_filters(address: Address, version: int) -> None:
    """One SUBACK has a code for each filter, in their order, and each filter gets its messages."""
    filters = [unique("several") for _ in range(9)]
    asked = [0, 1, 2, 2, 0, 1, 0, 0, 2]
    with connected(address, version) as client, connected(address, version) as publisher:
        client.send(by_hand.subscribe(version, 7, list(zip(filters, asked, strict=True))))
        granted = by_hand.codes(version, by_hand.receive(client)[1], 7)
        assert set(granted) <= CODES[version]
        assert granted == [min(qos, max(granted)) for qos in asked]
        client.expect_nothing_more()
        publisher.send(*[by_hand.publish(version, topic) for topic in filters])
        assert [message.topic.decode() for message in messages(client, publisher)] == filters


def test_refused_filter_among_others(configured: Configured, version: int) -> None:
    """A refused filter has its code in its place among the others; the others are granted and get messages."""
    wanted: list[tuple[str | bytes, int]] = [("free/a", 1), ("secret/b", 0), ("free/c", 2), ("secret/+/d", 2)]
    address = configured(authorization={"deny_subscribe": ["secret/#"]})
    with connected(address, version) as client, connected(address, version) as publisher:
        client.send(by_hand.subscribe(version, 3, wanted))
        granted = by_hand.codes(version, by_hand.receive(client)[1], 3)
        assert granted == [1, 0x80, 2, 0x80]
        publisher.send(*[by_hand.publish(version, t) for t in ("secret/b", "free/a", "secret/x/d", "free/c")])
        assert [message.topic for message in messages(client, publisher)] == [b"free/a", b"free/c"]


SUBACK_CODES = {4: {0, 1, 2, 0x80}, 5: {0, 1, 2, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2}}
"""The codes that SUBACK may have, by protocol version."""


@pytest.mark.parametrize("topic_filter", ["a/" * 1_000, "+/" * 1_000 + "#", "$SYS/#", "$test/+", "a" * 65_535])
def test_codes(address: Address, version: int, topic_filter: str) -> None:
    """Each code of SUBACK is one of the version's table; or the connection closes."""
    with connected(address, version) as client:
        client.send(by_hand.subscribe(version, 1, [(topic_filter, 1)]))
        try:
            first, body = by_hand.receive(client)
        except ConnectionError:
            return
        if first == by_hand.SUBACK:
            assert set(by_hand.codes(version, body, 1)) <= SUBACK_CODES[version]


def test_one_filter_twice_in_a_packet(address: Address, version: int) -> None:
    """Of two equal filters in a SUBSCRIBE the second replaces the first, as if they were in two packets."""
    topic = unique("twice")
    with connected(address, version) as client, connected(address, version) as publisher:
        assert subscribe(client, Subscription(topic, 1), Subscription(topic, 0)) == [1, 0]
        publisher.publish(topic, b"x", 1)
        assert [message.qos for message in messages(client, publisher)] == [0]


def test_suback_keeps_to_the_maximum_packet_size(address: Address) -> None:
    """A SUBACK that fits only without its optional properties is sent without them."""
    filters = [f"{unique('size')}/{number}" for number in range(MANY)]
    check_size(address, by_hand.subscribe(5, 1, [(each, 0) for each in filters]), by_hand.SUBACK)


def test_suback_of_refusals_keeps_to_the_maximum_packet_size(configured: Configured) -> None:
    """A SUBACK with the reason for a refusal is sent without the reason if it does not fit."""
    address = configured(authorization={"deny_subscribe": ["secret/#"]})
    filters = [f"secret/{number}" for number in range(MANY)]
    with connected(address, 5) as client:
        assert set(client.subscribe(*filters).reason_codes) == {0x80}
    check_size(address, by_hand.subscribe(5, 1, [(each, 0) for each in filters]), by_hand.SUBACK)


# -- wildcards


def test_wildcards_are_served_or_refused(address: Address, version: int) -> None:
    """A filter with a wildcard is refused, or gets its messages."""
    topic = unique("wild")
    with connected(address, version) as client, connected(address, version) as publisher:
        client.send(Subscribe(client.packet_id(), [Subscription(f"{topic}/+"), Subscription(f"{topic}/#")]))
        granted = client.expect(Suback).reason_codes
        publisher.publish(f"{topic}/a")
        assert bool(messages(client, publisher)) == (min(granted) < REFUSED)


def test_wildcards_switched_off(configured: Configured) -> None:
    """A 3.1.1 server with wildcards switched off refuses each filter that has one, and accepts the others."""
    address = configured(mqtt={"wildcard_subscription_available": False})
    with connected(address, 4) as client, connected(address, 4) as publisher:
        client.send(by_hand.subscribe(4, 1, [("a/+", 0), ("a/b", 0), ("#", 1), ("+", 2)]))
        assert by_hand.codes(4, by_hand.receive(client)[1], 1) == [0x80, 0, 0x80, 0x80]
        publisher.send(by_hand.publish(4, "a/c"), by_hand.publish(4, "a/b"))
        assert [message.topic for message in messages(client, publisher)] == [b"a/b"]


@pytest.mark.parametrize(
    ("key", "packet", "code"),
    [
        ("wildcard_subscription_available", by_hand.subscribe(5, 1, [("a", 0), ("a/+", 0)]), 0xA2),
        ("shared_subscription_available", by_hand.subscribe(5, 1, [("a", 0), ("$share/group/a", 0)]), 0x9E),
        ("subscription_identifiers_available", by_hand.packet(0x82, b"\0\1\2\x0b\1\0\1a\0"), 0xA1),
    ],
    ids=["wildcard", "shared", "identifier"],
)
def test_used_though_not_available(configured: Configured, key: str, packet: bytes, code: int) -> None:
    """Using a feature that CONNACK declares unavailable is a protocol error [MQTT5 3.2.2.3.11 to 13]."""
    with connected(configured(mqtt={key: False}), 5) as client:
        client.send(packet)
        last = client.expect_close()
        assert isinstance(last, Disconnect)
        assert last.reason_code == code


# -- No Local


def test_no_local(address: Address) -> None:
    """With No Local the publisher does not get its own message; others do, and it gets theirs."""
    topic = unique("local")
    with connected(address, 5) as client, connected(address, 5) as other:
        subscribe(client, Subscription(topic, no_local=True))
        subscribe(other, Subscription(topic))
        client.publish(topic, b"own")
        assert other.receive_message().payload == b"own"
        other.publish(topic, b"foreign")
        assert payloads(messages(client, other)) == [b"foreign"]


def test_no_local_across_connections(address: Address) -> None:
    """No Local goes by the client id: messages that the client published over an earlier connection are its own too."""
    topic, client_id = unique("local"), unique("client")
    expiry = {props.SESSION_EXPIRY_INTERVAL: 60}
    with connected(address, 5, client_id=client_id, properties=expiry) as client:
        subscribe(client, Subscription(topic, 1, no_local=True))
        client.publish(topic, b"own", 1)
    with connected(address, 5, client_id=client_id, clean_start=False, properties=expiry) as client:
        with connected(address, 5) as other:
            client.publish(topic, b"own again", 1)
            other.publish(topic, b"foreign", 1)
            assert payloads(messages(client, other, 1)) == [b"foreign"]
        client.disconnect(properties={props.SESSION_EXPIRY_INTERVAL: 0})


def test_no_local_of_retained_messages(address: Address) -> None:
    """A subscription with No Local does not get the retained messages of its own client."""
    topic = unique("local")
    with connected(address, 5) as client, connected(address, 5) as other:
        client.publish(f"{topic}/own", b"own", 1, retain=True)
        other.publish(f"{topic}/foreign", b"foreign", 1, retain=True)
        assert messages(client, other) == []  # both have been handled
        client.send(Subscribe(client.packet_id(), [Subscription(f"{topic}/+", no_local=True)]))
        assert payloads(messages(client, other)) == [b"foreign"]
        for name in ("own", "foreign"):
            other.publish(f"{topic}/{name}", b"", 1, retain=True)


def test_no_local_on_a_shared_subscription(address: Address) -> None:
    """No Local on a shared subscription closes the connection."""
    with connected(address, 5) as client:
        client.send(by_hand.subscribe(5, 1, [(f"$share/group/{unique('local')}", NO_LOCAL)]))
        assert not isinstance(client.expect_close(), Suback)


# -- replacing a subscription


@pytest.mark.parametrize(("before", "after"), [(0, 2), (2, 0), (1, 2), (2, 1), (1, 1)])
def test_replacing_takes_the_new_qos(address: Address, version: int, before: int, after: int) -> None:
    """A second subscription to a filter replaces the first: one delivery, at the QoS of the second."""
    topic = unique("replace")
    with connected(address, version) as client, connected(address, version) as publisher:
        subscribe(client, Subscription(topic, before))
        subscribe(client, Subscription(topic, after))
        publisher.publish(topic, b"x", 2)
        assert [message.qos for message in messages(client, publisher, after)] == [after]


def test_replacing_takes_the_new_options(address: Address) -> None:
    """The options of the second subscription apply: here No Local and Retain As Published."""
    topic = unique("replace")
    with connected(address, 5) as client, connected(address, 5) as publisher:
        subscribe(client, Subscription(topic, no_local=True))
        subscribe(client, Subscription(topic, retain_as_published=True))
        publisher.publish(topic, b"kept", retain=True)
        client.publish(topic, b"own")
        found = [client.receive_message(), client.receive_message()]
        publisher.publish(topic, b"", retain=True)
        assert sorted((message.payload, message.retain) for message in found) == [(b"kept", True), (b"own", False)]


def test_replacing_resends_retained_messages(address: Address, version: int) -> None:
    """A second subscription to a filter gets the retained messages again."""
    topic = unique("retained")
    with connected(address, version) as client, connected(address, version) as publisher:
        publisher.publish(topic, b"kept", 1, retain=True)
        assert messages(client, publisher) == []  # it has been handled
        for _ in range(2):
            subscribe(client, Subscription(topic, 1))
            message = client.receive_message()
            assert (message.payload, message.retain) == (b"kept", True)
        publisher.publish(topic, b"", 1, retain=True)


def test_replacing_loses_nothing(address: Address, version: int) -> None:
    """While a subscription is replaced repeatedly, each message is delivered."""
    topic = unique("flow")
    sent = [b"%d" % number for number in range(200)]
    with connected(address, version) as client, connected(address, version) as publisher:
        subscribe(client, Subscription(topic, 1))
        found: list[Publish] = []
        for number, payload in enumerate(sent, 1):
            packet = encode_publish(topic.encode(), payload, 1, False, False, number, None, version)
            publisher.send(packet)
            client.send(Subscribe(client.packet_id(), [Subscription(topic, 1)]))
            found += collect(client, lambda packet: isinstance(packet, Suback))
        while len(found) < len(sent):
            found.append(client.receive_message())
        assert payloads(found) == sent


# -- QoS


@pytest.mark.parametrize("granted", [0, 1, 2])
@pytest.mark.parametrize("published", [0, 1, 2])
def test_qos_of_deliveries(address: Address, version: int, published: int, granted: int) -> None:
    """A message is delivered at the lower of its own QoS and the one granted."""
    topic = unique("qos")
    with connected(address, version) as client, connected(address, version) as publisher:
        granted = subscribe(client, Subscription(topic, granted))[0]
        publisher.publish(topic, b"x", published)
        message = client.receive_message()
        assert message.qos == min(published, granted)


@pytest.mark.parametrize("granted", [0, 1, 2])
@pytest.mark.parametrize("published", [1, 2])
def test_qos_of_retained_messages(address: Address, version: int, published: int, granted: int) -> None:
    """A retained message is delivered at the lower of the two too."""
    topic = unique("qos")
    with connected(address, version) as client, connected(address, version) as publisher:
        publisher.publish(topic, b"x", published, retain=True)
        assert messages(client, publisher) == []  # it has been handled
        client.send(by_hand.subscribe(version, 1, [(topic, granted)]))
        granted = by_hand.codes(version, by_hand.receive(client)[1], 1)[0]
        assert [message.qos for message in messages(client, publisher, 2)] == [min(published, granted)]
        publisher.publish(topic, b"", 1, retain=True)


@pytest.mark.parametrize("option", ["identifier", "No Local", "Retain As Published"])
@pytest.mark.parametrize("granted", [0, 1, 2])
def test_qos_beside_other_options(address: Address, granted: int, option: str) -> None:
    """Other options of an MQTT 5 SUBSCRIBE do not change that."""
    topic = unique("qos")
    properties: Properties = {props.SUBSCRIPTION_IDENTIFIER: 5} if option == "identifier" else {}
    wanted = Subscription(topic, granted, option == "No Local", option == "Retain As Published")
    with connected(address, 5) as client, connected(address, 5) as publisher:
        client.send(Subscribe(1, [wanted], properties))
        granted = client.expect(Suback).reason_codes[0]
        for published in (0, 1, 2):
            publisher.publish(topic, b"x", published)
            assert client.receive_message().qos == min(published, granted)
