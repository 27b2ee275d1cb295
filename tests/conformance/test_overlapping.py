"""Subscriptions of one client that match one message, and Subscription Identifiers (sections 3.3.5 and 3.3.4)."""

import pytest

from protocol import properties as props
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from tests.conformance.configured import Configured
from tests.conformance.delivery import messages, payloads, subscribe, unique
from tests.conformance.sessions import KeptSession
from tests.support.process import Address
from tests.support.wire import WireClient, connected

MODES = ("merge", "each")
"""Sluice's setting: one copy for all matching subscriptions, or one for each; the standards allow both."""


def identified(client: WireClient, identifier: int | None, *wanted: Subscription) -> list[Publish]:
    """Subscribe with a Subscription Identifier; returns the messages that came before or with SUBACK."""
    told: Properties | None = None if identifier is None else {props.SUBSCRIPTION_IDENTIFIER: identifier}
    client.send(Subscribe(client.packet_id(), list(wanted), told))
    found = []
    while not isinstance(packet := client.receive(), Suback):
        assert isinstance(packet, Publish)
        found.append(packet)
    assert max(packet.reason_codes) < 0x80, packet
    return found


def identifiers(message: Publish) -> list[int]:
    """Return the Subscription Identifiers of a message."""
    found = (message.properties or {}).get(props.SUBSCRIPTION_IDENTIFIER, [])
    assert isinstance(found, list)
    return [number for number in found if isinstance(number, int)]


# -- QoS


def check_highest_qos(address: Address, version: int, published: int) -> list[int]:
    """Publish to four overlapping subscriptions; returns the QoS of each copy that came."""
    base = unique("overlap")
    granted = {f"{base}/+": 0, f"{base}/#": 2, f"{base}/a": 1, f"{base}/+/#": 0}
    with connected(address, version) as client, connected(address, version) as publisher:
        subscribe(client, *[Subscription(topic_filter, qos) for topic_filter, qos in granted.items()])
        publisher.publish(f"{base}/a", b"payload", published)
        found = messages(client, publisher, published)
    assert set(payloads(found)) == {b"payload"}
    copies = [message.qos for message in found]
    assert max(copies) == min(published, 2), "the highest QoS of all matching subscriptions"
    possible = sorted((min(published, qos) for qos in granted.values()), reverse=True)
    for qos in copies:
        assert qos in possible, "no copy without a subscription that grants its QoS"
        possible.remove(qos)
    return copies


@pytest.mark.parametrize("published", [0, 1, 2])
def test_highest_qos(address: Address, version: int, published: int) -> None:
    """One copy has the highest QoS of the matching subscriptions; further copies have that of each subscription."""
    check_highest_qos(address, version, published)


@pytest.mark.parametrize("mode", MODES)
def test_highest_qos_in_both_modes(configured: Configured, version: int, mode: str) -> None:
    """The same with Sluice's setting for one copy, and with that for a copy for each subscription."""
    copies = check_highest_qos(configured(mqtt={"overlapping_subscriptions": mode}), version, 2)
    assert sorted(copies) == ([2] if mode == "merge" else [0, 0, 1, 2])


def test_order_of_subscribing_does_not_matter(address: Address, version: int) -> None:
    """The highest QoS applies, whatever the order of the SUBSCRIBEs, also if its filter is without wildcards."""
    base = unique("overlap")
    filters = [f"{base}/#", f"{base}/+", f"{base}/a"]
    with connected(address, version) as publisher:
        for high in range(3):
            with connected(address, version) as client:
                for number, topic_filter in enumerate(filters):
                    subscribe(client, Subscription(topic_filter, 2 if number == high else 0))
                publisher.publish(f"{base}/a", b"", 2)
                assert max(message.qos for message in messages(client, publisher, 2)) == 2


def test_unsubscribing_the_highest(address: Address, version: int) -> None:
    """After the subscription with the highest QoS has ended, the next highest applies."""
    base = unique("overlap")
    with connected(address, version) as client, connected(address, version) as publisher:
        subscribe(client, Subscription(f"{base}/#", 2), Subscription(f"{base}/a", 1), Subscription(f"{base}/+", 0))
        for highest, topic_filter in ((2, f"{base}/#"), (1, f"{base}/a"), (0, f"{base}/+")):
            publisher.publish(f"{base}/a", b"", 2)
            assert max(message.qos for message in messages(client, publisher, 2)) == highest
            client.unsubscribe(topic_filter)
        publisher.publish(f"{base}/a", b"", 2)
        assert messages(client, publisher, 2) == []


# -- Subscription Identifiers


def check_identifiers(address: Address) -> list[list[int]]:
    """Publish to overlapping subscriptions with identifiers and one without; returns those of each copy."""
    base = unique("identifier")
    filters: dict[str, int | None] = {f"{base}/+": 1, f"{base}/#": 268_435_455, f"{base}/a": 128, f"{base}/+/#": None}
    with connected(address, 5) as client, connected(address, 5) as publisher:
        for topic_filter, identifier in filters.items():
            identified(client, identifier, Subscription(topic_filter, 1))
        identified(client, 99, Subscription(f"{base}/b", 1))
        publisher.publish(f"{base}/a", b"payload", 1)
        found = messages(client, publisher, 1)
    assert set(payloads(found)) == {b"payload"}
    return [sorted(identifiers(message)) for message in found]


def check_one_copy_or_one_each(copies: list[list[int]]) -> None:
    """A single copy has all identifiers; of several, each has that of its own subscription."""
    if len(copies) == 1:
        assert copies == [[1, 128, 268_435_455]]
    else:
        assert sorted(copies) == [[], [1], [128], [268_435_455]]


def test_all_identifiers_come(address: Address) -> None:
    """The copies together have the identifiers of all matching subscriptions that have one."""
    copies = check_identifiers(address)
    assert sorted({number for copy in copies for number in copy}) == [1, 128, 268_435_455]


def test_identifiers_of_each_copy(address: Address) -> None:
    """A single copy has all identifiers; with a copy for each subscription, each has its own."""
    check_one_copy_or_one_each(check_identifiers(address))


@pytest.mark.parametrize("mode", MODES)
def test_identifiers_in_both_modes(configured: Configured, mode: str) -> None:
    """The same with Sluice's setting for one copy, and with that for a copy for each subscription."""
    copies = check_identifiers(configured(mqtt={"overlapping_subscriptions": mode}))
    assert len(copies) == (1 if mode == "merge" else 4)
    check_one_copy_or_one_each(copies)


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("identifier", [1, 127, 128, 16_384, 2_097_152, 268_435_455])
def test_identifier_of_one_subscription(address: Address, identifier: int, qos: int) -> None:
    """A message has the identifier of the one subscription that matches, at each QoS."""
    topic = unique("identifier")
    with connected(address, 5) as client, connected(address, 5) as publisher:
        identified(client, identifier, Subscription(topic, qos))
        identified(client, 7, Subscription(unique("other"), qos))
        publisher.publish(topic, b"payload", qos)
        (message,) = messages(client, publisher, qos)
    assert identifiers(message) == [identifier]


def test_no_identifier(address: Address) -> None:
    """Messages of a subscription without an identifier have none."""
    topic = unique("identifier")
    with connected(address, 5) as client, connected(address, 5) as other, connected(address, 5) as publisher:
        subscribe(client, Subscription(topic, 1))
        identified(other, 5, Subscription(topic, 1))
        publisher.publish(topic, b"", 1)
        assert [identifiers(message) for message in messages(client, publisher, 1)] == [[]]
        assert [identifiers(message) for message in messages(other, publisher, 1)] == [[5]]


def test_one_identifier_for_several_filters(address: Address) -> None:
    """Filters of one SUBSCRIBE share its identifier: each copy has this one and no other."""
    base = unique("identifier")
    with connected(address, 5) as client, connected(address, 5) as publisher:
        identified(client, 3, Subscription(f"{base}/+", 1), Subscription(f"{base}/#", 1))
        publisher.publish(f"{base}/a", b"", 1)
        found = messages(client, publisher, 1)
    assert found
    assert all(set(identifiers(message)) == {3} for message in found)


def test_identifier_is_replaced(address: Address) -> None:
    """Subscribing again replaces the identifier, or removes it [MQTT5 3.8.4]."""
    topic = unique("identifier")
    with connected(address, 5) as client, connected(address, 5) as publisher:
        for identifier, expected in ((4, [4]), (5, [5]), (None, []), (6, [6])):
            identified(client, identifier, Subscription(topic, 1))
            publisher.publish(topic, b"", 1)
            assert [identifiers(message) for message in messages(client, publisher, 1)] == [expected]


def test_identifier_of_retained_messages(address: Address) -> None:
    """A retained message has the identifier of the new subscription that causes it to be sent."""
    topic = unique("identifier")
    with connected(address, 5) as client, connected(address, 5) as publisher:
        publisher.publish(topic, b"kept", 1, retain=True)
        found = identified(client, 8, Subscription(topic, 0))
        found += messages(client, publisher)
        publisher.publish(topic, b"", 1, retain=True)
    assert [(message.payload, identifiers(message)) for message in found] == [(b"kept", [8])]


def test_identifier_of_a_kept_session(address: Address) -> None:
    """Identifiers are part of the session: messages that waited have them, and those after a reconnect."""
    topic = unique("identifier")
    with KeptSession(address, 5) as session, connected(address, 5) as publisher:
        client = session.connect()
        identified(client, 11, Subscription(topic, 1))
        client.disconnect()
        publisher.publish(topic, b"waited", 1)
        client = session.connect()
        publisher.publish(topic, b"at once", 1)
        found = messages(client, publisher, 1)
    assert [(message.payload, identifiers(message)) for message in found] == [(b"waited", [11]), (b"at once", [11])]


def test_identifiers_of_each_client(address: Address) -> None:
    """Each client gets only its own identifiers; 3.1.1 clients and the publisher get none of others."""
    topic = unique("identifier")
    with connected(address, 5) as one, connected(address, 5) as another, connected(address, 4) as older:
        identified(one, 1, Subscription(topic, 0))
        identified(another, 2, Subscription(topic, 0))
        subscribe(older, Subscription(topic, 0))
        one.publish(topic, b"payload", properties={props.USER_PROPERTY: [("key", "value")]})
        assert identifiers(one.expect(Publish)) == [1]
        (theirs,) = messages(another, one)
        assert identifiers(theirs) == [2]
        assert (theirs.properties or {})[props.USER_PROPERTY] == [("key", "value")]
        assert payloads(messages(older, another)) == [b"payload"]
