"""Shared subscriptions (section 4.8.2 of 5.0)."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscription
from tests.conformance import by_hand
from tests.conformance.delivery import REFUSED, messages, payloads, subscribe, unique
from tests.support.process import Address
from tests.support.wire import WireClient, connected

KEEP = {props.SESSION_EXPIRY_INTERVAL: 60}


def shared(topic: str, group: str = "group") -> str:
    """The filter of a shared subscription."""
    return f"$share/{group}/{topic}"


@contextmanager
def members(address: Address, count: int, *wanted: Subscription) -> Iterator[list[WireClient]]:
    """Clients that have all subscribed to the same shared subscription."""
    clients = [connected(address, 5) for _ in range(count)]
    try:
        for client in clients:
            subscribe(client, *wanted)
        yield clients
    finally:
        for client in clients:
            client.close()


# -- share names


@pytest.mark.parametrize(
    "topic_filter",
    [
        "$share//topic",
        "$share/+/topic",
        "$share/#/topic",
        "$share/a+/topic",
        "$share/+a/topic",
        "$share/a#b/topic",
        "$share/group",
        "$share/group/",
        "$share/",
        "$share//",
        "$share/#",
        "$share/group/a#",
        "$share/group/#/a",
        "$share/group/a+/b",
    ],
)
def test_bad_share_names(address: Address, topic_filter: str) -> None:
    """A share name that is empty or has wildcards is refused, and so is an invalid filter after the share name."""
    with connected(address, 5) as client:
        client.send(by_hand.subscribe(5, 1, [(topic_filter, 0)]))
        try:
            first, body = by_hand.receive(client)
        except ConnectionError:
            return
        if first == by_hand.SUBACK:
            assert by_hand.codes(5, body, 1)[0] >= REFUSED
        else:
            assert not isinstance(client.expect_close(), Suback)


@pytest.mark.parametrize("group", ["a", "$a", "a b", "ü", "share", "$share"])
def test_good_share_names(address: Address, group: str) -> None:
    """Any other share name is accepted, with a usual filter after it."""
    topic = unique("names")
    for topic_filter in (topic, f"{topic}/#", f"/{topic}", f"+/{topic}"):
        with connected(address, 5) as client, connected(address, 5) as publisher:
            subscribe(client, Subscription(shared(topic_filter, group)))
            publisher.publish(topic_filter.replace("#", "a").replace("+", "b"))
            assert len(messages(client, publisher)) == 1, topic_filter


# -- which member gets a message


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_each_message_to_one_member(address: Address, qos: int) -> None:
    """Each message goes to one member of the group."""
    topic = unique("one")
    sent = [b"%d" % number for number in range(30)]
    with members(address, 3, Subscription(shared(topic), qos)) as group, connected(address, 5) as publisher:
        for payload in sent:
            publisher.publish(topic, payload, qos)
        found = [payload for client in group for payload in payloads(messages(client, publisher, qos))]
        assert sorted(found, key=int) == sent


@pytest.mark.parametrize("qos", [1, 2])
def test_members_that_are_busy(address: Address, qos: int) -> None:
    """When no member has room in its window, each message still goes to one of them."""
    topic = unique("busy")
    sent = [b"%d" % number for number in range(10)]
    narrow = {props.RECEIVE_MAXIMUM: 1}
    with (
        connected(address, 5, properties=narrow) as one,
        connected(address, 5, properties=narrow) as two,
        connected(address, 5) as publisher,
    ):
        for client in (one, two):
            subscribe(client, Subscription(shared(topic), qos))
        for payload in sent:
            publisher.publish(topic, payload, qos)
        found: list[bytes] = []
        while len(found) < len(sent):  # members that acknowledge get more, so it takes several rounds
            for client in (one, two):
                found += payloads(messages(client, publisher, qos))
        assert sorted(found, key=int) == sent


def test_members_that_are_away(address: Address) -> None:
    """When no member is connected, each message goes to the session of one of them."""
    topic = unique("away")
    sent = [b"%d" % number for number in range(10)]
    names = [unique("client"), unique("client")]
    with connected(address, 5) as publisher:
        for name in names:
            with connected(address, 5, client_id=name, properties=KEEP) as client:
                subscribe(client, Subscription(shared(topic), 1))
                client.send(by_hand.packet(0xE0, b""))
                client.expect_close()
        for payload in sent:
            publisher.publish(topic, payload, 1)
        found = []
        for name in names:
            with connected(address, 5, client_id=name, clean_start=False, properties=KEEP) as client:
                found += payloads(messages(client, publisher, 1))
                client.disconnect(properties={props.SESSION_EXPIRY_INTERVAL: 0})
        assert sorted(found, key=int) == sent


def test_groups_are_independent(address: Address) -> None:
    """Each group gets each message, and so does a subscriber without a group."""
    topic = unique("groups")
    with (
        members(address, 2, Subscription(shared(topic, "one"))) as one,
        members(address, 2, Subscription(shared(topic, "two"))) as two,
        members(address, 1, Subscription(topic)) as plain,
        connected(address, 5) as publisher,
    ):
        publisher.publish(topic, b"x")
        found = [sum(len(messages(client, publisher)) for client in group) for group in (one, two, plain)]
        assert found == [1, 1, 1]


def test_shared_and_not_shared(address: Address) -> None:
    """A client with a shared and a non-shared subscription gets a message for each of them."""
    topic = unique("both")
    both = (Subscription(shared(topic)), Subscription(topic))
    with members(address, 1, *both) as (client,), connected(address, 5) as publisher:
        publisher.publish(topic, b"x")
        assert payloads(messages(client, publisher)) == [b"x", b"x"]


def test_group_ends_where_its_filter_does(address: Address) -> None:
    """The same share name with two filters is two shared subscriptions."""
    base = unique("filters")
    with (
        members(address, 1, Subscription(shared(f"{base}/+"))) as (one,),
        members(address, 1, Subscription(shared(f"{base}/#"))) as (two,),
        connected(address, 5) as publisher,
    ):
        publisher.publish(f"{base}/a", b"x")
        assert [len(messages(client, publisher)) for client in (one, two)] == [1, 1]


def test_leaving(address: Address) -> None:
    """A member that unsubscribes or disconnects gets no more messages; the others get all of them."""
    topic = unique("leaving")
    sent = [b"%d" % number for number in range(10)]
    with members(address, 3, Subscription(shared(topic), 1)) as group, connected(address, 5) as publisher:
        leaving, gone, staying = group
        assert leaving.unsubscribe(shared(topic)).reason_codes == [reason_codes.SUCCESS]
        gone.send(by_hand.packet(0xE0, b""))
        gone.expect_close()
        for payload in sent:
            publisher.publish(topic, payload, 1)
        assert payloads(messages(leaving, publisher, 1)) == []
        assert payloads(messages(staying, publisher, 1)) == sent


def test_unsubscribing_names_the_group(address: Address) -> None:
    """UNSUBSCRIBE with the filter alone, or with another share name, ends no shared subscription."""
    topic = unique("naming")
    with members(address, 1, Subscription(shared(topic))) as (client,), connected(address, 5) as publisher:
        answer = client.unsubscribe(topic, shared(topic, "other"))
        assert answer.reason_codes == [reason_codes.NO_SUBSCRIPTION_EXISTED] * 2
        publisher.publish(topic, b"x")
        assert payloads(messages(client, publisher)) == [b"x"]


def test_subscribing_again(address: Address) -> None:
    """A second SUBSCRIBE changes the QoS and makes no second member; one UNSUBSCRIBE ends the membership."""
    topic = unique("again")
    with members(address, 1, Subscription(shared(topic), 2)) as (client,), connected(address, 5) as publisher:
        subscribe(client, Subscription(shared(topic), 1))
        publisher.publish(topic, b"x", 2)
        assert [message.qos for message in messages(client, publisher, 1)] == [1]
        client.unsubscribe(shared(topic))
        publisher.publish(topic, b"y", 2)
        assert messages(client, publisher, 1) == []


@pytest.mark.parametrize("handling", [0, 1, 2])
def test_no_retained_messages(address: Address, handling: int) -> None:
    """A new shared subscription gets no retained messages, whatever its Retain Handling."""
    topic = unique("retained")
    with connected(address, 5) as publisher, connected(address, 5) as client:
        publisher.publish(topic, b"kept", 1, retain=True)
        subscribe(client, Subscription(shared(topic), retain_handling=handling))
        assert messages(client, publisher) == []
        publisher.publish(topic, b"", 1, retain=True)


# -- QoS and deliveries that are interrupted


def test_qos_of_each_member(address: Address) -> None:
    """Each member gets messages at no more than the QoS granted to it."""
    topic = unique("granted")
    with connected(address, 5) as publisher:
        group = [connected(address, 5) for _ in range(3)]
        granted = [subscribe(client, Subscription(shared(topic), qos))[0] for qos, client in enumerate(group)]
        for _ in range(30):
            publisher.publish(topic, b"x", 2)
        found = [messages(client, publisher, qos) for qos, client in zip(granted, group, strict=True)]
        assert sum(map(len, found)) == 30
        for qos, own in zip(granted, found, strict=True):
            assert {message.qos for message in own} <= {qos}
        for client in group:
            client.close()


def test_qos_granted_is_kept(address: Address) -> None:
    """A QoS 1 message is delivered at QoS 0 to the only member, which was granted QoS 0."""
    topic = unique("granted")
    with members(address, 1, Subscription(shared(topic), 0)) as (client,), connected(address, 5) as publisher:
        publisher.publish(topic, b"x", 1)
        assert [message.qos for message in messages(client, publisher)] == [0]


@pytest.mark.parametrize("step", ["PUBLISH", "PUBREL"])
def test_qos_2_waits_for_its_member(address: Address, step: str) -> None:
    """A QoS 2 delivery that has begun is completed with the same member, after its reconnect."""
    topic, client_id = unique("waiting"), unique("client")
    with connected(address, 5) as other, connected(address, 5) as publisher:
        with connected(address, 5, client_id=client_id, properties=KEEP) as client:
            subscribe(client, Subscription(shared(topic), 2))
            publisher.publish(topic, b"x", 2)
            begun = client.expect(Publish)
            if step == "PUBREL":
                client.send(Pubrec(begun.packet_id))
                client.expect(Pubrel)
            subscribe(other, Subscription(shared(topic), 2))
        assert messages(other, publisher, 2) == []
        with connected(address, 5, client_id=client_id, clean_start=False, properties=KEEP) as client:
            if step == "PUBREL":
                assert client.expect(Pubrel).packet_id == begun.packet_id
                client.send(Pubcomp(begun.packet_id))
            else:
                again = client.receive_message()
                assert (again.payload, again.packet_id, again.dup) == (b"x", begun.packet_id, True)
            client.disconnect(properties={props.SESSION_EXPIRY_INTERVAL: 0})
        assert messages(other, publisher, 2) == []


def test_qos_2_ends_with_its_session(address: Address) -> None:
    """A QoS 2 delivery that has begun is sent to no other member when its session has ended."""
    topic, client_id = unique("ending"), unique("client")
    with connected(address, 5) as other, connected(address, 5) as publisher:
        with connected(address, 5, client_id=client_id, properties=KEEP) as client:
            subscribe(client, Subscription(shared(topic), 2))
            publisher.publish(topic, b"x", 2)
            client.expect(Publish)
            subscribe(other, Subscription(shared(topic), 2))
        connected(address, 5, client_id=client_id, clean_start=True).disconnect()  # this ends the session
        publisher.publish(topic, b"y", 2)
        assert payloads(messages(other, publisher, 2)) == [b"y"]


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("code", [reason_codes.UNSPECIFIED_ERROR, reason_codes.QUOTA_EXCEEDED])
def test_rejected_message_is_discarded(address: Address, qos: int, code: int) -> None:
    """A message that its receiver refuses is sent to no other member, nor to it again."""
    topic = unique("rejected")
    with connected(address, 5) as client, connected(address, 5) as other, connected(address, 5) as publisher:
        subscribe(client, Subscription(shared(topic), qos))
        publisher.publish(topic, b"x", qos)
        message = client.expect(Publish)
        subscribe(other, Subscription(shared(topic), qos))
        client.send((Puback if qos == 1 else Pubrec)(message.packet_id, code))
        assert messages(client, publisher, qos) == []
        assert messages(other, publisher, qos) == []
