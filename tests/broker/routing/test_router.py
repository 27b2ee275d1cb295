"""Routing by itself: the tree and the cache compared with a reference matcher, and the content of the cache."""

from itertools import permutations
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.routing.filter_tree import FilterTree
from broker.routing.retained import Retained
from broker.routing.router import Router, is_wildcard
from broker.routing.shared_queues import SharedQueues
from broker.runtime.timers import Wheel
from protocol import properties as props
from protocol.decoder import Decoder
from protocol.errors import TopicNameInvalid
from protocol.publish import Publish
from protocol.publish_encoder import encode_identifiers
from protocol.subscribe import Subscription
from protocol.topics import matches
from session.limits import Limits
from tests.support.broker.routing import outbound, received, router

LEVELS = ["", "a", "b", "$s", "ä"]
topics = st.lists(st.sampled_from(LEVELS), min_size=1, max_size=4).map("/".join).filter(bool)


def _filter(levels: list[str], rest: bool) -> str:
    return "/".join([*levels, "#"] if rest else levels)


filters = st.builds(_filter, st.lists(st.sampled_from([*LEVELS, "+"]), max_size=4), st.booleans()).filter(bool)


class Change(NamedTuple):
    """One step of a test: a session subscribes, or unsubscribes (qos None)."""

    session: int
    topic_filter: str
    qos: int | None


changes = st.lists(
    st.builds(Change, st.integers(0, 2), filters, st.none() | st.integers(0, 2)),
    max_size=25,
)


def expected(held: dict[str, int], topic: str) -> list[tuple[str, int]]:
    """What one session gets of a QoS 2 message: one delivery at the highest QoS of all that match."""
    matching = [qos for topic_filter, qos in held.items() if matches(topic_filter, topic)]
    return [(topic, max(matching))] if matching else []


@given(
    steps=changes,
    published=st.lists(topics, min_size=1, max_size=6),
    cached=st.sampled_from([1, 2, 65_536]),
    one_in=st.sampled_from([1, 2, 1000]),
)
def test_against_the_reference(steps: list[Change], published: list[str], cached: int, one_in: int) -> None:
    """After any subscriptions and unsubscriptions each message gets the receivers of the reference matcher."""
    subject = router(cached, one_in)
    receivers = [outbound() for _ in range(3)]
    held: list[dict[str, int]] = [{} for _ in receivers]

    def check() -> None:
        for topic in published:
            matched = subject.route(Publish(topic.encode(), b"x", 2), None)
            wanted = [expected(subscriptions, topic) for subscriptions in held]
            assert [received(receiver) for receiver in receivers] == wanted
            assert matched == any(wanted)

    for session, topic_filter, qos in steps:
        if qos is None:
            held[session].pop(topic_filter, None)
            subject.unsubscribe(receivers[session], topic_filter)
        else:
            held[session][topic_filter] = qos
            subject.subscribe(receivers[session], Subscription(topic_filter, qos))
        check()
        assert len(subject.cached.stale) <= cached
    check()
    assert len(subject.cached.receivers) <= cached
    subject.cached.stale.forget(len(subject.cached.stale))
    subscribed = {name for subscriptions in held for name in subscriptions if not is_wildcard(name.encode())}
    known = {topic.decode() for topic in subject.cached.receivers}
    assert {topic.decode() for topic in subject.topics} == subscribed | known


@given(subscribed=st.lists(filters, max_size=20, unique=True), topic=topics)
def test_tree_matches(subscribed: list[str], topic: str) -> None:
    """The tree finds each matching filter once, and no other."""
    tree = FilterTree()
    receivers = {outbound(): topic_filter for topic_filter in subscribed}
    for receiver, topic_filter in receivers.items():
        tree.at(topic_filter.encode()).add("", receiver, Subscription(topic_filter, 0), SharedQueues())
    found = [receivers[receiver] for subscribers in tree.match(topic.encode()) for receiver, _ in subscribers.each()]
    assert sorted(found) == sorted(topic_filter for topic_filter in subscribed if matches(topic_filter, topic))


@given(subscribed=st.lists(filters, max_size=20, unique=True))
def test_tree_is_empty_again(subscribed: list[str]) -> None:
    """Ending every subscription, shared ones too, empties the tree; ending an unknown one does nothing."""
    subject, receiver = router(), outbound()
    prefixes = ("", "$share/a/", "$share/b/")
    for topic_filter in subscribed:
        for prefix in prefixes:
            subject.subscribe(receiver, Subscription(prefix + topic_filter, 0))
    for topic_filter in subscribed:
        for prefix in prefixes:
            subject.unsubscribe(receiver, prefix + topic_filter)
            subject.unsubscribe(receiver, prefix + topic_filter)
        subject.unsubscribe(receiver, "never/there")
        subject.unsubscribe(receiver, "$share/c/never/#")
    assert subject._wildcard._root.is_unused()
    assert not subject.topics


@given(stored=st.lists(topics, max_size=15), removed=st.lists(topics, max_size=5), topic_filter=filters)
def test_retained_matches(stored: list[str], removed: list[str], topic_filter: str) -> None:
    """A filter finds the latest message of each matching topic, once."""
    retained = Retained(Wheel(0))
    kept: dict[str, bytes] = {}
    for number, topic in enumerate(stored):
        kept[topic] = b"%d" % number
        retained.store(Publish(topic.encode(), kept[topic], retain=True), "c")
    for topic in removed:
        kept.pop(topic, None)
        retained.store(Publish(topic.encode(), b"", retain=True), "c")
    assert len(retained) == len(kept)
    found = [(message.topic.decode(), message.payload) for message in retained.matching(topic_filter.encode(), 0)]
    assert sorted(found) == sorted(item for item in kept.items() if matches(topic_filter, item[0]))
    for topic in list(kept):
        retained.remove(topic.encode())
    assert not retained._root.children


def test_retained_expire() -> None:
    """An expired retained message is not found, and is removed."""
    retained = Retained(Wheel(0))
    for topic, expires_at in ((b"a/1", 0), (b"a/2", 100), (b"a/3", 200)):
        message = Publish(topic, b"x", retain=True)
        message.expires_at = expires_at
        retained.store(message, "c")
    assert len(retained.matching(b"a/+", 99)) == 3
    assert [message.topic for message in retained.matching(b"a/+", 100)] == [b"a/1", b"a/3"]
    assert len(retained) == 2
    assert retained.matching(b"a/3", 200) == []
    assert [message.topic for message in retained.matching(b"#", 10**9)] == [b"a/1"]
    assert len(retained) == 1


@pytest.mark.parametrize("topic_filters", list(permutations(("t", "+", "#"))))
def test_own_message_and_no_local(topic_filters: tuple[str, ...]) -> None:
    """[MQTT-3.8.3-3]: a session gets its own message at the highest QoS of its subscriptions without No Local."""
    subject, receiver = router(), outbound()
    for qos, topic_filter in enumerate(topic_filters):
        subject.subscribe(receiver, Subscription(topic_filter, qos, no_local=qos == 2))
    subject.route(Publish(b"t", b"x", 2), receiver)
    assert received(receiver) == [("t", 1)]
    subject.route(Publish(b"t", b"x", 2), outbound())
    assert received(receiver) == [("t", 2)]


# -- options


class Wanted(NamedTuple):
    """A subscription of one session."""

    topic_filter: str
    qos: int
    no_local: bool
    identifier: int


wanted = st.lists(
    st.builds(Wanted, filters, st.integers(0, 2), st.booleans(), st.integers(0, 3)),
    max_size=6,
    unique_by=lambda subscription: subscription.topic_filter,
)


def subscription_of(wish: Wanted) -> Subscription:
    """The same as the packet has it."""
    subscription = Subscription(wish.topic_filter, wish.qos, wish.no_local)
    subscription.identifiers = encode_identifiers([wish.identifier] if wish.identifier else [])
    return subscription


def identifiers_of(publish: Publish) -> list[int]:
    """The subscription identifiers of a delivery, as its client reads them."""
    encoded = b"".join((publish.frame5 or publish.build5(), *([b"\0\1", publish.rest5 or b""] if publish.qos else [])))
    decoder = Decoder(version=5)
    decoder.feed(encoded)
    packet = decoder.next_packet()
    assert isinstance(packet, Publish)
    found = (packet.properties or {}).get(props.SUBSCRIPTION_IDENTIFIER, [])
    assert isinstance(found, list)
    return sorted(int(str(number)) for number in found)


@given(
    wishes=wanted,
    topic=topics,
    qos=st.integers(0, 2),
    own=st.booleans(),
    merge=st.booleans(),
    one_in=st.sampled_from([1, 1000]),
)
def test_overlapping(wishes: list[Wanted], topic: str, qos: int, own: bool, merge: bool, one_in: int) -> None:
    """Matching subscriptions give one delivery with all identifiers, or one each if configured; No Local excludes some.

    [MQTT-3.3.4-2 to -4] [MQTT-3.8.3-3]
    """
    subject, receiver = Router(128, merge, cached_one_in=one_in), outbound()
    for wish in wishes:
        subject.subscribe(receiver, subscription_of(wish))
    subject.route(Publish(topic.encode(), b"x", qos), receiver if own else outbound())
    serving = [wish for wish in wishes if matches(wish.topic_filter, topic) and not (own and wish.no_local)]
    deliveries = [(delivery.qos, identifiers_of(delivery)) for delivery in receiver.mailbox.deliveries]
    each = [(min(qos, wish.qos), [wish.identifier] if wish.identifier else []) for wish in serving]
    if merge and each:
        together = sorted(identifier for _, identifiers in each for identifier in identifiers)
        assert deliveries == [(max(granted for granted, _ in each), together)]
    else:
        assert sorted(deliveries) == sorted(each)


def test_retain_as_published_of_overlapping() -> None:
    """One matching subscription with Retain As Published is enough to keep RETAIN."""
    subject, receiver = router(), outbound()
    subject.subscribe(receiver, Subscription("a/#", 0))
    subject.route(Publish(b"a", b"x", retain=True), None)
    subject.subscribe(receiver, Subscription("a", 0, retain_as_published=True))
    subject.route(Publish(b"a", b"x", retain=True), None)
    assert [delivery.retain for delivery in receiver.mailbox.deliveries] == [False, True]


def test_all_share_one_message() -> None:
    """Receivers at one QoS share one message object, so that it is encoded once."""
    subject = router()
    receivers = [outbound() for _ in range(5)]
    for receiver in receivers:
        subject.subscribe(receiver, Subscription("t", 1))
    message = Publish(b"t", b"x", 2)
    subject.route(message, None)
    deliveries = [receiver.mailbox.deliveries[0] for receiver in receivers]
    assert all(delivery is deliveries[0] for delivery in deliveries)
    assert deliveries[0].qos == 1
    assert message.qos == 2


def test_depth() -> None:
    """A topic with too many levels is refused, whoever is subscribed."""
    subject, receiver = Router(3, cached_one_in=1), outbound()
    subject.subscribe(receiver, Subscription("#", 0))
    assert subject.route(Publish(b"a/b/c", b"x"), None)
    with pytest.raises(TopicNameInvalid):
        subject.route(Publish(b"a/b/c/d", b"x"), None)
    assert set(subject.cached.receivers) == {b"a/b/c"}


@pytest.mark.parametrize(("topic_filter", "wildcard"), [(b"a/b", False), (b"a/+", True), (b"#", True), (b"$a", False)])
def test_is_wildcard(topic_filter: bytes, wildcard: bool) -> None:
    """A filter with `+` or `#` is a wildcard."""
    assert is_wildcard(topic_filter) == wildcard


def test_shared_with_itself() -> None:
    """FC-13: a session in thousands of groups gets what their queues hold; the rest is dropped and counted."""
    shared = SharedQueues(Limits(max_mqueue_len=100))
    subject = Router(128, shared=shared)
    receiver = outbound()
    for number in range(2_000):
        subject.subscribe(receiver, Subscription(f"$share/{number}/t", 1))
    for _ in range(150):
        subject.route(Publish(b"t", b"", 1), None)
    assert receiver.mailbox.length() == 0
    for queue in shared.queues.values():
        assert queue.mqueue is not None
        assert (len(queue.mqueue), queue.counters.uncommon.dropped_qos1, queue.counters.offered_qos1) == (100, 50, 150)
