"""Topics that are forgotten a few at a time: what refers to them, and who forgets them."""

from broker.routing.router import Router
from broker.routing.stale_topics import EACH_CACHED, EACH_TICK
from broker.runtime.timers import TICK, Wheel
from protocol.publish import Publish
from protocol.subscribe import Subscription
from session.outbound import Outbound
from tests.support.broker.routing import outbound, received

MANY = 3 * EACH_TICK


def filled(wheel: Wheel | None, receiver: Outbound) -> Router:
    """A router whose cache has MANY topics of `receiver`, by a wildcard subscription."""
    subject = Router(128, cached_one_in=1, wheel=wheel)
    subject.subscribe(receiver, Subscription("t/#", 0))
    for number in range(MANY):
        subject.route(Publish(b"t/%d" % number, b"x"), None)
    received(receiver)
    return subject


def test_no_change_forgets_all_at_once() -> None:
    """A wildcard subscription is known at once for each cached topic, of which none has been forgotten yet."""
    receiver = outbound()
    subject = filled(None, receiver)
    subject.unsubscribe(receiver, "t/#")
    assert (len(subject.cached.receivers), len(subject.cached.stale), len(subject.topics)) == (0, MANY, MANY)
    for number in range(MANY):
        assert not subject.route(Publish(b"t/%d" % number, b"x"), None)
    assert received(receiver) == []


def test_ticks_forget_them() -> None:
    """Without any message a timer forgets them: they refer to sessions that may have ended."""
    wheel, receiver = Wheel(0), outbound()
    subject = filled(wheel, receiver)
    subject.unsubscribe(receiver, "t/#")
    held = []
    for tick in range(1, 8):
        wheel.advance(tick * TICK)
        held.append(len(subject.cached.stale))
    assert sorted(set(held), reverse=True) == [MANY, 2 * EACH_TICK, EACH_TICK, 0]
    assert len(wheel) == 0
    assert not subject.topics


def test_messages_forget_them() -> None:
    """Each topic that is cached again makes room: without any tick no more are stale than have been cached."""
    receiver = outbound()
    subject = filled(None, receiver)
    for qos in range(10):
        subject.subscribe(receiver, Subscription("t/#", qos % 2))
        stale = len(subject.cached.stale)
        for number in range(100):
            subject.route(Publish(b"t/%d" % number, b"x", 1), None)
        assert len(subject.cached.stale) == stale - 100 * EACH_CACHED
        assert {qos for _, qos in received(receiver)} == {qos % 2}
    assert len(subject.cached.receivers) == 100


def test_a_topic_that_is_cached_again_stays() -> None:
    """Forgetting what was known of a topic leaves what is known of it now."""
    receiver = outbound()
    subject = filled(None, receiver)
    subject.subscribe(receiver, Subscription("t/#", 1))
    for number in range(10):
        subject.route(Publish(b"t/%d" % number, b"x", 1), None)
    subject.cached.stale.forget(MANY)
    assert len(subject.cached.stale) == 0
    assert set(subject.topics) == set(subject.cached.receivers) == {b"t/%d" % number for number in range(10)}
