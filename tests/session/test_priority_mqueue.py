"""FC-12: the mqueue of topics with weights by itself: whose turn it is, what an overflow drops, and its books."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.publish import Publish
from session.address import Address, AddressRule
from session.limits import DROP_NEWEST, DROP_OLDEST, DROP_OLDEST_QOS0, Limits
from session.mqueue import MQueue
from session.priorities import Priorities
from session.priority_mqueue import PriorityMQueue
from tests.support.session.messages import message, text_of, texts

POLICIES: Final = [DROP_OLDEST, DROP_OLDEST_QOS0, DROP_NEWEST]
WEIGHTS: Final = {"light": 1, "low": 2, "high": 5, "also high": 5, "top": 255}
"""By topic; all that is not named has weight 1."""


def new_queue() -> PriorityMQueue:
    """An empty queue with WEIGHTS."""
    return PriorityMQueue(Priorities([(topic, weight) for topic, weight in WEIGHTS.items() if weight > 1]))


def queue_of(topics: Iterable[str], qos: int = 1, size: int = 1) -> PriorityMQueue:
    """A queue of messages 0, 1, 2 ... of the given topics."""
    mqueue = new_queue()
    for number, topic in enumerate(topics):
        mqueue.append(message(number, qos, topic, size=size))
    return mqueue


def take(mqueue: MQueue, count: int) -> list[str]:
    """The topics of the next `count`, taken out."""
    return [mqueue.pop().topic.decode() for _ in range(count)]


# -- whose turn it is


def test_heavier_first() -> None:
    """FC-12: a higher weight is served first, whenever it came."""
    mqueue = queue_of(["light", "low", "high", "top"])

    assert take(mqueue, 4) == ["top", "high", "low", "light"]


def test_each_round_gives_each_its_share() -> None:
    """FC-12: while all wait, each round sends as many of a weight as it weighs, so none starves."""
    mqueue = queue_of(["light"] * 10 + ["low"] * 10 + ["high"] * 20)

    for _ in range(4):
        assert take(mqueue, 8) == ["high"] * 5 + ["low"] * 2 + ["light"]
    assert take(mqueue, 8) == ["low"] * 2 + ["light"] * 6


def test_first_in_first_out_inside_a_weight() -> None:
    """FC-12, FC-4: inside one weight what joined first leaves first, whatever its topic or QoS."""
    mqueue = new_queue()
    for number, topic in enumerate(["high", "also high", "high", "also high"]):
        mqueue.append(message(number, number % 3, topic))

    assert [text_of(mqueue.pop()) for _ in range(4)] == ["0", "1", "2", "3"]


def test_without_rules_it_is_a_plain_queue() -> None:
    """FC-12: topics that no rule speaks of share one weight and one order."""
    mqueue = PriorityMQueue(Priorities([]))
    for number in range(5):
        mqueue.append(message(number, topic=f"t{number % 2}"))

    assert texts(mqueue) == ["0", "1", "2", "3", "4"]
    assert [text_of(mqueue.pop()) for _ in range(5)] == ["0", "1", "2", "3", "4"]


def test_a_newcomer_goes_before_what_weighs_less() -> None:
    """FC-12: what is heavier than the head, and has not had its share of this round, is the next to go."""
    mqueue = queue_of(["low", "low", "low"])
    take(mqueue, 1)

    mqueue.append(message("new", topic="high"))

    assert take(mqueue, 3) == ["high", "low", "low"]


def test_who_had_its_share_waits_for_the_next_round() -> None:
    """FC-12: a weight whose deliveries never stop coming gets no more than its share of a round."""
    mqueue = queue_of(["light", "light"])
    taken: list[str] = []
    for number in range(12):
        mqueue.append(message(number, topic="high"))
        taken += take(mqueue, 1)

    assert taken == ["high"] * 5 + ["light"] + ["high"] * 5 + ["light"]


def test_an_empty_queue_begins_a_new_round() -> None:
    """FC-12: who had its share when the queue ran empty is served first again in the next backlog."""
    mqueue = queue_of(["high"] * 5)
    take(mqueue, 5)

    for topic in ("light", "high"):
        mqueue.append(message("new", topic=topic))

    assert take(mqueue, 2) == ["high", "light"]


def test_head_stays_until_it_is_taken() -> None:
    """FC-4: asking for the head changes nothing, and `pop` takes just that."""
    mqueue = queue_of(["light", "high", "low"] * 4)
    while mqueue.length:
        head = mqueue.head()
        assert mqueue.head() is head
        assert next(iter(mqueue)) is head
        assert mqueue.pop() is head


def test_empty_queue_has_no_head() -> None:
    """FC-4: head and pop of an empty queue are errors, not None, also of one that has run empty."""
    mqueue = queue_of(["high"])
    mqueue.pop()

    for empty in (mqueue, new_queue()):
        assert list(empty) == []
        with pytest.raises(IndexError):
            empty.head()
        with pytest.raises(IndexError):
            empty.pop()


def test_given_back_to_the_head_of_its_weight() -> None:
    """FC-13: what comes back goes before all that waits of its weight, but not before what is heavier."""
    mqueue = queue_of(["low", "low", "high"])

    for text in ("second", "first"):
        mqueue.push_front(message(text, topic="low"))

    assert texts(mqueue) == ["2", "first", "second", "0", "1"]
    assert [text_of(mqueue.pop()) for _ in range(5)] == ["2", "first", "second", "0", "1"]


# -- the limit


def test_one_limit_covers_all_weights() -> None:
    """FC-12: length and bytes of all weights together have to stay within the limits."""
    mqueue = queue_of(["light", "low", "high"], size=10)

    assert mqueue.fits(message("new", topic="top", size=10), Limits(max_mqueue_len=4, max_mqueue_bytes=40))
    assert not mqueue.fits(message("new", topic="top"), Limits(max_mqueue_len=3))
    assert not mqueue.fits(message("new", topic="top", size=10), Limits(max_mqueue_bytes=39))


@pytest.mark.parametrize(
    ("waiting", "newcomer", "dropped"),
    [
        (["light"] * 3 + ["high"] * 3, "high", "0"),  # 3 / 1 against 4 / 5
        (["light"] + ["high"] * 5, "light", "0"),  # 2 / 1 against 5 / 5
        (["light"] + ["high"] * 5, "high", "1"),  # 1 / 1 against 6 / 5
        (["light"] + ["high"] * 4, "high", "0"),  # 1 / 1 against 5 / 5: the lighter
        (["high"] * 4, "light", "new"),  # 4 / 5 against 1 / 1
        (["high"] * 6, "light", "0"),  # 6 / 5 against 1 / 1
        (["light"], "top", "0"),
        (["low", "high"], "light", "new"),
    ],
)
def test_who_exceeds_its_share_most_makes_room(waiting: list[str], newcomer: str, dropped: str) -> None:
    """FC-5, FC-12: the most deliveries for its weight, the newcomer counted in; the lighter one on a tie."""
    mqueue = queue_of(waiting)

    victim = mqueue.victim(message("new", 1, newcomer), Limits(mqueue_overflow=DROP_OLDEST))

    assert text_of(victim) == dropped
    assert mqueue.length == len(waiting) - (dropped != "new")


@pytest.mark.parametrize(
    ("policy", "newcomer", "dropped"),
    [
        (DROP_OLDEST, "high", "0"),
        (DROP_NEWEST, "high", "2"),
        (DROP_OLDEST_QOS0, "high", "1"),
        (DROP_OLDEST, "light", "0"),
        (DROP_NEWEST, "light", "new"),
        (DROP_OLDEST_QOS0, "light", "1"),
    ],
)
def test_policy_inside_the_weight(policy: str, newcomer: str, dropped: str) -> None:
    """FC-5, FC-12: inside that weight the oldest, the newest or the oldest QoS 0 is dropped, whoever needs the room."""
    mqueue = new_queue()
    for number, (topic, qos) in enumerate([("light", 1), ("light", 0), ("light", 2), ("high", 0)]):
        mqueue.append(message(number, qos, topic))

    assert text_of(mqueue.victim(message("new", 1, newcomer), Limits(mqueue_overflow=policy))) == dropped


@pytest.mark.parametrize(
    ("newcomer", "qos", "dropped"),
    [("light", 1, "1"), ("light", 0, "new"), ("high", 0, "1"), ("top", 0, "1"), ("low", 1, "1")],
)
def test_qos0_first_over_all_weights(newcomer: str, qos: int, dropped: str) -> None:
    """FC-5, FC-12: drop_oldest_qos0 drops no QoS 1 or 2 of any weight while one holds QoS 0."""
    mqueue = new_queue()
    for number, (topic, waiting_qos) in enumerate([("light", 1), ("high", 0), ("light", 2), ("high", 1)]):
        mqueue.append(message(number, waiting_qos, topic))

    victim = mqueue.victim(message("new", qos, newcomer), Limits(mqueue_overflow=DROP_OLDEST_QOS0))

    assert text_of(victim) == dropped


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("topic", ["light", "top"])
def test_larger_than_the_byte_limit(policy: str, topic: str) -> None:
    """FC-5: a delivery larger than max_mqueue_bytes is itself the victim: nothing else is dropped in vain."""
    mqueue = queue_of(["light", "light", "low"], qos=0)
    newcomer = message("new", 1, topic, size=11)

    assert mqueue.victim(newcomer, Limits(max_mqueue_bytes=10, mqueue_overflow=policy)) is newcomer
    assert len(mqueue) == 3


def test_qos0_is_found_after_the_newest_was_dropped() -> None:
    """FC-5, FC-12: the oldest QoS 0 is found wherever it stands, also behind what drop_newest has taken out."""
    mqueue = queue_of(["light", "light"])
    newcomer = message("new", 1, "top")
    mqueue.append(message("a", 0, "light"))
    assert text_of(mqueue.victim(newcomer, Limits(mqueue_overflow=DROP_OLDEST_QOS0))) == "a"
    assert text_of(mqueue.victim(newcomer, Limits(mqueue_overflow=DROP_NEWEST))) == "1"

    mqueue.append(message("b", 0, "light"))
    mqueue.append(message("c", 0, "light"))

    assert text_of(mqueue.victim(newcomer, Limits(mqueue_overflow=DROP_OLDEST_QOS0))) == "b"


def test_space_by_weight() -> None:
    """FC-12: where all want more room than there is, each weight ends up with its share of the queue."""
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
    """FC-5: a message may wait already when it comes again: the queue's length tells which of both was dropped."""
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
    """FC-24: what waits counts for its address once, and no longer when it has been taken or dropped."""
    address = Address(b"high", AddressRule(1_000))
    mqueue = new_queue()
    for qos in (0, 1, 2):
        publish = message("", qos, "high", size=10)
        publish.address = address
        mqueue.append(publish)
    mqueue.push_front(mqueue.pop())
    assert address.size == 30

    mqueue.victim(message("new", 1, "top"), Limits(mqueue_overflow=policy))
    assert address.size == 20
    mqueue.pop()
    assert address.size == 10


# -- against a plain list


class PlainQueue:
    """FC-12 said with one list and no thought for speed."""

    def __init__(self) -> None:
        self.waiting: list[Publish] = []
        self.sent: Counter[int] = Counter()
        """By weight, in this round."""

    def weights(self) -> list[int]:
        """The weights that wait, heaviest first."""
        return sorted({weight_of(publish) for publish in self.waiting}, reverse=True)

    def head(self) -> Publish:
        turn = next(weight for weight in self.weights() if self.sent[weight] < weight)
        return next(publish for publish in self.waiting if weight_of(publish) == turn)

    def pop(self) -> Publish:
        publish = self.head()
        self.sent[weight_of(publish)] += 1
        self.remove(publish)
        return publish

    def remove(self, gone: Publish) -> None:
        self.waiting = [publish for publish in self.waiting if publish is not gone]
        if all(self.sent[weight] >= weight for weight in self.weights()):
            self.sent.clear()

    def in_order(self) -> list[Publish]:
        """What waits, as it would leave if nothing came."""
        aside = PlainQueue()
        aside.waiting, aside.sent = self.waiting, self.sent.copy()
        return [aside.pop() for _ in self.waiting]

    def victim(self, newcomer: Publish, limits: Limits) -> Publish:
        """The one to drop, out of all that wait and the newcomer. It is left where it is."""
        if limits.max_mqueue_bytes and newcomer.size > limits.max_mqueue_bytes:
            return newcomer
        candidates = everything = [*self.waiting, newcomer]
        if limits.mqueue_overflow == DROP_OLDEST_QOS0:
            candidates = [publish for publish in everything if publish.qos == 0] or everything

        def excess(weight: int) -> tuple[float, int]:
            return sum(weight_of(publish) == weight for publish in everything) / weight, -weight

        fullest = max({weight_of(publish) for publish in candidates}, key=excess)
        inside = [publish for publish in candidates if weight_of(publish) == fullest]
        if limits.mqueue_overflow == DROP_NEWEST:
            return inside[-1]
        # The newcomer goes only if it is of QoS 0 and all that wait are not, or if it is alone.
        return inside[0]


def weight_of(publish: Publish) -> int:
    """The weight of its topic."""
    return WEIGHTS[publish.topic.decode()]


deliveries = st.tuples(st.sampled_from(sorted(WEIGHTS)), st.integers(0, 2), st.integers(0, 12))
steps = st.lists(
    st.tuples(st.sampled_from(["append", "append", "append", "push_front", "pop", "pop", "victim"]), deliveries),
    max_size=120,
)


@given(steps, st.lists(st.sampled_from(POLICIES), min_size=1, max_size=3), st.sampled_from([0, 10]))
def test_equals_a_plain_list(
    steps: list[tuple[str, tuple[str, int, int]]], policies: list[str], max_bytes: int
) -> None:
    """FC-12: after any steps, order, victims, length, bytes and counts by QoS are those of a plain list."""
    mqueue, plain = new_queue(), PlainQueue()
    for number, (step, (topic, qos, size)) in enumerate(steps):
        limits = Limits(mqueue_overflow=policies[number % len(policies)], max_mqueue_bytes=max_bytes)
        publish = message(number, qos, topic, size=size)
        if step == "append":
            mqueue.append(publish)
            plain.waiting.append(publish)
        elif step == "push_front":
            mqueue.push_front(publish)
            plain.waiting.insert(0, publish)
        elif step == "pop" and plain.waiting:
            assert mqueue.head() is plain.head()
            assert mqueue.pop() is plain.pop()
        elif step == "victim":
            victim = plain.victim(publish, limits)
            assert mqueue.victim(publish, limits) is victim
            if victim is not publish:
                plain.remove(victim)

        check_books(mqueue, plain.waiting)
        assert [text_of(waiting) for waiting in mqueue] == [text_of(waiting) for waiting in plain.in_order()]


def check_books(mqueue: MQueue, waiting: list[Publish]) -> None:
    """Length, bytes and counts by QoS are those of what waits."""
    assert len(mqueue) == mqueue.length == len(waiting)
    assert mqueue.bytes == sum(publish.size for publish in waiting)
    by_qos = Counter(publish.qos for publish in waiting)
    assert [mqueue.waiting_qos0, mqueue.waiting_qos1, mqueue.waiting_qos2] == [by_qos[0], by_qos[1], by_qos[2]]
    assert mqueue.waiting_qos12 == by_qos[1] + by_qos[2]


@given(st.lists(st.sampled_from(["light", "low", "high", "pop", "pop"]), max_size=200))
def test_nothing_starves(steps: list[str]) -> None:
    """FC-12: at most two shares of each heavier weight, and one of each lighter one, pass the next of a weight."""
    mqueue = new_queue()
    passed: Counter[int] = Counter()
    for number, step in enumerate(steps):
        if step != "pop":
            mqueue.append(message(number, topic=step))
        elif mqueue.length:
            waiting = {weight_of(publish) for publish in mqueue}
            turn = weight_of(mqueue.pop())
            for weight, most in [(1, 2 * 2 + 2 * 5), (2, 1 + 2 * 5), (5, 1 + 2)]:
                passed[weight] = 0 if weight == turn or weight not in waiting else passed[weight] + 1
                assert passed[weight] <= most


@given(st.lists(deliveries, min_size=1, max_size=60), st.lists(st.booleans(), max_size=60))
def test_order_of_a_topic_and_qos(arriving: list[tuple[str, int, int]], pops: list[bool]) -> None:
    """FC-9, FC-12: whatever else waits, the deliveries of one topic and QoS leave in the order in which they came."""
    mqueue = new_queue()
    left: list[Publish] = []
    for number, (topic, qos, size) in enumerate(arriving):
        mqueue.append(message(f"{number:03}", qos, topic, size=size))
        if number < len(pops) and pops[number]:
            left.append(mqueue.pop())
    while mqueue.length:
        left.append(mqueue.pop())

    by_flow: dict[tuple[bytes, int], list[str]] = {}
    for publish in left:
        by_flow.setdefault((publish.topic, publish.qos), []).append(text_of(publish))
    assert all(flow == sorted(flow) for flow in by_flow.values())
    assert len(left) == len(arriving)
