"""Topic aliases, of the client's PUBLISHes and of the server's (section 3.3.2.3.4 of 5.0)."""

import pytest

from protocol import properties as props
from protocol.disconnect import Disconnect
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.subscribe import Subscription
from tests.conformance import by_hand
from tests.conformance.configured import Configured
from tests.conformance.delivery import acknowledge, messages, payloads, subscribe, topics, unique
from tests.conformance.sessions import KeptSession
from tests.support.process import Address
from tests.support.wire import WireClient, connected


def aliased(topic: str, alias: int, payload: bytes = b"") -> bytes:
    """Return a PUBLISH with QoS 0 and a Topic Alias; with an empty topic, the alias names the topic."""
    return by_hand.packet(0x30, by_hand.string(topic) + b"\3\x23" + alias.to_bytes(2, "big") + payload)


def alias_maximum(client: WireClient) -> int:
    """Connect and return the server's Topic Alias Maximum, or skip the test if it is 0."""
    connack = client.connect()
    assert connack.reason_code == 0
    told = (connack.properties or {}).get(props.TOPIC_ALIAS_MAXIMUM, 0)
    assert isinstance(told, int)
    if told == 0:
        pytest.skip("the server takes no topic aliases")
    return told


def takes_aliases(count: int) -> Properties:
    """CONNECT properties with this Topic Alias Maximum."""
    return {props.TOPIC_ALIAS_MAXIMUM: count}


class AliasedClient:
    """The receiving side of aliases: has the topic of each alias of this connection."""

    def __init__(self, client: WireClient) -> None:
        self.client = client
        self.aliases: dict[int, str] = {}

    def receive(self) -> tuple[str, Publish]:
        """Return the next message and its topic; the message is acknowledged."""
        message = self.client.expect(Publish)
        acknowledge(self.client, message)
        alias = (message.properties or {}).get(props.TOPIC_ALIAS)
        topic = message.topic.decode()
        if isinstance(alias, int):
            assert alias > 0
            if topic:
                self.aliases[alias] = topic
            else:
                assert alias in self.aliases, f"alias {alias} has not been given a topic on this connection"
                topic = self.aliases[alias]
        assert topic, "neither topic nor alias"
        return topic, message


# -- the client's aliases


def check_every_alias(address: Address) -> None:
    """Publish with every alias up to the server's maximum and a topic, then with the alias alone."""
    base = unique("alias")
    with WireClient(address, 5) as publisher, connected(address, 5) as client, connected(address, 5) as other:
        most = alias_maximum(publisher)
        numbers = sorted({1, most} | set(range(1, min(most, 100) + 1)))
        subscribe(client, Subscription(f"{base}/+", 0))
        publisher.send(*[aliased(f"{base}/{number}", number, b"first") for number in numbers])
        publisher.send(*[aliased("", number, b"second") for number in reversed(numbers)])
        publisher.expect_nothing_more()
        found = messages(client, other)
    expected = [(f"{base}/{number}", b"first") for number in numbers]
    expected += [(f"{base}/{number}", b"second") for number in reversed(numbers)]
    assert [(message.topic.decode(), message.payload) for message in found] == expected
    assert all(props.TOPIC_ALIAS not in (message.properties or {}) for message in found), "it is not passed on"


def test_every_alias_is_taken(address: Address) -> None:
    """Each alias from 1 to the maximum in CONNACK can be given a topic and used in its place."""
    check_every_alias(address)


@pytest.mark.parametrize("maximum", [1, 2, 65535])
def test_every_alias_of_other_maxima(configured: Configured, maximum: int) -> None:
    """The same with other configured maxima."""
    check_every_alias(configured(mqtt={"topic_alias_maximum": maximum}))


@pytest.mark.parametrize("qos", [1, 2])
def test_alias_with_qos(address: Address, qos: int) -> None:
    """An alias can be used at each QoS."""
    topic = unique("alias")
    with WireClient(address, 5) as publisher, connected(address, 5) as client:
        alias_maximum(publisher)
        subscribe(client, Subscription(topic, qos))
        publisher.publish(topic, b"first", qos, properties={props.TOPIC_ALIAS: 1})
        publisher.publish("", b"second", qos, properties={props.TOPIC_ALIAS: 1})
        assert payloads(messages(client, publisher, qos)) == [b"first", b"second"]


def test_alias_is_given_another_topic(address: Address) -> None:
    """A PUBLISH with a topic and a known alias gives the alias that topic."""
    base = unique("alias")
    with WireClient(address, 5) as publisher, connected(address, 5) as client:
        alias_maximum(publisher)
        subscribe(client, Subscription(f"{base}/+", 0))
        publisher.send(aliased(f"{base}/a", 1), aliased("", 1), aliased(f"{base}/b", 1), aliased("", 1))
        publisher.expect_nothing_more()
        assert topics(messages(client, publisher)) == [f"{base}/a", f"{base}/a", f"{base}/b", f"{base}/b"]


def test_aliases_of_two_clients(address: Address) -> None:
    """Each connection has its own aliases."""
    base = unique("alias")
    with (
        WireClient(address, 5) as one,
        WireClient(address, 5) as another,
        connected(address, 5) as client,
    ):
        alias_maximum(one)
        alias_maximum(another)
        subscribe(client, Subscription(f"{base}/+", 0))
        for number, publisher in enumerate((one, another)):
            publisher.send(aliased(f"{base}/{number}", 1))
            publisher.expect_nothing_more()
        for publisher in (one, another):
            publisher.send(aliased("", 1))
            publisher.expect_nothing_more()
        assert topics(messages(client, one)) == [f"{base}/0", f"{base}/1", f"{base}/0", f"{base}/1"]


@pytest.mark.parametrize("topic", ["topic", ""])
def test_alias_0_from_a_client(address: Address, topic: str) -> None:
    """Alias 0 closes the connection."""
    with connected(address, 5) as client:
        client.send(aliased(topic, 0))
        assert isinstance(client.expect_close(), Disconnect)


def test_alias_above_the_maximum(address: Address) -> None:
    """An alias above the server's maximum closes the connection with 0x94, and the message is not delivered."""
    topic = unique("alias")
    with WireClient(address, 5) as publisher, connected(address, 5) as client, connected(address, 5) as other:
        most = alias_maximum(publisher)
        if most == 65535:
            pytest.skip("there is no alias above the server's maximum")
        subscribe(client, Subscription(topic, 0))
        publisher.send(aliased(topic, most + 1))
        last = publisher.expect_close()
        assert isinstance(last, Disconnect)
        assert last.reason_code == 0x94
        assert messages(client, other) == []


def test_no_aliases_taken(configured: Configured) -> None:
    """A server without aliases states none, or 0, in CONNACK, and closes with 0x94."""
    with WireClient(configured(mqtt={"topic_alias_maximum": 0}), 5) as client:
        connack = client.connect()
        assert (connack.properties or {}).get(props.TOPIC_ALIAS_MAXIMUM, 0) == 0
        client.send(aliased(unique("alias"), 1))
        last = client.expect_close()
        assert isinstance(last, Disconnect)
        assert last.reason_code == 0x94


def test_unknown_alias(address: Address) -> None:
    """A PUBLISH without a topic and with an unknown alias closes the connection [MQTT5 3.3.4]."""
    with WireClient(address, 5) as client:
        alias_maximum(client)
        client.send(aliased("", 1))
        assert isinstance(client.expect_close(), Disconnect)


def test_aliases_end_with_the_connection(address: Address) -> None:
    """Aliases end with the connection, although the session is kept."""
    topic = unique("alias")
    with KeptSession(address, 5) as session, connected(address, 5) as client, WireClient(address, 5) as asking:
        alias_maximum(asking)
        subscribe(client, Subscription(topic, 0))
        publisher = session.connect()
        publisher.send(aliased(topic, 1, b"first"))
        publisher.expect_nothing_more()
        publisher.disconnect()
        publisher = session.connect()
        publisher.send(aliased("", 1, b"second"))
        assert isinstance(publisher.expect_close(), Disconnect)
        assert payloads(messages(client, asking)) == [b"first"]


# -- the server's aliases


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("maximum", [1, 2, 3, 10, 65535])
def test_server_keeps_to_the_maximum(address: Address, maximum: int, qos: int) -> None:
    """No alias is above the client's maximum, none is 0, and each gives the topic that was published to."""
    base = unique("alias")
    expected = [f"{base}/{number % 5}" for number in range(40)]
    expected += [f"{base}/{number}" for number in range(5, 20)] + [f"{base}/{number % 5}" for number in range(10)]
    with connected(address, 5, properties=takes_aliases(maximum)) as client, connected(address, 5) as publisher:
        subscribe(client, Subscription(f"{base}/+", qos))
        receiver = AliasedClient(client)
        found = []
        for topic in expected:
            publisher.publish(topic, b"payload", qos)
            meant_for, message = receiver.receive()
            if qos == 2:
                acknowledge(client, client.receive())
            found.append(meant_for)
            assert message.payload == b"payload"
            alias = (message.properties or {}).get(props.TOPIC_ALIAS, 1)
            assert isinstance(alias, int)
            assert 1 <= alias <= maximum
    assert found == expected


@pytest.mark.parametrize("maximum", [None, 0])
def test_server_uses_none_unasked(address: Address, maximum: int | None) -> None:
    """A client whose Topic Alias Maximum is 0 or missing gets no alias."""
    topic = unique("alias")
    options = {} if maximum is None else {"properties": takes_aliases(maximum)}
    with connected(address, 5, **options) as client, connected(address, 5) as publisher:
        subscribe(client, Subscription(topic, 0))
        for _ in range(20):
            publisher.publish(topic)
        found = messages(client, publisher)
    assert topics(found) == [topic] * 20
    assert all(props.TOPIC_ALIAS not in (message.properties or {}) for message in found)


def test_server_uses_aliases(configured: Configured) -> None:
    """Sluice uses aliases: repeated topics are sent as an alias."""
    topic = unique("alias")
    address = configured(mqtt={"max_topic_alias_out": 2})
    with connected(address, 5, properties=takes_aliases(10)) as client, connected(address, 5) as publisher:
        subscribe(client, Subscription(topic, 0))
        receiver = AliasedClient(client)
        sent = []
        for _ in range(20):
            publisher.publish(topic)
            meant_for, message = receiver.receive()
            assert meant_for == topic
            sent.append(message.topic)
        assert b"" in sent
        assert set(receiver.aliases) <= {1, 2}


@pytest.mark.parametrize("qos", [0, 1])
def test_server_aliases_end_with_the_connection(address: Address, qos: int) -> None:
    """On the next connection of a session the server gives each alias a topic before it uses it."""
    base = unique("alias")
    with KeptSession(address, 5) as session, connected(address, 5) as publisher:
        client = session.connect(takes_aliases(5))
        subscribe(client, Subscription(f"{base}/+", qos))
        for maximum in (3, 0, 5):
            receiver = AliasedClient(client)
            for number in range(20):
                publisher.publish(f"{base}/{number % 4}", b"", qos)
                assert receiver.receive()[0] == f"{base}/{number % 4}"
            client.disconnect()
            client = session.connect(takes_aliases(maximum))


def test_resent_messages_have_their_topics(address: Address) -> None:
    """Messages resent on a new connection do not use aliases of the old one."""
    base = unique("alias")
    with KeptSession(address, 5) as session, connected(address, 5) as publisher:
        client = session.connect(takes_aliases(5))
        subscribe(client, Subscription(f"{base}/+", 1))
        for number in range(10):
            publisher.publish(f"{base}/{number % 2}", b"%d" % number, 1)
        for _ in range(10):
            client.expect(Publish)  # none is acknowledged
        client.close()
        receiver = AliasedClient(session.connect(takes_aliases(5)))
        for number in range(10):
            topic, message = receiver.receive()
            assert (topic, message.payload) == (f"{base}/{number % 2}", b"%d" % number)
            assert message.dup


def test_directions_are_independent(address: Address) -> None:
    """Aliases of the client and of the server are independent."""
    base = unique("alias")
    with WireClient(address, 5) as client, connected(address, 5) as publisher:
        connack = client.connect(properties=takes_aliases(1))
        if not (connack.properties or {}).get(props.TOPIC_ALIAS_MAXIMUM):
            pytest.skip("the server takes no topic aliases")
        receiver = AliasedClient(client)
        subscribe(client, Subscription(f"{base}/in", 0))
        with connected(address, 5) as other:
            subscribe(other, Subscription(f"{base}/out", 0))
            for _ in range(5):
                publisher.publish(f"{base}/in")
                assert receiver.receive()[0] == f"{base}/in"
            client.send(aliased(f"{base}/out", 1))
            for _ in range(5):
                publisher.publish(f"{base}/in")
                assert receiver.receive()[0] == f"{base}/in"
                client.send(aliased("", 1))
            client.expect_nothing_more()
            assert topics(messages(other, publisher)) == [f"{base}/out"] * 6
