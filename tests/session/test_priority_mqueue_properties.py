"""FC-12: the mqueue of topics with weights after any steps: it equals a plain list, and no weight starves."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from protocol.publish import Publish
from session.limits import DROP_NEWEST, DROP_OLDEST_QOS0, Limits
from session.mqueue import MQueue
from tests.support.session.messages import message, text_of
from tests.support.session.weighted import POLICIES, WEIGHTS, new_queue, weight_of


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

    def victim(self, arrival: Publish, limits: Limits) -> Publish:
        """The one to drop, out of all that wait and the arrival. It is left where it is."""
        if limits.max_mqueue_bytes and arrival.size > limits.max_mqueue_bytes:
            return arrival
        candidates = everything = [*self.waiting, arrival]
        if limits.mqueue_overflow == DROP_OLDEST_QOS0:
            candidates = [publish for publish in everything if publish.qos == 0] or everything

        def excess(weight: int) -> tuple[float, int]:
            return sum(weight_of(publish) == weight for publish in everything) / weight, -weight

        fullest = max({weight_of(publish) for publish in candidates}, key=excess)
        inside = [publish for publish in candidates if weight_of(publish) == fullest]
        if limits.mqueue_overflow == DROP_NEWEST:
            return inside[-1]
        # The arrival goes only if it is of QoS 0 and all that wait are not, or if it is alone.
        return inside[0]


deliveries = st.tuples(st.sampled_from(sorted(WEIGHTS)), st.integers(0, 2), st.integers(0, 12))
steps = st.lists(
    st.tuples(st.sampled_from(["append", "append", "append", "push_front", "pop", "pop", "victim"]), deliveries),
    max_size=120,
)


@given(steps, st.lists(st.sampled_from(POLICIES), min_size=1, max_size=3), st.sampled_from([0, 10]))
def test_equals_a_plain_list(
    steps: list[tuple[str, tuple[str, int, int]]], policies: list[str], max_bytes: int
) -> None:
    """FC-12: after any steps the order, the drops, length, bytes and counts by QoS are those of a plain list."""
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
    assert mqueue.waiting_qos1 + mqueue.waiting_qos2 == by_qos[1] + by_qos[2]


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
    """FC-9, FC-12: the deliveries of one topic and QoS leave in the order of their arrival, whatever else waits."""
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
