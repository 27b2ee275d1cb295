"""FC-16: publishers are held back for a while before a queue that drains overflows."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.subscribe import Subscription
from session.limits import Limits
from session.mailbox import ROOM as MAILBOX_ROOM
from session.pacing import Publisher
from session.shared_queue import SharedQueue
from tests.support.session.host import NotingHost
from tests.support.session.messages import SECOND, texts
from tests.support.session.pacing import PATIENCE, Scene, dropped
from tests.support.session.peer import Peer

# -- when it begins


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_begins_at_a_full_queue_only(qos: int) -> None:
    """FC-16: nobody is held back before the queue is full; then the delivery stays in the mailbox, and none is lost."""
    scene = Scene()
    scene.receiver.pause()
    scene.bring(2)
    assert scene.bring(10, qos=qos) == 10
    assert len(scene.receiver.waiting()) == 10
    assert not scene.publisher.host.paused

    # The first one that does not fit begins it, and the next one brings the first publisher who is held back.
    assert scene.bring(5, qos=qos) == 2
    assert scene.publisher.host.paused
    assert scene.receiver.outbound.mailbox.length() == 2
    assert dropped(scene.receiver) == 0
    scene.check_books()


def test_a_burst_to_who_keeps_up_loses_nothing() -> None:
    """FC-16: a publisher that is far ahead of a subscriber that drains is held back, and all of it arrives in order."""
    scene = Scene()
    left = 500
    for _ in range(1_000):
        left -= scene.bring(left)
        scene.advance(0.001)
        if scene.receiver.window_ids():
            scene.acknowledge()

    assert left == 0
    assert texts(scene.receiver.packets) == [str(number) for number in range(500)]
    assert dropped(scene.receiver) == 0
    assert scene.receiver.take_counters().paced_for_us > 0
    assert scene.publisher.take_counters().publish_paced_us > 0


def test_not_while_something_can_be_sent() -> None:
    """FC-16, FC-6: a queue that could send makes room by that, and holds nobody back."""
    scene = Scene(Limits(max_inflight=2, max_mqueue_len=3))
    scene.receiver.pause()
    scene.bring(3, qos=0)
    scene.receiver.outbound.sender.set_congested(False, scene.now)
    assert scene.bring(5, qos=0) == 5
    assert not scene.publisher.host.paused


def test_expired_messages_make_room() -> None:
    """FC-16, FC-5: what has expired at the head goes first, as expired, and nobody is held back for that."""
    scene = Scene(Limits(max_inflight=1, max_mqueue_len=2))
    scene.bring(1)
    scene.receiver.publish("old", "older", qos=1, expiry=1)
    scene.receiver.run()
    scene.advance(2)

    assert scene.bring(2) == 2
    assert not scene.publisher.host.paused
    assert scene.receiver.outbound.sender.counters.dropped_qos1 == 2
    assert dropped(scene.receiver) == 0
    assert scene.receiver.waiting() == ["1", "2"]


def test_expired_messages_that_make_too_little_room() -> None:
    """FC-16: where the room of what has expired does not do, what lives is not dropped for it."""
    scene = Scene(Limits(max_inflight=1, max_mqueue_len=0, max_mqueue_bytes=100))
    scene.bring(1)
    scene.receiver.publish("old", qos=1, size=10, expiry=1)
    scene.receiver.run()
    scene.bring(1, size=80)
    scene.advance(1.5)

    scene.bring(2, size=60)
    assert scene.publisher.host.paused
    assert scene.receiver.waiting() == ["1"]
    assert dropped(scene.receiver) == 0


def test_not_for_what_is_too_big() -> None:
    """FC-16, FC-5: what could not wait even in an empty queue is dropped at once."""
    scene = Scene(Limits(max_inflight=1, max_mqueue_len=0, max_mqueue_bytes=100))
    scene.bring(1)
    scene.bring(1, size=90)
    assert scene.bring(3, size=101) == 3
    assert not scene.publisher.host.paused
    assert dropped(scene.receiver) == 3


def test_not_for_who_is_offline() -> None:
    """FC-16, FC-7: the queue of a client that is away overflows at once."""
    scene = Scene()
    scene.receiver.disconnect()
    assert scene.bring(30) == 30
    assert not scene.publisher.host.paused
    assert dropped(scene.receiver) == 20


@pytest.mark.parametrize("policy", ["drop_oldest", "drop_oldest_qos0", "drop_newest"])
def test_without_patience(policy: str) -> None:
    """FC-16: 0 turns it off: whatever the policy, a full queue drops at once."""
    scene = Scene(Limits(max_inflight=1, max_mqueue_len=3, mqueue_overflow=policy), patience=0)
    assert scene.bring(10) == 10
    assert dropped(scene.receiver) == 6
    assert scene.receiver.take_counters().paced_for_us == 0


def test_every_publisher_that_brings_something() -> None:
    """FC-16: each publisher is held back from its first delivery on, and who brings nothing is not."""
    scene = Scene(publishers=3)
    first, second, third = scene.publishers
    scene.fill()
    scene.bring(5, first)
    assert scene.bring(5, second) == 1

    assert [peer.host.paused for peer in (first, second, third)] == [True, True, False]


def test_what_need_not_wait_is_sent() -> None:
    """FC-16, FC-2: QoS 1 in the mailbox goes when the window has room, though the mqueue is full of QoS 0."""
    scene = Scene(Limits(max_inflight=1, max_mqueue_len=2))
    scene.bring(1)
    scene.receiver.pause()
    scene.bring(2, qos=0)
    scene.bring(2, qos=1)
    assert scene.receiver.outbound.mailbox.length() == 2
    scene.acknowledge(2)
    assert texts(scene.receiver.packets) == ["0", "3", "4"]


# -- when it ends


def held(limits: Limits, *, size: int = 0) -> Scene:
    """A publisher that is held back, with two deliveries in the mailbox."""
    scene = Scene(limits)
    while not scene.publisher.host.paused:
        scene.bring(1, size=size)
    return scene


def test_ends_at_half_of_the_length() -> None:
    """FC-16: the publisher goes on when mailbox and mqueue together are down to half of the limit, not before."""
    scene = held(Limits(max_inflight=1, max_mqueue_len=10))
    assert scene.receiver.outbound.mailbox.length() == 2
    for _ in range(6):
        scene.acknowledge()
        assert scene.publisher.host.paused
    scene.acknowledge()
    assert len(scene.receiver.waiting()) == 5
    assert not scene.publisher.host.paused


def test_ends_at_half_of_the_bytes() -> None:
    """FC-16: the same for max_mqueue_bytes."""
    scene = held(Limits(max_inflight=1, max_mqueue_len=0, max_mqueue_bytes=100), size=20)
    for _ in range(4):
        scene.acknowledge()
        assert scene.publisher.host.paused
    scene.acknowledge()
    assert len(scene.receiver.waiting()) == 2
    assert not scene.publisher.host.paused


def test_does_not_flutter_over_bytes() -> None:
    """FC-16: a delivery that does not fit into half of max_mqueue_bytes waits, without passes in between."""
    scene = Scene(Limits(max_inflight=1, max_mqueue_len=1000, max_mqueue_bytes=60))
    scene.bring(1)
    scene.bring(1, size=25)
    scene.bring(2, size=50)  # `Peer.run` fails if passes do not end
    assert scene.publisher.host.paused
    scene.acknowledge()
    assert scene.publisher.host.paused
    assert scene.receiver.waiting() == ["2"]
    scene.acknowledge()
    scene.acknowledge()
    assert not scene.publisher.host.paused
    assert dropped(scene.receiver) == 0


# -- when it fails


def test_stalled() -> None:
    """FC-16: who drains nothing for a second holds nobody back any more, and the overflow drops as it always did."""
    scene = Scene()
    scene.fill()
    scene.bring(5)
    scene.advance(0.999)
    assert scene.publisher.host.paused
    scene.advance(0.002)
    assert not scene.publisher.host.paused
    assert dropped(scene.receiver) == 2

    assert scene.bring(10) == 10
    assert not scene.publisher.host.paused
    assert dropped(scene.receiver) == 12
    assert scene.receiver.host.reports == ["mqueue_full"]
    assert scene.publisher.take_counters().publish_paced_us == pytest.approx(SECOND, abs=10)
    scene.check_books()


@pytest.mark.parametrize(("policy", "kept"), [("drop_oldest", range(4, 14)), ("drop_newest", range(2, 12))])
def test_policies_afterwards(policy: str, kept: range) -> None:
    """FC-16, FC-5: what waited in the mailbox meets the policy in the order in which it came."""
    scene = Scene(Limits(max_inflight=2, max_mqueue_len=10, mqueue_overflow=policy))
    scene.fill()
    scene.bring(2)
    scene.advance(1.1)
    assert scene.receiver.waiting() == [str(number) for number in kept]


def test_draining_goes_on() -> None:
    """FC-16: what drains something every now and then goes on holding back."""
    scene = Scene()
    scene.fill()
    scene.bring(5)
    for _ in range(4):
        scene.advance(0.9)
        scene.acknowledge()
        assert scene.publisher.host.paused


def test_stall_counts_from_the_first_that_waits() -> None:
    """FC-16: a queue that has been empty for long has not stalled: the next burst is as welcome as the first one."""
    scene = Scene()
    for _ in range(2):
        scene.fill()
        scene.bring(5)
        assert scene.publisher.host.paused
        while scene.receiver.window_ids():
            scene.acknowledge()
        assert not scene.publisher.host.paused
        scene.advance(600)
    assert dropped(scene.receiver) == 0


def test_stall_counts_from_the_connection() -> None:
    """FC-16: a session that is back with a full queue may hold back for a second, as one that has never been away."""
    scene = Scene()
    scene.fill()
    scene.bring(1)
    scene.advance(1)
    scene.receiver.disconnect()
    scene.advance(10)
    scene.receiver.connect()
    scene.run()
    scene.bring(5)
    assert scene.publisher.host.paused
    scene.advance(1.001)
    assert not scene.publisher.host.paused


def test_a_queue_that_has_moved_again_may_hold_back_again() -> None:
    """FC-16: a stall is over as soon as something drains."""
    scene = Scene()
    scene.fill()
    scene.bring(5)
    scene.advance(1.1)
    scene.acknowledge()
    assert scene.bring(5) < 5
    assert scene.publisher.host.paused


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
    """FC-16: a subscriber that is too slow costs its publishers its bucket; then it drops, until it has run empty."""
    scene = Scene(Limits(max_inflight=2, max_mqueue_len=10), publishers=2)
    first, second = scene.publishers
    first.outbound.limits.overflow_patience = 1_000 * SECOND

    assert 5.0 < slowly(scene, 20, first) < 5.8
    assert dropped(scene.receiver) > 0
    assert slowly(scene, 20, second) == 0.0  # exhausted, although there is something in the bucket again

    while scene.receiver.window_ids():
        scene.acknowledge()
    assert slowly(scene, 5, second) > 0.5
    scene.check_books()


def test_the_patience_of_the_publisher() -> None:
    """FC-16: a publisher is held back no longer than its bucket lasts, whatever that of the queue holds."""
    scene = Scene()
    scene.limits.overflow_patience = 1_000 * SECOND
    assert 5.0 < slowly(scene, 20) < 5.8
    assert dropped(scene.receiver) > 0
    scene.check_books()


def test_many_queues_count_once() -> None:
    """FC-16: a publisher that five slow subscribers hold back is held back until the last lets it go, and pays once."""
    scene = Scene(receivers=5)
    scene.fill()
    scene.bring(2)
    assert [dropped(receiver) for receiver in scene.receivers] == [0] * 5
    for receiver in scene.receivers:
        assert scene.publisher.host.paused
        scene.advance(0.02)
        while receiver.window_ids():
            scene.acknowledge(1, receiver)
    assert not scene.publisher.host.paused
    assert scene.publisher.take_counters().publish_paced_us == 0.1 * SECOND


def test_who_is_impatient_is_let_in_beside_others() -> None:
    """FC-16: one whose patience is used up is not held back while another is: what it brings joins a short mailbox."""
    scene = Scene(publishers=2)
    held_one, impatient = scene.publishers
    publisher = Publisher(impatient.host, scene.limits.overflow_patience, scene.now)
    publisher.patience.start(scene.now - 6 * SECOND)
    impatient.outbound.publisher = publisher
    scene.fill()
    scene.bring(5)
    assert held_one.host.paused

    room = MAILBOX_ROOM - scene.receiver.outbound.mailbox.length()
    assert scene.bring(room + 7, impatient) == room + 7
    assert not impatient.host.paused
    assert dropped(scene.receiver) == 7
    assert scene.receiver.host.reports == ["mqueue_full"]
    scene.check_books()


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_from_nobody(qos: int) -> None:
    """FC-16: wills and $SYS hold nobody back: up to 1,024 deliveries join the mailbox, what exceeds them is counted."""
    scene = Scene()
    scene.fill()
    scene.bring(5)
    room = MAILBOX_ROOM - scene.receiver.outbound.mailbox.length()

    scene.broker_brings(room, qos=qos)
    assert dropped(scene.receiver) == 0
    scene.broker_brings(3, qos=qos)
    assert dropped(scene.receiver) == 3
    assert getattr(scene.receiver.outbound.sender.counters, f"dropped_qos{qos}") == 3
    scene.check_books()


def test_bytes_from_nobody() -> None:
    """FC-16: a limit in bytes bounds the mailbox too: what nobody can be held back for joins up to as much again."""
    scene = Scene(Limits(max_inflight=2, max_mqueue_len=0, max_mqueue_bytes=1_000))
    scene.bring(2, size=100)
    scene.bring(12, size=100)
    assert scene.publisher.host.paused
    room = 10 - scene.receiver.outbound.mailbox.length()
    assert room > 0

    scene.broker_brings(room, size=100)
    assert dropped(scene.receiver) == 0
    scene.broker_brings(3, size=100)
    assert dropped(scene.receiver) == 3
    scene.check_books()


def test_nobody_to_hold_back_and_stalled() -> None:
    """FC-16, FC-5: no timer watches over a queue that only wills come to; it fails as well, and the policy drops."""
    scene = Scene()
    scene.broker_brings(12)
    scene.broker_brings(3)
    assert dropped(scene.receiver) == 0
    scene.advance(1.0)
    scene.broker_brings(1)
    assert dropped(scene.receiver) == 4
    assert scene.receiver.waiting() == [str(number) for number in range(6, 16)]


def test_last_ones_of_a_publisher_that_is_gone() -> None:
    """FC-16, FC-7: a publisher that has disconnected counts as nobody, as does its will."""
    scene = Scene()
    scene.fill()
    scene.publisher.disconnect()
    scene.bring(5)
    assert not scene.publisher.host.paused
    assert scene.receiver.outbound.mailbox.length() == 5


# -- who goes


def test_receiver_disconnects() -> None:
    """FC-16: the end of the subscriber's connection releases everybody; its queue overflows as FC-7 has it."""
    scene = Scene(publishers=2)
    scene.fill()
    for publisher in scene.publishers:
        scene.bring(5, publisher)
    scene.receiver.disconnect()
    assert [publisher.host.paused for publisher in scene.publishers] == [False, False]
    assert scene.bring(5) == 5
    assert not scene.receiver.outbound.paced
    scene.check_books()


def test_receiver_ends() -> None:
    """FC-16: so does the end of its session."""
    scene = Scene()
    scene.fill()
    scene.bring(5)
    scene.receiver.outbound.end(scene.now)
    assert not scene.publisher.host.paused
    scene.check_books()


def test_publisher_disconnects() -> None:
    """FC-16: the end of a publisher's connection releases that one only."""
    scene = Scene(publishers=2)
    first, second = scene.publishers
    scene.fill()
    scene.bring(5, first)
    scene.bring(5, second)
    first.disconnect()
    assert [first.host.paused, second.host.paused] == [False, True]
    first.connect()
    scene.bring(1, first)
    assert first.host.paused


def test_paused_time_stops_with_the_connection() -> None:
    """FC-16: time after a disconnect is not counted, at either end."""
    scene = Scene()
    scene.fill()
    scene.bring(5)
    scene.advance(0.1)
    scene.publisher.disconnect()
    scene.advance(0.1)
    assert scene.publisher.take_counters().publish_paced_us == 0.1 * SECOND
    assert scene.receiver.take_counters().paced_for_us == 0.1 * SECOND


@pytest.mark.parametrize("patience", [PATIENCE, SECOND // 2])
def test_its_own_subscriber(patience: int) -> None:
    """FC-16: a client that publishes to itself faster than it reads is held back, and then not, like any other."""
    scene = Scene(patience=patience)
    client = scene.receiver
    scene.publishers = [client]
    scene.publisher = client
    scene.fill()
    scene.bring(5)
    assert client.host.paused
    while client.host.paused:
        scene.acknowledge()
    assert len(client.waiting()) == 5
    scene.bring(20)
    scene.advance(1.1)
    assert not client.host.paused
    client.outbound.end(scene.now)
    scene.check_books()


# -- groups


def group(*, members: int = 2, publishers: int = 1, limits: Limits | None = None) -> Scene:
    """Sessions that share."""
    scene = Scene(limits or Limits(max_inflight=2, max_mqueue_len=10), receivers=members, publishers=publishers)
    scene.group = SharedQueue("$share/g/t", scene.limits, NotingHost())
    for receiver in scene.receivers:
        scene.group.add(receiver.outbound, Subscription("$share/g/t", 2))
        receiver.end_chunk()
    return scene


def waiting(scene: Scene) -> int:
    """How many wait with the group."""
    assert scene.group is not None
    assert scene.group.mqueue is not None
    return scene.group.mqueue.length


def group_dropped(scene: Scene) -> int:
    """How many an overflow has dropped."""
    assert scene.group is not None
    counters = scene.group.counters
    for qos in range(3):
        offered, sent, lost = (getattr(counters, f"{name}_qos{qos}") for name in ("offered", "sent", "dropped"))
        mqueue = scene.group.mqueue
        assert offered == sent + lost + sum(publish.qos == qos for publish in mqueue or ())
    return counters.dropped_queue_full


def test_group_holds_back() -> None:
    """FC-16, FC-13: a shared queue that is full and drains holds back who brings more, up to half of its limit."""
    scene = group()
    scene.fill()
    assert scene.bring(5) == 1
    assert scene.publisher.host.paused
    for _ in range(5):
        scene.acknowledge()
        assert scene.publisher.host.paused
    scene.acknowledge(1, scene.receivers[1])
    assert waiting(scene) == 5
    assert not scene.publisher.host.paused
    assert group_dropped(scene) == 0


def test_group_stalls() -> None:
    """FC-16, FC-13: one that drains nothing for a second drops at once."""
    scene = group()
    scene.fill()
    scene.bring(5)
    scene.advance(0.999)
    assert scene.publisher.host.paused
    scene.advance(0.002)
    assert not scene.publisher.host.paused
    assert scene.bring(5) == 5
    assert waiting(scene) == 10
    assert group_dropped(scene) == 6


def test_group_takes_twice_its_limit() -> None:
    """FC-16, FC-13: what comes nevertheless joins a queue that holds back, up to twice its limits, then is dropped."""
    scene = group(publishers=12)
    scene.fill()
    for publisher in scene.publishers:
        scene.bring(5, publisher)
    assert all(publisher.host.paused for publisher in scene.publishers)
    assert waiting(scene) == 20
    assert group_dropped(scene) == 2


def test_group_takes_twice_its_bytes() -> None:
    """FC-16, FC-13: the same in bytes."""
    scene = group(publishers=12, limits=Limits(max_inflight=1, max_mqueue_len=0, max_mqueue_bytes=100))
    scene.bring(2)
    assert scene.bring(5, size=20) == 5
    for publisher in scene.publishers:
        scene.bring(5, publisher, size=20)
    assert waiting(scene) == 10
    assert group_dropped(scene) == 7


def test_will_to_a_group_that_holds_back() -> None:
    """FC-16, FC-13: a will does not make the group drop what it has let in past its limit."""
    scene = group(publishers=4)
    scene.fill()
    for publisher in scene.publishers:
        scene.bring(5, publisher)
    scene.broker_brings(3)
    assert waiting(scene) == 17
    assert group_dropped(scene) == 0


def test_group_without_anybody_online() -> None:
    """FC-16, FC-13: nobody is held back for a group whose members are all away."""
    scene = group(members=1)
    scene.receiver.disconnect()
    assert scene.bring(15) == 15
    assert group_dropped(scene) == 5


def test_group_after_a_long_rest() -> None:
    """FC-16, FC-13: a group that has had nothing for long has not stalled."""
    scene = group()
    for _ in range(2):
        scene.fill()
        scene.bring(5)
        assert scene.publisher.host.paused
        for receiver in scene.receivers:
            while receiver.window_ids():
                scene.acknowledge(1, receiver)
        assert not scene.publisher.host.paused
        scene.advance(600)
    assert group_dropped(scene) == 0


# -- bounds, whatever happens


@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.parametrize("late", [0.0, 0.1])
def test_slow_subscribers_do_not_add_up(count: int, late: float) -> None:
    """FC-16: a hundred subscribers, one slower than the other, cost their publisher 5 s and a twentieth of the time."""
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
    assert scene.publisher.take_counters().publish_paced_us <= 5 * SECOND + 40 * SECOND / 20
    scene.check_books()


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


@settings(max_examples=100, deadline=None)
@given(STEPS, st.sampled_from([0.0, 0.05, 0.1]), st.sampled_from([PATIENCE, SECOND // 2]))
def test_bounds(steps: list[tuple[str, int]], late: float, patience: int) -> None:
    """FC-16: nobody is held back for longer than the bucket has, nor for who drains nothing, whatever happens."""
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
