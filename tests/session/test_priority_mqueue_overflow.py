"""FC-5, FC-12: the mqueue of topics with weights: what fits, what an overflow drops, and what an address counts."""

from collections import Counter

import pytest

from session.address import Address, AddressRule
from session.limits import DROP_NEWEST, DROP_OLDEST, DROP_OLDEST_QOS0, Limits
from tests.support.costs import held
from tests.support.session.messages import message, text_of
from tests.support.session.weighted import POLICIES, new_queue, queue_of


def test_one_limit_covers_all_weights() -> None:
    """FC-12: the limits of length and bytes hold for all weights together."""
    mqueue = queue_of(["light", "low", "high"], size=10)

    assert mqueue.fits(message("new", topic="top", size=10), Limits(max_mqueue_len=4, max_mqueue_bytes=40))
    assert not mqueue.fits(message("new", topic="top"), Limits(max_mqueue_len=3))
    assert not mqueue.fits(message("new", topic="top", size=10), Limits(max_mqueue_bytes=39))


@pytest.mark.parametrize(
    ("waiting", "arrival", "dropped"),
    [
        (["light"] * 3 + ["high"] * 3, "high", "0"),  # 3 / 1 against 4 / 5
        (["light"] + ["high"] * 5, "light", "0"),  # 2 / 1 against 5 / 5
        (["light"] + ["high"] * 11, "light", "1"),  # 2 / 1 against 11 / 5
        (["light"] + ["high"] * 5, "high", "1"),  # 1 / 1 against 6 / 5
        (["light"] + ["high"] * 4, "high", "0"),  # 1 / 1 against 5 / 5: the lighter
        (["high"] * 4, "light", "new"),  # 4 / 5 against 1 / 1
        (["high"] * 6, "light", "0"),  # 6 / 5 against 1 / 1
        (["light"], "top", "0"),
        (["low", "high"], "light", "new"),
    ],
)
def test_who_exceeds_its_share_most_makes_room(waiting: list[str], arrival: str, dropped: str) -> None:
    """FC-5, FC-12: the weight that exceeds its share most drops one, the new one counted in, the lighter on a tie."""
    mqueue = queue_of(waiting)

    victim = mqueue.victim(message("new", 1, arrival), Limits(mqueue_overflow=DROP_OLDEST))

    assert text_of(victim) == dropped
    assert mqueue.length == len(waiting) - (dropped != "new")


@pytest.mark.parametrize(
    ("policy", "arrival", "dropped"),
    [
        (DROP_OLDEST, "high", "0"),
        (DROP_NEWEST, "high", "2"),
        (DROP_OLDEST_QOS0, "high", "1"),
        (DROP_OLDEST, "light", "0"),
        (DROP_NEWEST, "light", "new"),
        (DROP_OLDEST_QOS0, "light", "1"),
    ],
)
def test_policy_inside_the_weight(policy: str, arrival: str, dropped: str) -> None:
    """FC-5, FC-12: the policy decides which delivery of that weight is dropped, whoever needs the room."""
    mqueue = queue_of(["light", "light", "light", "high"], [1, 0, 2, 0])

    assert text_of(mqueue.victim(message("new", 1, arrival), Limits(mqueue_overflow=policy))) == dropped


@pytest.mark.parametrize(
    ("arrival", "qos", "dropped"),
    [("light", 1, "1"), ("light", 0, "new"), ("high", 0, "1"), ("top", 0, "1"), ("low", 1, "1")],
)
def test_qos0_first_over_all_weights(arrival: str, qos: int, dropped: str) -> None:
    """FC-5, FC-12: drop_oldest_qos0 drops no QoS 1 or 2 of any weight while the queue holds QoS 0."""
    mqueue = queue_of(["light", "high", "light", "high"], [1, 0, 2, 1])

    victim = mqueue.victim(message("new", qos, arrival), Limits(mqueue_overflow=DROP_OLDEST_QOS0))

    assert text_of(victim) == dropped


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("topic", ["light", "top"])
def test_larger_than_the_byte_limit(policy: str, topic: str) -> None:
    """FC-5: a delivery larger than max_mqueue_bytes is dropped itself, and nothing else is."""
    mqueue = queue_of(["light", "light", "low"], qos=0)
    arrival = message("new", 1, topic, size=11)

    assert mqueue.victim(arrival, Limits(max_mqueue_bytes=10, mqueue_overflow=policy)) is arrival
    assert len(mqueue) == 3


def test_qos0_is_found_after_the_newest_was_dropped() -> None:
    """FC-5, FC-12: drop_oldest_qos0 finds the oldest QoS 0 also after drop_newest has removed deliveries before it."""
    mqueue = queue_of(["light", "light"])
    arrival = message("new", 1, "top")
    mqueue.append(message("a", 0, "light"))
    assert text_of(mqueue.victim(arrival, Limits(mqueue_overflow=DROP_OLDEST_QOS0))) == "a"
    assert text_of(mqueue.victim(arrival, Limits(mqueue_overflow=DROP_NEWEST))) == "1"

    mqueue.append(message("b", 0, "light"))
    mqueue.append(message("c", 0, "light"))

    assert text_of(mqueue.victim(arrival, Limits(mqueue_overflow=DROP_OLDEST_QOS0))) == "b"


def test_space_by_weight() -> None:
    """FC-12: when all weights want more room than there is, each ends up with its share of the queue."""
    limits = Limits(max_mqueue_len=80)
    mqueue = new_queue()
    for number in range(300):
        for topic in ("light", "low", "high"):
            publish = message(number, 1, topic)
            while not mqueue.fits(publish, limits) and mqueue.victim(publish, limits) is not publish:
                pass
            if mqueue.fits(publish, limits):
                mqueue.append(publish)

    held = Counter(publish.topic for publish in mqueue)
    assert held[b"light"] == pytest.approx(10, abs=1)
    assert held[b"low"] == pytest.approx(20, abs=1)
    assert held[b"high"] == pytest.approx(50, abs=1)


def test_the_same_message_twice() -> None:
    """FC-5: when a message comes again that waits already, the queue's length shows which of both was dropped."""
    mqueue = new_queue()
    publish = message("twice", 1, "high")
    mqueue.append(publish)

    assert mqueue.victim(publish, Limits(mqueue_overflow=DROP_OLDEST)) is publish
    assert mqueue.length == 0
    assert mqueue.bytes == 0
    mqueue.append(publish)
    assert mqueue.victim(publish, Limits(mqueue_overflow=DROP_NEWEST)) is publish
    assert mqueue.length == 1


@pytest.mark.parametrize("policy", POLICIES)
def test_counts_once_for_an_address(policy: str) -> None:
    """FC-24: a waiting delivery counts for its address once, and not after it was taken or dropped."""
    address = Address(b"high", AddressRule(1_000))
    mqueue = new_queue()
    for qos in (0, 1, 2):
        publish = message("", qos, "high", size=10)
        publish.holder = address
        mqueue.append(publish)
    mqueue.push_front(mqueue.pop())
    assert address.size == held(3, 10, "high")

    mqueue.victim(message("new", 1, "top"), Limits(mqueue_overflow=policy))
    assert address.size == held(2, 10, "high")
    mqueue.pop()
    assert address.size == held(1, 10, "high")
