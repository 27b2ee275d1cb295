"""The cache of topics: its bounds, what empties it, and what is routed without it."""

import pytest

from broker.routing.address_book import AddressBook
from broker.routing.router import CLOSED, MATCHED, NOBODY, Router
from broker.routing.topic_rules import TopicRules
from config.models import Config
from protocol.publish import Publish
from protocol.subscribe import Subscription
from session.address import BLOCK, Address, AddressRule
from session.host import NoHost
from session.limits import REJECT, Limits
from session.outbound import Outbound
from tests.support.broker.routing import outbound, received, router


def cached(subject: Router) -> set[bytes]:
    """The topics whose receivers are kept ready."""
    return set(subject.cached.receivers)


def test_cache_is_bounded() -> None:
    """Above its bound the cache removes the topics that were cached first, and routing is still right."""
    subject, receiver = router(10), outbound()
    subject.subscribe(receiver, Subscription("t/#", 0))
    for number in range(100):
        assert subject.route(Publish(b"t/%d" % number, b"x"), None)
        assert len(subject.cached.receivers) <= 10
    assert len(received(receiver)) == 100
    assert b"t/99" in cached(subject)
    assert b"t/0" not in cached(subject)


def test_cache_after_many_changes() -> None:
    """The cache has room for as much as before, however often a wildcard subscription has emptied it."""
    subject, receiver = Router(128, cached_weight=20, cached_one_in=1), outbound()
    topics = [b"t/%d" % number for number in range(5)]
    for qos in (0, 1) * 10:
        subject.subscribe(receiver, Subscription("t/#", qos))
        for topic in topics:
            subject.route(Publish(topic, b"x"), None)
        assert cached(subject) == set(topics)


def test_topics_without_receivers_are_cached_too() -> None:
    """A topic without receivers costs one lookup per message."""
    subject = router()
    assert not subject.route(Publish(b"nobody", b"x"), None)
    assert cached(subject) == {b"nobody"}


def test_an_exact_subscription_leaves_other_topics_cached() -> None:
    """A changed subscription without wildcards removes its own topic from the cache only."""
    subject, receiver = router(), outbound()
    for topic in (b"a", b"b", b"c"):
        subject.route(Publish(topic, b"x"), None)
    for qos in (0, 1):
        subject.subscribe(receiver, Subscription("a", qos))
        assert cached(subject) == {b"b", b"c"}
        assert subject.route(Publish(b"a", b"x", 1), None)
        assert received(receiver) == [("a", qos)]
    subject.unsubscribe(receiver, "a")
    assert cached(subject) == {b"b", b"c"}
    assert not subject.route(Publish(b"a", b"x"), None)


def test_a_topic_of_one_session_needs_no_cache() -> None:
    """A topic that one session gets by a subscription to just that topic is not cached, until others get it too."""
    subject, receivers = router(), [outbound() for _ in range(3)]
    subject.subscribe(receivers[0], Subscription("t", 1))
    assert subject.route(Publish(b"t", b"x", 2, retain=True), None)
    assert cached(subject) == set()
    assert received(receivers[0]) == [("t", 1)]
    for receiver in receivers[1:]:
        subject.subscribe(receiver, Subscription("t", 0))
        assert subject.route(Publish(b"t", b"x"), None)
        assert cached(subject) == {b"t"}
    assert [len(received(receiver)) for receiver in receivers] == [2, 2, 1]


def test_a_wildcard_subscription_is_seen_at_once() -> None:
    """A new wildcard subscription takes effect on known topics at once, and so does its end."""
    subject, receiver, only = router(), outbound(), outbound()
    subject.subscribe(only, Subscription("a/c", 0))
    for topic_filter in ("a/+", "#"):
        subject.subscribe(receiver, Subscription(topic_filter, 0))
        assert subject.route(Publish(b"a/c", b"x"), None)
        assert (len(received(receiver)), len(received(only))) == (1, 1)
        subject.unsubscribe(receiver, topic_filter)
        assert subject.route(Publish(b"a/c", b"x"), None)
        assert (len(received(receiver)), len(received(only))) == (0, 1)
    assert not subject.route(Publish(b"a/b", b"x"), None)
    subject.subscribe(receiver, Subscription("a/+", 0))
    assert subject.route(Publish(b"a/b", b"x"), None)
    subject.unsubscribe(receiver, "a/+")
    assert not subject.route(Publish(b"a/b", b"x"), None)


def test_the_topics_stay_the_same_object() -> None:
    """The topics are emptied and never replaced, because decoders keep a reference to them."""
    subject, receiver = router(), outbound()
    before = subject.topics
    subject.route(Publish(b"a", b"x"), None)
    subject.subscribe(receiver, Subscription("#", 0))
    subject.unsubscribe(receiver, "#")
    subject.cached.stale.forget(10)
    assert subject.topics is before
    assert not before


def test_only_some_topics_are_cached() -> None:
    """What one session gets is routed without the cache; of so many such messages one has its topic cached."""
    subject, receiver = router(cached_one_in=4), outbound()
    subject.subscribe(receiver, Subscription("t/+", 1))
    for number in range(1, 8):
        assert subject.route(Publish(b"t/%d" % number, b"x", 2), None)
    assert cached(subject) == {b"t/4"}
    assert received(receiver) == [(f"t/{number}", 1) for number in range(1, 8)]


def test_many_receivers_are_cached_at_once() -> None:
    """A topic with more than two receivers is cached with its first message."""
    subject = router(cached_one_in=1000)
    receivers = [outbound() for _ in range(3)]
    for receiver in receivers:
        subject.subscribe(receiver, Subscription("t", 0))
    assert subject.route(Publish(b"t", b"x"), None)
    assert cached(subject) == {b"t"}
    assert [received(receiver) for receiver in receivers] == [[("t", 0)]] * 3


@pytest.mark.parametrize("topic", ["t", "$SYS/t", "limited"])
def test_only_what_may_be_sent_goes_around_the_cache(topic: str) -> None:
    """Closed, hidden and limited topics are found by the cache's way, whose result says what they are."""
    config = Config.model_validate({"authorization": {"deny_publish": ["t"]}})
    addresses = AddressBook([("limited", AddressRule(1000, BLOCK))])
    subject = Router(128, topic_rules=TopicRules(config), addresses=addresses, cached_one_in=1000)
    subject.subscribe(outbound(), Subscription(topic, 0))
    verdict = subject.route(Publish(topic.encode(), b"x"), outbound())
    assert verdict == (MATCHED if topic == "limited" else CLOSED)
    assert cached(subject) == {topic.encode()}


@pytest.mark.parametrize(("receivers", "topic_bytes"), [(100, 1), (1, 6_000)])
def test_cache_is_bounded_by_what_it_holds(receivers: int, topic_bytes: int) -> None:
    """Many receivers and long topic names count for the bound of the cache; routing stays right."""
    routing = Router(128, cached_weight=10_000, cached_one_in=1)
    for _ in range(receivers):
        routing.subscribe(outbound(), Subscription("#"))
    for number in range(500):
        assert routing.route(Publish(b"x" * topic_bytes + b"%d" % (number % 300), b""), None)
        held = sum(len(routes) + len(topic) // 64 for topic, routes in routing.cached.receivers.items())
        assert held <= 10_000
    assert len(routing.cached.receivers) > 80
    routing.subscribe(outbound(), Subscription("#"))  # empties it
    assert routing.route(Publish(b"t", b""), None)
    assert len(routing.cached.receivers) == 1


def test_an_address_with_pages_is_seen_at_once() -> None:
    """FC-26: a topic of one session that had pages before the process began is an address, even without a limit now."""
    subject = router()
    subject.subscribe(outbound(), Subscription("t", 0))
    address = subject.restore_address(b"t")
    publish = Publish(b"t", b"x")
    assert subject.route(publish, None) == MATCHED
    assert publish.holder is address


def test_a_queue_that_tells_leaves_other_topics_as_they_are() -> None:
    """FC-34: only what goes to such a queue waits for room; other topics are routed as if there were none."""
    subject, plain = router(), outbound()
    subject.backpressure = True
    telling = Outbound(Limits(mqueue_overflow=REJECT), NoHost(), 0)
    telling.sender.host.awake = True
    for topic_filter in ("plain", "both"):
        subject.subscribe(plain, Subscription(topic_filter, 1))
    subject.subscribe(telling, Subscription("both", 1))
    assert subject.route(Publish(b"plain", b"x", 1), plain) == MATCHED
    assert cached(subject) == set()
    assert subject.route(Publish(b"nobody", b"x", 1), plain) == NOBODY
    assert subject.receivers(b"both").backpressure
    subject.unsubscribe(telling, "both")
    assert not subject.receivers(b"both").backpressure


def test_what_waits_for_room_stays_in_front() -> None:
    """FC-9: while PUBLISHes of a topic wait, later ones are asked about, even if the full queue has gone meanwhile."""
    subject, plain = router(), outbound()
    subject.backpressure = True
    subject.addresses.blocked[b"t"] = Address(b"t", AddressRule(max_size_bytes=0, full_policy=BLOCK))
    subject.subscribe(plain, Subscription("t", 1))
    assert subject.receivers(b"t").backpressure
    assert subject.receivers(b"u").backpressure is False
