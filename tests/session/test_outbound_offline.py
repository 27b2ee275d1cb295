"""FC-7: what a session without its client queues, and how it ends."""

import pytest

from session.limits import Limits
from tests.support.session.messages import texts
from tests.support.session.peer import Peer


@pytest.mark.parametrize(("store", "kept"), [(True, ["a", "b", "c"]), (False, ["b", "c"])])
def test_offline_queues(store: bool, kept: list[str]) -> None:
    """FC-7: an offline session queues QoS 1 and 2, and QoS 0 only if mqueue_store_qos0."""
    peer = Peer(Limits(mqueue_store_qos0=store))
    peer.disconnect()

    peer.publish("a", qos=0)
    peer.publish("b", qos=1)
    peer.publish("c", qos=2)

    assert peer.waiting() == kept
    assert texts(peer.connect()) == kept


def test_unstored_qos0_is_counted() -> None:
    """FC-7: QoS 0 that is not stored is offered and dropped, with its own reason."""
    peer = Peer(Limits(mqueue_store_qos0=False), online=False)

    peer.publish("a", "b", qos=0)
    counters = peer.take_counters()

    assert counters.offered_qos0 == 2
    assert counters.drops == {"dropped_offline_qos0_qos0": 2}


def test_drops_of_clients_that_are_away() -> None:
    """FC-5: what is dropped while the client is away is counted apart too, also after an interval has ended."""
    peer = Peer(Limits(max_mqueue_len=1, max_inflight=1, overflow_patience=0))
    peer.deliver("in the window", "waits", "drops it", qos=1)
    peer.disconnect()
    peer.deliver("away", qos=1)
    first = peer.take_counters()
    peer.deliver("away", "away", qos=1)
    second = peer.take_counters()
    peer.connect()
    peer.deliver("back", qos=1)
    third = peer.take_counters()

    assert [each.drops for each in (first, second, third)] == [{"dropped_queue_full_qos1": n} for n in (2, 2, 1)]
    away = [each.drops_away for each in (first, second, third)]
    assert away == [{"dropped_queue_full_qos1": 1}, {"dropped_queue_full_qos1": 2}, None]


@pytest.mark.parametrize("store", [True, False])
def test_mailbox_at_the_disconnect(store: bool) -> None:
    """FC-7, FC-9: deliveries in the mailbox at a disconnect are stored in order, as later ones are."""
    peer = Peer(Limits(mqueue_store_qos0=store))
    peer.publish(*range(102), qos=0)
    peer.publish("one", qos=1)
    peer.run_pass()
    peer.publish("late", qos=0)
    peer.publish("two", qos=1)

    peer.disconnect()

    assert peer.waiting() == (["100", "101", "one", "late", "two"] if store else ["one", "two"])
    assert peer.outbound.mailbox.length() == 0


def test_gate_has_no_say_offline() -> None:
    """FC-7: a full window and a congested send path neither keep QoS 0 from being stored nor count it as gated."""
    peer = Peer(Limits(max_inflight=1))
    peer.deliver("one", qos=1)
    peer.pause()
    peer.disconnect()

    peer.publish(*range(30), qos=0)
    counters = peer.take_counters()

    assert len(peer.waiting()) == 30
    uncommon = counters.uncommon
    assert uncommon.gated_congested + uncommon.gated_window_full + uncommon.gated_mailbox_busy == 0
    assert uncommon.gated_backlog == 0


def test_setting_has_no_say_online() -> None:
    """FC-7: mqueue_store_qos0 has no effect on QoS 0 that the gate queues for a connected session."""
    peer = Peer(Limits(mqueue_store_qos0=False))
    peer.pause()

    assert peer.deliver("a", qos=0) == []
    assert peer.waiting() == ["a"]
    assert texts(peer.resume()) == ["a"]


def test_queued_online_stays_offline() -> None:
    """FC-7: QoS 0 that was queued while online stays queued when the client disconnects."""
    peer = Peer(Limits(mqueue_store_qos0=False))
    peer.pause()
    peer.deliver("a", qos=0)

    peer.disconnect()

    assert texts(peer.connect()) == ["a"]


def test_limits_hold_offline() -> None:
    """FC-5, FC-7: the mqueue's limits hold for what is stored offline."""
    peer = Peer(Limits(max_mqueue_len=2, max_mqueue_bytes=10), online=False)

    peer.publish("a", "b", "c", qos=1)
    assert peer.waiting() == ["b", "c"]
    peer.publish("d", qos=0, size=10)
    assert peer.waiting() == ["d"]


def test_nothing_is_sent_offline() -> None:
    """FC-6, FC-7: an overflow of an offline session drops: nothing can be sent."""
    peer = Peer(Limits(max_mqueue_len=1), online=False)

    peer.publish("a", "b", qos=0)

    assert peer.flush() == []
    assert peer.waiting() == ["b"]


def test_offline_storing_leaves_the_mailbox_idle() -> None:
    """FC-7: after a delivery was stored, the next one wakes the offline session again."""
    peer = Peer(online=False)

    peer.publish("a", qos=1)
    peer.publish("b", qos=1)

    assert peer.host.wakes == 2
    assert peer.waiting() == ["a", "b"]


def test_end_drops_what_waits() -> None:
    """FC-5: when the session ends, mailbox and mqueue are dropped under that reason; what was sent is not."""
    peer = Peer(Limits(max_inflight=1))
    peer.deliver("sent", "waiting", qos=1)
    peer.publish("zero", qos=0)
    peer.publish("two", qos=2)

    peer.outbound.end(peer.now)
    counters = peer.take_counters()

    assert counters.drops == {
        "dropped_session_ended_qos0": 1,
        "dropped_session_ended_qos1": 1,
        "dropped_session_ended_qos2": 1,
    }
    assert counters.sent_qos1 == 1
    assert counters.uncommon.waiting_qos0 + counters.uncommon.waiting_qos1 + counters.uncommon.waiting_qos2 == 0
    assert not peer.outbound.sender.connected
