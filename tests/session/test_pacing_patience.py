"""FC-16: how long publishers are paced: the patience of queue and publisher bounds it, whatever happens."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from session.limits import Limits
from tests.conftest import EXAMPLES
from tests.support.session.messages import SECOND
from tests.support.session.pacing import PATIENCE, Scene, dropped
from tests.support.session.peer import Peer


def slowly(scene: Scene, seconds: float, publisher: Peer | None = None) -> float:
    """A publisher sends all that it may to a receiver that takes 100 a second. Returns how long it was held back."""
    publisher = publisher or scene.publisher
    paused = 0.0
    for _ in range(int(seconds * 100)):
        scene.bring(20, publisher)
        paused += 0.01 if publisher.host.paused else 0.0
        scene.advance(0.01)
        scene.acknowledge()
    return paused


def test_the_patience_of_the_queue() -> None:
    """FC-16: a queue whose patience is used up drops, and paces publishers again only after it has run empty."""
    scene = Scene(Limits(max_inflight=2, max_mqueue_len=10), publishers=2)
    first, second = scene.publishers
    first.outbound.sender.limits.overflow_patience = 1_000 * SECOND

    assert 5.0 < slowly(scene, 20, first) < 5.8
    assert dropped(scene.receiver) > 0
    assert slowly(scene, 20, second) == 0.0  # exhausted, although there is something in the bucket again

    scene.drain()
    assert slowly(scene, 5, second) > 0.5
    scene.check_books()


def test_the_patience_of_the_publisher() -> None:
    """FC-16: a publisher is paced no longer than its own patience lasts, whatever patience the queue has."""
    scene = Scene()
    scene.limits.overflow_patience = 1_000 * SECOND
    assert 5.0 < slowly(scene, 20) < 5.8
    assert dropped(scene.receiver) > 0
    scene.check_books()


def test_many_queues_count_once() -> None:
    """FC-16: a publisher that five queues pace resumes when the last one releases it, and the time counts once."""
    scene = Scene(receivers=5)
    scene.fill()
    scene.bring(2)
    assert [dropped(receiver) for receiver in scene.receivers] == [0] * 5
    for receiver in scene.receivers:
        assert scene.publisher.host.paused
        scene.advance(0.02)
        scene.drain(receiver)
    assert not scene.publisher.host.paused
    assert scene.publisher.take_counters().uncommon.publish_paced_us == 0.1 * SECOND


@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.parametrize("late", [0.0, 0.1])
def test_slow_subscribers_do_not_add_up(count: int, late: float) -> None:
    """FC-16: a hundred slow subscribers pace their publisher for at most 5 s and a twentieth of the time."""
    scene = Scene(Limits(max_inflight=1, max_mqueue_len=2), receivers=count, timers_late=late)
    rest = 0
    for step in range(400):
        scene.bring(4)
        scene.advance(0.1)
        for number, receiver in enumerate(scene.receivers):
            if (step + number) % (1 + number % 7) == 0 and receiver.window_ids():
                receiver.puback(receiver.window_ids()[0])
        rest += not scene.publisher.host.paused
    assert rest > 0
    assert scene.publisher.take_counters().uncommon.publish_paced_us <= 5 * SECOND + 40 * SECOND / 20
    scene.check_books()


# -- whatever happens


ACTS = ["bring 0", "bring 1", "drain", "drain all", "pause", "resume"]
WAITS = ["0.001", "0.03", "0.1", "0.2", "0.95", "1.05", "4.0"]
STEPS = st.lists(st.tuples(st.sampled_from(ACTS + WAITS), st.integers(0, 3)), min_size=20, max_size=120)


class Watched:
    """A scene, how long its publishers have been held back, and when its receivers last drained something."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.began = scene.now
        self.paced = [0] * len(scene.publishers)
        self.moved = dict.fromkeys(scene.receivers, scene.now)

    def act(self, what: str, receiver: Peer) -> None:
        """One of ACTS."""
        before = len(receiver.packets), len(receiver.window_ids())
        if what.startswith("bring"):
            publisher = self.scene.publishers[int(what[-1])]
            self.scene.bring(3, publisher, qos=len(receiver.packets) % 2, to=[receiver, self.scene.receiver])
            for other in self.scene.receivers:
                if other.waiting():
                    self.moved[other] = self.scene.now  # what waits may be the first
        elif what.startswith("drain"):
            while receiver.window_ids():
                self.scene.acknowledge(1, receiver)
                if what == "drain":
                    break
        elif what == "pause":
            receiver.pause()
        else:
            receiver.resume()
        if before != (len(receiver.packets), len(receiver.window_ids())):
            self.moved[receiver] = self.scene.now

    def wait(self, seconds: float) -> None:
        """Let time pass, and look."""
        step = min(seconds, 0.01)
        for _ in range(round(seconds / step)):
            self.scene.advance(step)
            for index, publisher in enumerate(self.scene.publishers):
                self.paced[index] += int(step * SECOND) if publisher.host.paused else 0
            if all(self.scene.now - at > 1.101 * SECOND for at in self.moved.values()):
                assert not any(publisher.host.paused for publisher in self.scene.publishers)

    def check(self, patience: int) -> None:
        """Hold the time to the bound."""
        assert max(self.paced) <= patience + (self.scene.now - self.began) / 20


@settings(max_examples=2 * EXAMPLES, deadline=None)
@given(STEPS, st.sampled_from([0.0, 0.05, 0.1]), st.sampled_from([PATIENCE, SECOND // 2]))
def test_bounds(steps: list[tuple[str, int]], late: float, patience: int) -> None:
    """FC-16: after any steps no publisher has been paced beyond its patience, or for queues that drain nothing."""
    limits = Limits(max_inflight=2, max_mqueue_len=3)
    scene = Scene(limits, receivers=4, publishers=2, patience=patience, timers_late=late)
    watched = Watched(scene)
    for what, number in steps:
        if what in ACTS:
            watched.act(what, scene.receivers[number])
        else:
            watched.wait(float(what))
        watched.check(patience)
    scene.check_books()
