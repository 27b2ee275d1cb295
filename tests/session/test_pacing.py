"""FC-16: which publishers are paced, when it begins, and what becomes of deliveries that pace nobody."""

import pytest

from session.limits import Limits
from session.pacing import Publisher
from tests.support.session.messages import SECOND, texts
from tests.support.session.pacing import Scene, dropped

MAILBOX_ROOM = 1_024
"""FC-16: as many deliveries may be in a mailbox with those that pace nobody."""


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_begins_at_a_full_queue_only(qos: int) -> None:
    """FC-16: pacing begins with the first delivery that a full queue cannot take, which stays in the mailbox."""
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
    """FC-16: a publisher far ahead of a subscriber that drains is paced, and all deliveries arrive in order."""
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
    assert scene.receiver.take_counters().uncommon.paced_for_us > 0
    assert scene.publisher.take_counters().uncommon.publish_paced_us > 0


def test_not_while_something_can_be_sent() -> None:
    """FC-16, FC-6: a queue that can send makes room by sending, and paces nobody."""
    scene = Scene(Limits(max_inflight=2, max_mqueue_len=3))
    scene.receiver.pause()
    scene.bring(3, qos=0)
    scene.receiver.outbound.sender.set_congested(False, scene.now)
    assert scene.bring(5, qos=0) == 5
    assert not scene.publisher.host.paused


def test_expired_messages_make_room() -> None:
    """FC-16, FC-5: a full queue drops expired deliveries at its head, as expired, before it paces anybody."""
    scene = Scene(Limits(max_inflight=1, max_mqueue_len=2))
    scene.bring(1)
    scene.receiver.publish("old", "older", qos=1, expiry=1)
    scene.receiver.run()
    scene.advance(2)

    assert scene.bring(2) == 2
    assert not scene.publisher.host.paused
    assert scene.receiver.outbound.sender.counters.uncommon.dropped_qos1 == 2
    assert dropped(scene.receiver) == 0
    assert scene.receiver.waiting() == ["1", "2"]


def test_expired_messages_that_make_too_little_room() -> None:
    """FC-16: a queue paces the publisher, and drops nothing else, if its expired deliveries make too little room."""
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
    """FC-16, FC-5: a delivery that would not fit an empty queue is dropped at once and paces nobody."""
    scene = Scene(Limits(max_inflight=1, max_mqueue_len=0, max_mqueue_bytes=100))
    scene.bring(1)
    scene.bring(1, size=90)
    assert scene.bring(3, size=101) == 3
    assert not scene.publisher.host.paused
    assert dropped(scene.receiver) == 3


def test_not_for_who_is_offline() -> None:
    """FC-16, FC-7: the queue of an offline session overflows at once and paces nobody."""
    scene = Scene()
    scene.receiver.disconnect()
    assert scene.bring(30) == 30
    assert not scene.publisher.host.paused
    assert dropped(scene.receiver) == 20


@pytest.mark.parametrize("policy", ["drop_oldest", "drop_oldest_qos0", "drop_newest"])
def test_without_patience(policy: str) -> None:
    """FC-16: with an overflow_patience of 0 a full queue drops at once under every policy."""
    scene = Scene(Limits(max_inflight=1, max_mqueue_len=3, mqueue_overflow=policy), patience=0)
    assert scene.bring(10) == 10
    assert dropped(scene.receiver) == 6
    assert scene.receiver.take_counters().uncommon.paced_for_us == 0


def test_every_publisher_that_brings_something() -> None:
    """FC-16: a full queue paces each publisher at its first delivery, and no publisher that brings none."""
    scene = Scene(publishers=3)
    first, second, third = scene.publishers
    scene.fill()
    scene.bring(5, first)
    assert scene.bring(5, second) == 1

    assert [peer.host.paused for peer in (first, second, third)] == [True, True, False]


def test_what_need_not_wait_is_sent() -> None:
    """FC-16, FC-2: QoS 1 in the mailbox is sent when the window has room, though QoS 0 fills the mqueue."""
    scene = Scene(Limits(max_inflight=1, max_mqueue_len=2))
    scene.bring(1)
    scene.receiver.pause()
    scene.bring(2, qos=0)
    scene.bring(2, qos=1)
    assert scene.receiver.outbound.mailbox.length() == 2
    scene.acknowledge(2)
    assert texts(scene.receiver.packets) == ["0", "3", "4"]


# -- deliveries that pace nobody


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_from_nobody(qos: int) -> None:
    """FC-16: up to 1,024 deliveries without a publisher join the mailbox, and more are dropped and counted."""
    scene = Scene()
    scene.overfill()
    room = MAILBOX_ROOM - scene.receiver.outbound.mailbox.length()

    scene.broker_brings(room, qos=qos)
    assert dropped(scene.receiver) == 0
    scene.broker_brings(3, qos=qos)
    assert dropped(scene.receiver) == 3
    assert scene.receiver.outbound.sender.counters.column(f"dropped_qos{qos}") == 3
    scene.check_books()


def test_bytes_from_nobody() -> None:
    """FC-16: deliveries without a publisher join the mailbox up to max_mqueue_bytes."""
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
    """FC-16, FC-5: a stalled queue that paces nobody has no timer, and its policy drops at the next delivery."""
    scene = Scene()
    scene.broker_brings(12)
    scene.broker_brings(3)
    assert dropped(scene.receiver) == 0
    scene.advance(1.0)
    scene.broker_brings(1)
    assert dropped(scene.receiver) == 4
    assert scene.receiver.waiting() == [str(number) for number in range(6, 16)]


def test_last_ones_of_a_publisher_that_is_gone() -> None:
    """FC-16, FC-7: deliveries of a disconnected publisher join the mailbox and pace nobody."""
    scene = Scene()
    scene.fill()
    scene.publisher.disconnect()
    scene.bring(5)
    assert not scene.publisher.host.paused
    assert scene.receiver.outbound.mailbox.length() == 5


def test_who_is_impatient_is_let_in_beside_others() -> None:
    """FC-16: a publisher whose patience is used up is not paced beside one that is: its deliveries join the mailbox."""
    scene = Scene(publishers=2)
    held_one, impatient = scene.publishers
    publisher = Publisher(impatient.host, scene.limits.overflow_patience, scene.now)
    publisher.patience.start(scene.now - 6 * SECOND)
    impatient.outbound.publisher = publisher
    scene.overfill()
    assert held_one.host.paused

    room = MAILBOX_ROOM - scene.receiver.outbound.mailbox.length()
    assert scene.bring(room + 7, impatient) == room + 7
    assert not impatient.host.paused
    assert dropped(scene.receiver) == 7
    assert scene.receiver.host.reports == ["mqueue_full"]
    scene.check_books()
