"""Who gets a message that waits in a link: those whose filters match, as by any other way."""

from hypothesis import given
from hypothesis import strategies as st

from broker.resharding.moves import MovedQueue
from broker.resharding.routes import Routes
from broker.storage.saved import SavedSession
from broker.storage.saved_message import SavedMessage, Target
from protocol.subscribe import Subscription
from protocol.topics import matches

levels = st.sampled_from(("a", "b", "", "$x"))
topics = st.lists(levels, min_size=1, max_size=4).map("/".join).filter(bool)
filters = (
    st.tuples(st.lists(st.one_of(levels, st.just("+")), max_size=4), st.sampled_from(([], ["#"])))
    .map(lambda parts: "/".join(parts[0] + parts[1]))
    .filter(bool)
)


def session(number: int, *subscriptions: Subscription, client_id: str = "c") -> MovedQueue:
    """A session in its new cell, 1."""
    saved = SavedSession(number)
    saved.client_id = client_id
    saved.subscriptions = {each.topic_filter: each for each in subscriptions}
    return MovedQueue(1, number, saved)


def message(topic: str, publisher: str = "") -> SavedMessage:
    """A message of QoS 2 with this topic."""
    return SavedMessage(0, False, publisher, [], 2, False, topic.encode(), b"", b"x")


@given(st.lists(filters, max_size=20, unique=True), topics)
def test_who_gets_it(subscribed: list[str], topic: str) -> None:
    """Each session with a filter that matches by section 4.7, and no other one."""
    routes = Routes(merge=True)
    for number, topic_filter in enumerate(subscribed):
        routes.add_session(session(number, Subscription(topic_filter, 2)))
    found = routes.targets(message(topic), Target(99, 0, 2, False, b"", 0, 5)).get(1, [])
    expected = {number for number, topic_filter in enumerate(subscribed) if matches(topic_filter, topic)}
    assert {each.session for each in found} == expected
    assert len(found) == len(expected)
    assert all((each.delivery, each.qos, each.flow) == (0, 2, 5) for each in found)


def test_no_local() -> None:
    """[MQTT-3.8.3-3]: what a client has published comes to it by its other subscriptions only."""
    routes = Routes(merge=True)
    routes.add_session(session(1, Subscription("t", 1), Subscription("#", 2, no_local=True), client_id="own"))
    routes.add_session(session(2, Subscription("#", 2, no_local=True), client_id="alone"))
    waited = Target(9, 0, 2, False, b"", 0)
    for publisher, expected in (("own", [(1, 1), (2, 2)]), ("alone", [(1, 2)]), ("", [(1, 2), (2, 2)])):
        found = routes.targets(message("t"), waited, publisher)[1]
        assert sorted((each.session, each.qos) for each in found) == expected


def test_a_group_gets_it_once() -> None:
    """With the QoS that it has: its members look at theirs."""
    routes = Routes(merge=True)
    queue = MovedQueue(2, 7, None, "$share/g/t/#")
    routes.add_group(queue)
    found = routes.targets(message("t"), Target(9, 0, 2, True, b"", 0))
    assert found == {2: [Target(7, 0, 2, True, b"", 0)]}
    assert queue.next_delivery == 1
