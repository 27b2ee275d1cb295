"""FC-36: what has waited longer than `max_mqueue_age` is dropped."""

import pytest

from session.flows import PUBLISHER
from session.limits import BLOCK, Limits
from session.new_mqueue import new_mqueue
from session.overflow import looks_every
from session.priorities import Priorities
from tests.support.session.host import Noting
from tests.support.session.messages import SECOND, message, text_of, texts
from tests.support.session.sharing import Group


@pytest.mark.parametrize("fairness", [-1, PUBLISHER])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_head_of_each_lane_is_looked_at(fairness: int, weighted: bool) -> None:
    """FC-36, FC-12, FC-33: what is too old goes from each weight and flow, and the rest stays in its order."""
    priorities = Priorities([("a", 3)]) if weighted else None
    mqueue = new_mqueue(Limits(priorities=priorities, fairness=fairness))
    for number in range(12):
        publish = message(number, number % 3, "ab"[number % 2], size=10, now=number * SECOND)
        publish.flow = 1 + number % 3
        mqueue.append(publish)

    dropped = mqueue.drop_aged(5 * SECOND)

    assert sorted(publish.qos for publish in dropped) == [0, 0, 1, 1, 2]
    assert sorted(int(text_of(publish)) for publish in mqueue) == list(range(5, 12))
    assert (mqueue.length, mqueue.bytes, mqueue.waiting_qos1 + mqueue.waiting_qos2) == (7, 70, 5)
    assert sorted(int(text_of(mqueue.pop())) for _ in range(7)) == list(range(5, 12))


@pytest.mark.parametrize(("age", "period"), [(2, 1), (80, 10), (3_600, 60)])
def test_how_often_it_is_looked_for(age: int, period: int) -> None:
    """FC-36: eight times within the age, every second at most, every minute at least."""
    assert looks_every(age * SECOND) == period * SECOND


def test_publishers_get_the_room_of_what_is_too_old_for_a_group() -> None:
    """FC-36, FC-34: PUBLISHes that wait for a group go on when a delivery is dropped as too old, and not before."""
    limits = Limits(max_inflight=1, max_mqueue_len=1, mqueue_overflow=BLOCK, max_mqueue_age=5 * SECOND)
    group = Group(1, limits)
    group.deliver("sent", "old")
    waiting = Noting()
    group.queue.backpressure.wait(waiting)
    called = []
    for seconds in (4, 6):
        group.queue.drop_aged(group.peers[0].now + seconds * SECOND)
        called.append(waiting.calls)

    assert called == [0, 1]
    assert group.drops() == {"dropped_aged_qos1": 1}


def test_a_member_has_room_for_what_is_behind() -> None:
    """FC-36, FC-10: when what a member has no room for has become too old, it is woken for what is behind it."""
    group = Group(1, Limits(consumer_window_size=10, max_mqueue_age=5 * SECOND))
    member = group.peers[0]
    group.deliver("sent", "old", size=6)
    member.now += 4 * SECOND
    group.deliver("new", size=4)
    member.now += 2 * SECOND
    member.host.awake = False
    group.queue.drop_aged(member.now)

    assert member.host.awake
    assert texts(member.run()) == ["new"]
