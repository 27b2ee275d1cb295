"""FC-12: the mqueue of topics with weights: in which order its deliveries leave."""

import pytest

from session.mqueue import MQueue
from session.priorities import Priorities
from session.priority_mqueue import PriorityMQueue
from tests.support.session.messages import message, text_of, texts
from tests.support.session.weighted import new_queue, queue_of


def take(mqueue: MQueue, count: int) -> list[str]:
    """The topics of the next `count`, taken out."""
    return [mqueue.pop().topic.decode() for _ in range(count)]


def test_heavier_first() -> None:
    """FC-12: a higher weight leaves first, whenever its delivery came."""
    mqueue = queue_of(["light", "low", "high", "top"])

    assert take(mqueue, 4) == ["top", "high", "low", "light"]


def test_each_round_gives_each_its_share() -> None:
    """FC-12: while all weights wait, each round sends as many deliveries of a weight as it weighs."""
    mqueue = queue_of(["light"] * 10 + ["low"] * 10 + ["high"] * 20)

    for _ in range(4):
        assert take(mqueue, 8) == ["high"] * 5 + ["low"] * 2 + ["light"]
    assert take(mqueue, 8) == ["low"] * 2 + ["light"] * 6


def test_first_in_first_out_inside_a_weight() -> None:
    """FC-12, FC-4: deliveries of one weight leave in the order of their arrival, whatever their topic or QoS."""
    mqueue = queue_of(["high", "also high", "high", "also high"], [0, 1, 2, 0])

    assert [text_of(mqueue.pop()) for _ in range(4)] == ["0", "1", "2", "3"]


def test_without_rules_it_is_a_plain_queue() -> None:
    """FC-12: topics that no rule matches share one weight and one order."""
    mqueue = PriorityMQueue(Priorities([]))
    for number in range(5):
        mqueue.append(message(number, topic=f"t{number % 2}"))

    assert texts(mqueue) == ["0", "1", "2", "3", "4"]
    assert [text_of(mqueue.pop()) for _ in range(5)] == ["0", "1", "2", "3", "4"]


def test_an_arrival_goes_before_what_weighs_less() -> None:
    """FC-12: a new delivery heavier than the head leaves next if its weight has a share left in this round."""
    mqueue = queue_of(["low", "low", "low"])
    take(mqueue, 1)

    mqueue.append(message("new", topic="high"))

    assert take(mqueue, 3) == ["high", "low", "low"]


def test_who_had_its_share_waits_for_the_next_round() -> None:
    """FC-12: a weight whose deliveries keep coming gets no more than its share of each round."""
    mqueue = queue_of(["light", "light"])
    taken: list[str] = []
    for number in range(12):
        mqueue.append(message(number, topic="high"))
        taken += take(mqueue, 1)

    assert taken == ["high"] * 5 + ["light"] + ["high"] * 5 + ["light"]


def test_an_empty_queue_begins_a_new_round() -> None:
    """FC-12: a queue that has run empty begins a new round, so the heaviest leaves first again."""
    mqueue = queue_of(["high"] * 5)
    take(mqueue, 5)

    for topic in ("light", "high"):
        mqueue.append(message("new", topic=topic))

    assert take(mqueue, 2) == ["high", "light"]


def test_head_stays_until_it_is_taken() -> None:
    """FC-4: `head` changes nothing, and `pop` takes the same delivery."""
    mqueue = queue_of(["light", "high", "low"] * 4)
    while mqueue.length:
        head = mqueue.head()
        assert mqueue.head() is head
        assert next(iter(mqueue)) is head
        assert mqueue.pop() is head


def test_empty_queue_has_no_head() -> None:
    """FC-4: an empty queue has no head, and `pop` raises IndexError, also for one that has run empty."""
    mqueue = queue_of(["high"])
    mqueue.pop()

    for empty in (mqueue, new_queue()):
        assert list(empty) == []
        assert empty.head() is None
        with pytest.raises(IndexError):
            empty.pop()


def test_given_back_to_the_head_of_its_weight() -> None:
    """FC-13: a returned delivery leaves before all others of its weight, but not before a heavier one."""
    mqueue = queue_of(["low", "low", "high"])

    for text in ("second", "first"):
        mqueue.push_front(message(text, topic="low"))

    assert texts(mqueue) == ["2", "first", "second", "0", "1"]
    assert [text_of(mqueue.pop()) for _ in range(5)] == ["2", "first", "second", "0", "1"]
