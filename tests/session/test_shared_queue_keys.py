"""FC-33, `group_order: key`: what a client publishes goes to one member of a group at a time, so its order holds."""

from collections import Counter
from typing import Any

import pytest

from session.conflation import Conflation
from session.flows import PUBLISHER
from session.group_keys import GroupKeys, goes_first
from session.limits import BLOCK, Limits
from session.new_mqueue import new_mqueue
from session.priorities import Priorities
from tests.support.session.messages import SECOND, message, texts
from tests.support.session.sharing import Group


def keyed(**limits: Any) -> Limits:
    """Limits of a keyed group."""
    return Limits(fairness=PUBLISHER, group_keys=True, **limits)


def publish(group: Group, *labels: str, qos: int = 1, topic: str = "t") -> None:
    """Messages arrive; a text begins with a letter for its publisher."""
    now = group.peers[0].now
    for label in labels:
        publish = message(label, qos, topic, now=now)
        publish.flow = ord(label[0]) - ord("a") + 1
        group.queue.deliver(publish, None, now)


def deliver(group: Group, *labels: str, qos: int = 1, topic: str = "t") -> list[list[str]]:
    """The same; returns what each member gets."""
    publish(group, *labels, qos=qos, topic=topic)
    return group.run()


def test_who_has_a_publisher_gets_all_of_it() -> None:
    """FC-33: while a member has unacknowledged deliveries of a publisher it gets what follows, and others the rest."""
    group = Group(2, keyed(max_inflight=10))
    assert deliver(group, "a1", "a2", "b1", "a3", "b2") == [["a1", "a2", "a3"], ["b1", "b2"]]


def test_what_others_get_is_no_progress() -> None:
    """FC-34, FC-33: a member that takes nothing stops its publisher no longer than `overflow_timeout`.

    It does not matter that another member gets what another publisher sends meanwhile.
    """
    limits = keyed(max_inflight=1, max_mqueue_len=2, mqueue_overflow=BLOCK, overflow_timeout=3 * SECOND)
    group = Group(2, limits)
    deliver(group, "a1", "a2", "a3")

    def lacks(label: str) -> bool:
        now = group.peers[0].now
        new = message(label, 1, now=now)
        new.flow = ord(label[0]) - ord("a") + 1
        return group.queue.lacking(new, True, now) is not None

    lacking = []
    for _ in range(4):
        lacking.append((lacks("a4"), lacks("b1")))
        for peer in group.peers:
            peer.now += SECOND
    assert lacking == [(True, False)] * 3 + [(False, False)]


def test_an_acknowledgement_ends_it() -> None:
    """FC-33: when all is acknowledged, what follows goes to whose turn it is."""
    group = Group(2, keyed(max_inflight=10))
    deliver(group, "a1", "a2")
    group.peers[0].puback(1)
    assert deliver(group, "a3") == [["a3"], []]
    group.peers[0].puback(2, 3)
    assert deliver(group, "a4") == [[], ["a4"]]


def test_members_that_cannot_get_it_stay_in_turn() -> None:
    """FC-33: what waits for one member does not keep the others from getting what others publish."""
    group = Group(2, keyed(max_inflight=1))
    assert deliver(group, "a1", "a2", "a3", "b1") == [["a1"], ["b1"]]
    group.peers[1].puback(1)
    assert group.waiting() == ["a2", "a3"]
    assert deliver(group, "b2", "a4") == [[], ["b2"]]
    assert texts(group.peers[0].puback(1)) == ["a2"]
    assert group.waiting() == ["a3", "a4"]


def test_others_get_at_once_what_waited() -> None:
    """FC-33: when the last one is acknowledged, who is in turn gets what has waited for that."""
    group = Group(2, keyed(max_inflight=1))
    deliver(group, "a1", "a2")
    assert group.waiting() == ["a2"]
    group.peers[0].puback(1)
    assert group.run() == [[], ["a2"]]


@pytest.mark.parametrize("reason_code", [0, 0x80])
def test_qos_2_is_kept_until_it_is_complete(reason_code: int) -> None:
    """FC-33: PUBREC ends nothing, but for one that refuses; PUBCOMP does."""
    group = Group(2, keyed(max_inflight=1))
    deliver(group, "a1", "a2", qos=2)
    group.peers[0].pubrec(1, reason_code)
    if reason_code == 0:
        assert group.run() == [[], []]
        group.peers[0].pubcomp(1)
    assert group.run() == [[], ["a2"]]


def test_qos_0_follows_and_keeps_nothing() -> None:
    """FC-33: QoS 0 goes where unacknowledged deliveries are, and in turn where none is."""
    group = Group(2, keyed(max_inflight=10))
    assert deliver(group, "a1", "a2", qos=0) == [["a1"], ["a2"]]
    deliver(group, "b1")
    assert deliver(group, "b2", qos=0) == [["b2"], []]


def test_an_expired_delivery_keeps_nothing() -> None:
    """FC-33: what has never been in a window is waited for by nobody."""
    group = Group(2, keyed(max_inflight=10))
    expired = message("a1", 1, expiry=1, now=0)
    expired.flow = 1
    group.queue.deliver(expired, None, group.peers[0].now)
    assert deliver(group, "a2") == [[], ["a2"]]


def test_the_session_of_the_holder_ends() -> None:
    """FC-33, FC-13: what it has not acknowledged is sent to another one, before what has waited behind it."""
    group = Group(2, keyed(max_inflight=3))
    deliver(group, "a1", "b1", "a2", "a3", "a4")
    group.end(group.peers[0])
    assert texts(group.peers[1].run()) == ["a1", "a2"]
    assert group.waiting() == ["a3", "a4"]
    assert texts(group.peers[1].puback(1, 2)) == ["a3", "a4"]


def test_qos_2_of_a_session_that_ends() -> None:
    """FC-33: QoS 2 is lost with the session [MQTT-4.8.2-5], and what waits behind it goes on."""
    group = Group(2, keyed(max_inflight=1))
    deliver(group, "a1", "a2", qos=2)
    group.end(group.peers[0])
    assert texts(group.peers[1].run()) == ["a2"]


def test_a_holder_that_is_away() -> None:
    """FC-33: what follows waits until a kept session is back; the others get the rest."""
    group = Group(2, keyed(max_inflight=2))
    holder, other = group.peers
    deliver(group, "a1")
    holder.disconnect()
    publish(group, "a2", "b1")
    assert texts(other.run()) == ["b1"]
    assert texts(holder.connect()) == ["a1", "a2"]  # FC-8: what it has comes first


def test_a_holder_that_unsubscribes() -> None:
    """FC-33: it keeps what it has, and gets no more: what follows waits for its acknowledgements."""
    group = Group(2, keyed(max_inflight=3))
    holder, other = group.peers
    deliver(group, "a1")
    group.queue.remove(holder.outbound)
    assert deliver(group, "a2") == [[], []]
    assert group.join(holder) == ["a2"]
    group.queue.remove(holder.outbound)
    holder.puback(1, 2)
    publish(group, "a3")
    assert texts(other.run()) == ["a3"]


def test_a_full_queue_and_idle_members() -> None:
    """FC-6, FC-34: what could be sent at once is neither dropped nor refused for what waits for another member."""
    group = Group(2, keyed(max_inflight=1, max_mqueue_len=1, mqueue_overflow="reject", overflow_patience=0))
    deliver(group, "a1", "a2")
    now = group.peers[0].now
    arrival = message("b1", 1, now=now)
    arrival.flow = 2
    assert group.queue.lacking(arrival, True, now) is None
    arrival.flow = 1
    assert group.queue.lacking(arrival, True, now) is not None
    assert deliver(group, "b1") == [[], ["b1"]]
    assert group.drops() == {}


def test_turns() -> None:
    """FC-33: of those that a member may get each gets its share, whatever waits for others."""
    group = Group(2, keyed(max_inflight=8))
    deliver(group, *[f"a{number}" for number in range(8)])
    deliver(group, *[f"b{number}" for number in range(8)])
    publish(group, "a8", "a9", *[f"c{number}" for number in range(20)], *[f"d{number}" for number in range(20)])
    got = [text for first in (1, 9, 17) for text in texts(group.peers[1].puback(*range(first, first + 8)))]
    assert Counter(text[0] for text in got[:14]) == {"c": 7, "d": 7}  # a round: 512 bytes of each
    assert len(got) == 24
    assert {"a8", "a9"} < set(group.waiting())


def test_weights() -> None:
    """FC-33, FC-12: a publisher is one for all weights; what waits for its holder keeps no other weight waiting."""
    group = Group(2, keyed(max_inflight=1, priorities=Priorities([("high", 3)])))
    deliver(group, "a1", "b1")
    publish(group, "a2", topic="high")
    publish(group, "c1", "b2")
    assert texts(group.peers[1].puback(1)) == ["b2"]
    assert texts(group.peers[0].puback(1)) == ["a2"]
    assert group.waiting() == ["c1"]


def test_conflation() -> None:
    """FC-33, FC-37: what takes the place of another's delivery is of its own publisher, and goes where that is."""
    group = Group(2, keyed(max_inflight=1, conflation=Conflation(["#"])))
    deliver(group, "a1", topic="u")
    publish(group, "a2")
    assert group.waiting() == ["a2"]
    publish(group, "b1")
    assert group.run() == [[], ["b1"]]
    assert group.waiting() == []


def test_byte_window() -> None:
    """FC-33, FC-10: a member that had no room for what was next is woken for what is next now."""
    group = Group(2, keyed(consumer_window_size=10))
    now = group.peers[0].now
    arrivals = [message(number, 1, size=size, now=now) for number, size in enumerate((6, 6, 10, 4))]
    for number, arrival in enumerate(arrivals):
        arrival.flow = number + 1
    group.queue.mqueue = new_mqueue(group.queue.limits)
    group.queue.deliver(arrivals[0], None, now)
    group.queue.deliver(arrivals[1], None, now)
    group.queue.mqueue.append(arrivals[3])  # offered to nobody, as what waits behind another one
    group.queue.deliver(arrivals[2], None, now)
    assert group.run() == [["0"], ["1"]]
    assert not group.peers[0].host.awake
    assert texts(group.peers[1].puback(1)) == ["2"]
    assert group.peers[0].host.awake
    assert texts(group.peers[0].run()) == ["3"]


def test_byte_window_after_an_acknowledgement() -> None:
    """FC-33, FC-10: what an acknowledgement opens goes to a member with room for it, not only to those in turn."""
    group = Group(3, keyed(consumer_window_size=10))
    holder, other, _in_turn = group.peers
    assert deliver(group, "a-----", "b-----", "c-------", "b-----") == [["a-----"], ["b-----"], ["c-------"]]
    group.queue.remove(holder.outbound)
    assert deliver(group, "a---") == [[], [], []]
    other.host.awake = False
    holder.puback(1)
    assert other.host.awake
    assert texts(other.run()) == ["a---"]


def test_what_waits_is_not_overtaken() -> None:
    """FC-9, FC-33, FC-37: a delivery goes first if nothing of its publisher waits, and nothing that it replaces."""
    limits = keyed(conflation=Conflation(["#"]))
    mqueue = new_mqueue(limits)
    keys = GroupKeys(PUBLISHER, {})
    waiting, same, other, newer = (message(1, 1, topic) for topic in ("t", "u", "u", "t"))
    waiting.flow = same.flow = 1
    other.flow = newer.flow = 2
    assert goes_first(same, mqueue, keys)
    mqueue.append(waiting)
    assert [goes_first(arrival, mqueue, keys) for arrival in (same, other, newer)] == [False, True, False]
    assert not goes_first(other, mqueue, None)


def test_after_a_restart() -> None:
    """FC-33, FC-27: a session whose window has been restored has the publishers of what is in it."""
    group = Group(2, keyed(max_inflight=10))
    restored = message("a1", 1)
    restored.flow = 1
    group.queue.restore_handed_over(restored, group.peers[1].outbound)
    assert deliver(group, "a2", "b1", "a3") == [["b1"], ["a2", "a3"]]
    group.queue.completed(restored, 1, group.peers[0].now)
    group.peers[1].puback(1, 2)
    assert deliver(group, "a4") == [["a4"], []]


def test_without_keys() -> None:
    """FC-13: without `key` the members get deliveries in turn, whoever publishes."""
    group = Group(2, Limits(fairness=PUBLISHER, max_inflight=10))
    assert deliver(group, "a1", "a2", "a3", "a4") == [["a1", "a3"], ["a2", "a4"]]
