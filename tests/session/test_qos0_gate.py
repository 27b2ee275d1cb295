"""FC-3: the gate that keeps QoS 0 from running past QoS 1 and 2; first the five targeted tests of the proposal (S3)."""

import pytest

from session import qos0_gate
from session.counters import Counters
from session.limits import Limits
from session.mailbox import Mailbox
from tests.support.session.messages import message, texts
from tests.support.session.peer import Peer


def gated(peer: Peer) -> tuple[int, int, int, int]:
    """How many QoS 0 deliveries were gated since the last call: congested, window full, mailbox busy, backlog."""
    counters = peer.take_counters()
    return (
        counters.uncommon.gated_congested,
        counters.uncommon.gated_window_full,
        counters.uncommon.gated_mailbox_busy,
        counters.uncommon.gated_backlog,
    )


def make_busy(peer: Peer) -> None:
    """Leave the session in the middle of a burst of QoS 0: what is in the mailbox makes it busy."""
    peer.publish(*range(120), qos=0)
    peer.run_pass()
    assert peer.outbound.mailbox.busy
    peer.take_counters()


# -- the five targeted tests


def test_no_bypass_when_window_full() -> None:
    """FC-3, S3: QoS 0 does not bypass when the window is full."""
    peer = Peer(Limits(max_inflight=1))
    peer.deliver("one", qos=1)

    peer.publish("zero", qos=0)
    peer.outbound.run_pass(peer.now)

    assert gated(peer) == (0, 1, 0, 0)
    assert texts(peer.flush()) == ["zero"]  # FC-4: it has been through the queue, and needs no window


def test_no_bypass_when_mailbox_busy() -> None:
    """FC-3, S3: QoS 0 does not bypass when the mailbox is busy; it is queued behind what was sent before."""
    peer = Peer()
    make_busy(peer)

    peer.run_pass()

    assert gated(peer) == (0, 0, 20, 0)


def test_no_bypass_when_backlog() -> None:
    """FC-3, S3: QoS 0 does not bypass when the mqueue has a backlog, though nothing else closes the gate."""
    peer = Peer()
    peer.disconnect()
    peer.publish(*range(20), qos=1, size=10_000)
    peer.connect()  # one pass's bytes are sent; the rest is still in the mqueue, the window has room
    assert len(peer.waiting()) == 13

    peer.publish("zero", qos=0)
    sent = texts(peer.run())

    assert gated(peer) == (0, 0, 0, 1)
    assert sent[-1] == "zero"


def test_fast_path_without_pressure() -> None:
    """FC-3, S3: without pressure QoS 0 is sent at once, without being queued."""
    peer = Peer()
    peer.deliver("one", qos=1)

    assert peer.deliver("a", "b", "c", qos=0) == ["a", "b", "c"]
    assert gated(peer) == (0, 0, 0, 0)
    assert peer.take_counters().mqueue_max == 0


@pytest.mark.parametrize(("store", "kept"), [(True, ["a", "b"]), (False, [])])
def test_offline_is_unchanged(store: bool, kept: list[str]) -> None:
    """FC-3, FC-7, S3: offline only mqueue_store_qos0 decides, and nothing is counted as gated."""
    peer = Peer(Limits(mqueue_store_qos0=store))
    peer.disconnect()

    peer.publish("a", "b", qos=0)

    assert peer.waiting() == kept
    assert gated(peer) == (0, 0, 0, 0)


# -- the send path


def test_congested_send_path_gates() -> None:
    """FC-3: QoS 0 is queued while the send path is congested, until the transport resumes."""
    peer = Peer()
    peer.pause()

    assert peer.deliver("a", "b", qos=0) == []
    assert gated(peer) == (2, 0, 0, 0)
    assert texts(peer.resume()) == ["a", "b"]
    assert peer.deliver("c", qos=0) == ["c"]
    assert gated(peer) == (0, 0, 0, 0)


def test_gate_does_not_touch_qos1_and_2() -> None:
    """FC-3: the gate holds back QoS 0 only; for QoS 1 and 2 the window decides (FC-2)."""
    peer = Peer()
    peer.pause()

    assert peer.deliver("a", qos=1) == ["a"]
    assert peer.deliver("b", qos=2) == ["b"]
    assert gated(peer) == (0, 0, 0, 0)


def test_switched_off_for_the_experiment() -> None:
    """FC-3: with the gate switched off QoS 0 is sent at once, for the experiment."""
    peer = Peer(Limits(max_inflight=1, gate=False))
    peer.deliver("one", "two", qos=1)
    peer.pause()

    assert peer.deliver("zero", qos=0) == ["zero"]
    assert gated(peer) == (0, 0, 0, 0)
    assert peer.waiting() == ["two"]


def test_switched_off_after_a_reconnect() -> None:
    """FC-8: with the gate switched off, resends that a smaller window holds back precede new QoS 0."""
    peer = Peer(Limits(max_inflight=2, gate=False), 5)
    peer.deliver("one", "two", qos=1)
    peer.disconnect()
    peer.connect(5, receive_maximum=1)

    assert peer.deliver("zero", qos=0) == []
    assert texts(peer.puback(1)) == ["two", "zero"]


def test_switched_off_keeps_order() -> None:
    """FC-9: with the gate switched off, QoS 0 does not overtake QoS 0 that was queued while offline."""
    peer = Peer(Limits(max_inflight=1, gate=False))
    peer.deliver("one", "two", qos=1)
    peer.disconnect()
    peer.publish("old")
    peer.connect()

    assert peer.deliver("new") == []
    assert texts(peer.puback(1)) == ["two", "old", "new"]


# -- the reason that is counted


@pytest.mark.parametrize(
    ("congested", "window_full", "busy", "backlog", "reason"),
    [
        (False, False, False, False, qos0_gate.OPEN),
        (False, False, False, True, qos0_gate.BACKLOG),
        (False, False, True, False, qos0_gate.MAILBOX_BUSY),
        (False, False, True, True, qos0_gate.MAILBOX_BUSY),
        (False, True, False, False, qos0_gate.WINDOW_FULL),
        (False, True, True, True, qos0_gate.WINDOW_FULL),
        (True, False, False, False, qos0_gate.CONGESTED),
        (True, True, True, True, qos0_gate.CONGESTED),
        (True, False, True, False, qos0_gate.CONGESTED),
        (True, False, False, True, qos0_gate.CONGESTED),
        (False, True, True, False, qos0_gate.WINDOW_FULL),
        (False, True, False, True, qos0_gate.WINDOW_FULL),
    ],
)
def test_first_reason_that_holds(congested: bool, window_full: bool, busy: bool, backlog: bool, reason: int) -> None:
    """FC-3: the order of reasons is congested, window full, mailbox busy, backlog."""
    assert qos0_gate.closed_by(congested, window_full, busy, backlog) == reason


def test_counted_once_under_the_first_reason() -> None:
    """FC-3: with all four reasons each delivery is counted once, under the first."""
    peer = Peer(Limits(max_inflight=1))
    peer.publish(*range(119), qos=0)
    peer.publish("one", "two", qos=1)
    peer.publish(*range(30), qos=0)
    peer.run_pass()
    peer.pause()
    peer.take_counters()

    peer.run_pass()  # 19 QoS 0 of the burst, two QoS 1, and 30 QoS 0 more
    assert gated(peer) == (49, 0, 0, 0)

    peer.resume()
    peer.publish(*range(5), qos=0)
    peer.run_pass()
    assert gated(peer) == (0, 5, 0, 0)


# -- the mailbox mark


@pytest.mark.parametrize(
    ("was_busy", "length", "busy"),
    [
        (False, 0, False),
        (False, 10, False),
        (False, 11, True),
        (True, 11, True),
        (True, 10, True),
        (True, 6, True),
        (True, 5, False),
        (True, 0, False),
        (False, 6, False),
        (False, 5, False),
    ],
)
def test_hysteresis(was_busy: bool, length: int, busy: bool) -> None:
    """FC-3: above 10 the mailbox is busy, at 5 or below it is not, in between it stays as it was."""
    mailbox = Mailbox()
    mailbox.busy = was_busy
    mailbox.deliveries = [message(number, 0) for number in range(length)]
    assert mailbox.sample(Counters(0)) == length
    assert mailbox.busy is busy


@pytest.mark.parametrize(("rest", "busy"), [(10, False), (11, True)])
def test_sampled_at_the_end_of_a_pass(rest: int, busy: bool) -> None:
    """FC-3: the end of a pass samples the mailbox: more than 10 left in it is busy."""
    peer = Peer(Limits(max_inflight=0))
    peer.publish(*range(100 + rest), qos=1)

    peer.run_pass()

    assert peer.outbound.mailbox.busy is busy


def test_every_pass_samples() -> None:
    """FC-3: each pass ends with a sample, even one that sends nothing."""
    peer = Peer()

    for _ in range(3):
        peer.run_pass()

    assert peer.take_counters().mailbox_samples == 3


def test_sampled_every_100_sends() -> None:
    """FC-3: within a pass the hundredth send samples too: a burst of 110 is seen with 10 left, and not busy."""
    peer = Peer()
    peer.publish(*range(110), qos=0)

    peer.run_pass()
    counters = peer.take_counters()

    assert counters.mailbox_samples == 2  # the hundredth send, and the end of the pass
    assert counters.mailbox_max == 10
    assert counters.mailbox_busy_samples == 0


def test_not_sampled_before_100_sends() -> None:
    """FC-3: 99 sends in a pass cause no sample but that at its end."""
    peer = Peer()

    peer.deliver(*range(99), qos=0)

    assert peer.take_counters().mailbox_samples == 1


def test_sends_from_the_mqueue_count_too() -> None:
    """FC-3: deliveries sent from the mqueue count for the hundred sends."""
    peer = Peer()
    peer.disconnect()
    peer.publish(*range(250), qos=0)

    peer.connect()

    assert peer.take_counters().mailbox_samples == 2


def test_busy_ends_with_the_burst() -> None:
    """FC-3: once the mailbox is down to 5 or fewer at a sample, QoS 0 is sent at once again."""
    peer = Peer()
    make_busy(peer)
    peer.run()
    assert not peer.outbound.mailbox.busy
    peer.take_counters()

    peer.deliver("late", qos=0)

    assert gated(peer) == (0, 0, 0, 0)


def test_busy_samples_are_counted() -> None:
    """FC-3: samples, busy samples and the highest length of the mailbox are counted."""
    peer = Peer()
    peer.publish(*range(150), qos=0)

    peer.run()
    counters = peer.take_counters()

    assert counters.mailbox_max == 50
    assert counters.mailbox_busy_samples == 2  # the hundredth send and the end of the first pass
    assert counters.mailbox_samples == 3
    assert counters.mailbox_buckets is not None
    assert sum(counters.mailbox_buckets.counts().values()) == 3


def test_reconnect_clears_the_marks() -> None:
    """FC-3: a new connection begins neither busy nor congested."""
    peer = Peer()
    make_busy(peer)
    peer.pause()
    peer.disconnect()

    peer.connect()
    assert peer.deliver("a", qos=0) == ["a"]
    assert gated(peer) == (0, 0, 0, 0)
