"""UNSUBSCRIBE and UNSUBACK (sections 3.10 and 3.11)."""

import pytest

from protocol import properties as props
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.subscribe import Subscription
from protocol.unsuback import Unsuback
from tests.conformance import by_hand
from tests.conformance.answer_size import MANY, check_size
from tests.conformance.delivery import messages, subscribe, topics, unique
from tests.conformance.sessions import KeptSession
from tests.support.process import Address
from tests.support.wire import connected

CODES = {0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91}
"""The reason codes that UNSUBACK may have; 3.1.1 has none."""


# -- malformed UNSUBSCRIBEs


@pytest.mark.parametrize("flags", [flags for flags in range(16) if flags != 2])
def test_wrong_flags(address: Address, version: int, flags: int) -> None:
    """UNSUBSCRIBE with flags other than 0010 closes the connection."""
    with connected(address, version) as client:
        client.send(by_hand.unsubscribe(version, 1, [unique("flags")], first=0xA0 | flags))
        assert not isinstance(client.expect_close(), Unsuback)


@pytest.mark.parametrize("topic_filter", [b"a/\xff", b"a/\xc0\xaf", b"a/\xed\xa0\x80", b"\xc3"])
def test_filter_is_utf8(address: Address, version: int, topic_filter: bytes) -> None:
    """A filter that is not valid UTF-8 closes the connection."""
    with connected(address, version) as client:
        client.send(by_hand.unsubscribe(version, 1, [topic_filter]))
        assert not isinstance(client.expect_close(), Unsuback)


@pytest.mark.parametrize("rest", [b"\0", b"\0\5abcd"], ids=["half a length", "short filter"])
def test_truncated_filter(address: Address, version: int, rest: bytes) -> None:
    """A filter that is longer than the rest of the packet closes the connection."""
    whole = by_hand.unsubscribe(version, 1, ["whole"])
    with connected(address, version) as client:
        client.send(by_hand.packet(by_hand.UNSUBSCRIBE, whole[2:] + rest))
        assert not isinstance(client.expect_close(), Unsuback)


def test_no_filter(address: Address, version: int) -> None:
    """UNSUBSCRIBE without a filter closes the connection."""
    with connected(address, version) as client:
        client.send(by_hand.unsubscribe(version, 1, []))
        assert not isinstance(client.expect_close(), Unsuback)


# -- UNSUBACK


@pytest.mark.parametrize("packet_id", [1, 255, 256, 65535])
def test_unsuback(address: Address, version: int, packet_id: int) -> None:
    """UNSUBSCRIBE is answered with UNSUBACK with the same packet identifier."""
    topic = unique("unsuback")
    with connected(address, version) as client:
        subscribe(client, Subscription(topic))
        client.send(by_hand.unsubscribe(version, packet_id, [topic]))
        first, body = by_hand.receive(client)
        assert first == by_hand.UNSUBACK
        assert by_hand.codes(version, body, packet_id) == ([0] if version == 5 else [])


def test_nothing_to_delete(address: Address, version: int) -> None:
    """UNSUBACK is sent even if there is no such subscription; in 5.0 its code says so."""
    with connected(address, version) as client:
        client.send(by_hand.unsubscribe(version, 300, [unique("nothing")]))
        first, body = by_hand.receive(client)
        assert first == by_hand.UNSUBACK
        assert by_hand.codes(version, body, 300) == ([0x11] if version == 5 else [])


def test_codes_in_order(address: Address) -> None:
    """UNSUBACK has a reason code for each filter, in their order."""
    held, other = unique("held"), unique("held")
    with connected(address, 5) as client:
        subscribe(client, Subscription(held), Subscription(other))
        client.send(by_hand.unsubscribe(5, 2, [held, unique("none"), other, held, unique("none")]))
        codes = by_hand.codes(5, by_hand.receive(client)[1], 2)
        assert set(codes) <= CODES
        assert codes == [0x00, 0x11, 0x00, 0x11, 0x11]  # neither reversed nor sorted


def test_several_filters(address: Address, version: int) -> None:
    """One UNSUBSCRIBE ends all subscriptions that it names, and no others; one UNSUBACK answers it."""
    names = [unique("several") for _ in range(4)]
    with connected(address, version) as client, connected(address, version) as publisher:
        subscribe(client, *[Subscription(name) for name in names])
        client.unsubscribe(names[0], names[2], unique("none"), names[3])
        client.expect_nothing_more()
        publisher.send(*[by_hand.publish(version, name) for name in names])
        assert topics(messages(client, publisher)) == [names[1]]


def test_unsuback_keeps_to_the_maximum_packet_size(address: Address) -> None:
    """An UNSUBACK that fits only without its optional properties is sent without them."""
    filters = [f"{unique('size')}/{number}" for number in range(MANY)]
    check_size(address, by_hand.unsubscribe(5, 1, filters), by_hand.UNSUBACK)


# -- its effect


@pytest.mark.parametrize("other", ["+/b", "{0}/#", "{0}/B", "{0}/b/", "/{0}/b", "{0}/+/", "{0}", "{0}/b"])
def test_only_the_same_filter(address: Address, version: int, other: str) -> None:
    """UNSUBSCRIBE ends only an equal filter, not one that matches the same topics or is similar."""
    base = unique("same")
    with connected(address, version) as client, connected(address, version) as publisher:
        subscribe(client, Subscription(f"{base}/+"))
        client.unsubscribe(other.format(base))
        publisher.publish(f"{base}/b")
        assert topics(messages(client, publisher)) == [f"{base}/b"]
        client.unsubscribe(f"{base}/+")
        publisher.publish(f"{base}/b")
        assert messages(client, publisher) == []


@pytest.mark.parametrize(
    "other", ["{0}/aB", "{0}/AB", "{0}/Ab ", "{0}//Ab", "{0}/Ab/", "{0}/A%62", "{0}/Ab\N{SOFT HYPHEN}"]
)
def test_only_the_same_characters(address: Address, version: int, other: str) -> None:
    """Filters are compared byte by byte: case matters, and so do characters that look alike."""
    base = unique("same")
    with connected(address, version) as client, connected(address, version) as publisher:
        subscribe(client, Subscription(f"{base}/Ab"))
        client.unsubscribe(other.format(base))
        publisher.publish(f"{base}/Ab")
        assert topics(messages(client, publisher)) == [f"{base}/Ab"]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_no_new_messages(address: Address, version: int, qos: int) -> None:
    """A message that is published after UNSUBACK is not delivered."""
    topic = unique("new")
    with connected(address, version) as client, connected(address, version) as publisher:
        subscribe(client, Subscription(topic, qos))
        publisher.publish(topic, b"before", qos)
        assert topics(messages(client, publisher, qos)) == [topic]
        client.unsubscribe(topic)
        publisher.publish(topic, b"after", qos)
        assert messages(client, publisher, qos) == []


@pytest.mark.parametrize("qos", [1, 2])
def test_started_deliveries_go_on(address: Address, version: int, qos: int) -> None:
    """A delivery that began before UNSUBSCRIBE can be acknowledged, and its packet identifier is freed."""
    topic, later = unique("started"), unique("later")
    with connected(address, version) as client, connected(address, version) as publisher:
        subscribe(client, Subscription(topic, qos), Subscription(later, qos))
        publisher.publish(topic, b"started", qos)
        started = client.expect(Publish)
        client.unsubscribe(topic)
        if qos == 1:
            client.send(Puback(started.packet_id))
        else:
            client.send(Pubrec(started.packet_id))
            assert client.expect(Pubrel).packet_id == started.packet_id
            client.send(Pubcomp(started.packet_id))
        publisher.publish(later, b"x", qos)
        assert client.receive_message().topic == later.encode()


@pytest.mark.parametrize("qos", [1, 2])
def test_started_deliveries_are_resent(address: Address, version: int, qos: int) -> None:
    """A delivery that was not acknowledged before UNSUBSCRIBE is resent at the reconnect, and can be completed."""
    topic, client_id = unique("started"), unique("client")
    keep: Properties | None = {props.SESSION_EXPIRY_INTERVAL: 60} if version == 5 else None
    with connected(address, version) as publisher:
        with connected(address, version, client_id=client_id, clean_start=False, properties=keep) as client:
            subscribe(client, Subscription(topic, qos))
            publisher.publish(topic, b"started", qos)
            started = client.expect(Publish)
            client.unsubscribe(topic)
        with connected(address, version, client_id=client_id, clean_start=False, properties=keep) as client:
            again = client.receive_message()
            assert (again.payload, again.packet_id, again.dup) == (b"started", started.packet_id, True)
            assert messages(client, publisher, qos) == []
    connected(address, version, client_id=client_id).disconnect()


def test_started_releases_are_resent(address: Address, version: int) -> None:
    """The PUBREL of a delivery that only lacks PUBCOMP is resent too."""
    topic = unique("started")
    with KeptSession(address, version) as session, connected(address, version) as publisher:
        client = session.connect()
        subscribe(client, Subscription(topic, 2))
        publisher.publish(topic, b"started", 2)
        started = client.expect(Publish)
        client.send(Pubrec(started.packet_id))
        assert client.expect(Pubrel).packet_id == started.packet_id
        client.unsubscribe(topic)
        client.close()
        client = session.connect()
        assert client.expect(Pubrel).packet_id == started.packet_id
        client.send(Pubcomp(started.packet_id))
        client.expect_nothing_more()
