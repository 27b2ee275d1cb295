"""The counters of a session, interval by interval."""

import pytest

from session.histogram import Histogram
from session.limits import Limits
from session.uncommon_counts import UncommonCounts
from tests.support.session.books import assert_balanced, by_qos
from tests.support.session.buckets import bucket_of
from tests.support.session.inbound import from_client
from tests.support.session.messages import SECOND
from tests.support.session.peer import START, Peer


def counts(histogram: Histogram | None) -> dict[int, int]:
    """The counts by bucket."""
    assert histogram is not None
    return histogram.counts()


def test_offered_and_sent_by_qos() -> None:
    """Deliveries are counted as offered and sent by QoS, sent ones by payload bytes too."""
    peer = Peer()
    peer.deliver("a", qos=0, size=10)
    peer.deliver("b", "c", qos=1, size=100)
    peer.deliver("d", "e", "f", qos=2, size=1000)

    counters = peer.take_counters()

    assert by_qos(counters, "offered") == by_qos(counters, "sent") == (1, 2, 3)
    assert counters.sent_bytes == 3210
    assert by_qos(counters, "waiting") == (0, 0, 0)


def test_waiting_by_qos() -> None:
    """What waits in the mqueue and in the mailbox is counted as offered and waiting in this interval."""
    peer = Peer(Limits(max_inflight=1))
    peer.deliver("a", "b", qos=1)
    peer.deliver("c", qos=0)
    peer.publish("d", qos=0)
    peer.publish("e", "f", qos=2)

    counters = peer.take_counters()

    assert by_qos(counters, "offered") == (2, 2, 2)
    assert by_qos(counters, "sent") == (0, 1, 0)
    assert by_qos(counters, "waiting") == (2, 1, 2)
    assert_balanced(counters)


def test_next_interval_begins_with_what_waits() -> None:
    """The next interval starts with what waited, and does not count it as offered again."""
    peer = Peer(Limits(max_inflight=1))
    peer.deliver("a", "b", qos=1)
    peer.publish("c", qos=0)
    peer.take_counters()

    peer.run()
    peer.puback(1)
    counters = peer.take_counters()

    assert by_qos(counters, "waiting_start") == (1, 1, 0)
    assert by_qos(counters, "offered") == (0, 0, 0)
    assert by_qos(counters, "sent") == (1, 1, 0)
    assert_balanced(counters)


def test_mailbox_over_many_intervals() -> None:
    """A delivery in the mailbox is offered once, however many intervals end before a pass takes it."""
    peer = Peer()
    peer.publish(*range(250), qos=0)
    rows = [peer.take_counters(), peer.take_counters()]
    peer.run_pass()
    rows += [peer.take_counters(), peer.take_counters()]
    peer.publish("one", qos=1)
    peer.run()
    rows.append(peer.take_counters())

    for row in rows:
        assert_balanced(row)
    assert [row.offered_qos0 for row in rows] == [250, 0, 0, 0, 0]
    assert [row.uncommon.waiting_qos0 for row in rows] == [250, 250, 150, 150, 0]
    assert sum(row.offered_qos1 for row in rows) == 1


def test_every_end_of_a_delivery_balances() -> None:
    """offered = sent + dropped + waiting holds with drops of every reason in one interval."""
    peer = Peer(Limits(max_inflight=2, max_mqueue_len=3, mqueue_store_qos0=False), 5, maximum_packet_size=100)
    peer.deliver(*range(10), qos=1)
    peer.deliver("huge", qos=0, size=200)
    peer.disconnect()
    peer.publish("zero", qos=0)
    peer.publish("short", qos=2, expiry=1)
    peer.advance(2)
    peer.connect(5)
    peer.puback(1, 2)
    peer.puback(*peer.window_ids())
    peer.publish("late", qos=1)
    peer.outbound.end(peer.now)

    counters = peer.take_counters()

    assert_balanced(counters)
    assert {column.removeprefix("dropped_") for column in counters.drops or {}} >= {
        "queue_full_qos1",
        "offline_qos0_qos0",
        "expired_qos2",
        "session_ended_qos1",
    }


def test_highest_lengths() -> None:
    """The lengths of window and mqueue and its bytes: now, and the highest in the interval, which begins with now."""
    peer = Peer(Limits(max_inflight=4))
    peer.deliver(*range(7), qos=1, size=10)
    peer.puback(1, 2)
    peer.puback(3, 4, 5, 6)

    first, second = peer.take_counters(), peer.take_counters()

    assert (first.uncommon.window_len, first.uncommon.window_max, first.uncommon.window_limit) == (1, 4, 4)
    assert (first.uncommon.mqueue_len, first.mqueue_max) == (0, 3)
    assert (first.uncommon.mqueue_bytes, first.mqueue_bytes_max) == (0, 30)
    assert (second.uncommon.window_len, second.uncommon.window_max) == (1, 1)
    assert (second.mqueue_max, second.mqueue_bytes_max) == (0, 0)


def test_gauges_of_what_waits() -> None:
    """Length and bytes of the mqueue at the interval's end; the following interval's highest starts there."""
    peer = Peer(online=False)
    peer.publish(1, 2, 3, qos=1, size=7)
    first, second = peer.take_counters(), peer.take_counters()

    for row in (first, second):
        assert (row.uncommon.mqueue_len, row.mqueue_max) == (3, 3)
        assert (row.uncommon.mqueue_bytes, row.mqueue_bytes_max) == (21, 21)
    assert second.uncommon.waiting_start_qos1 == second.uncommon.waiting_qos1 == 3


def test_what_became_of_publishes() -> None:
    """FC-25, FC-26: PUBLISHes that are not routed at once count by what became of them."""
    peer = Peer()
    inbound = peer.session.inbound
    inbound.count_refused()
    for _ in range(2):
        peer.session.counters.begin_uncommon().publish_paged += 1
    for _ in range(3):
        inbound.discard(from_client(1, 1))
    inbound.park(from_client(1, 1))
    counters = peer.take_counters()
    uncommon = counters.uncommon
    assert (uncommon.publish_refused, uncommon.publish_paged, uncommon.publish_discarded) == (1, 2, 3)
    assert uncommon.publish_parked == 1
    assert not counters.quiet()


@pytest.mark.parametrize(
    "name",
    [
        *(f"dropped_qos{qos}" for qos in range(3)),
        *("resent_publish", "resent_pubrel", "awaiting_rel_refused", "awaiting_rel_expired"),
        *("receive_maximum_exceeded", "publish_refused", "publish_parked", "publish_paged", "publish_discarded"),
        *("publish_parked_us", "slow_consumer", "stalled_window"),
    ],
)
def test_not_quiet(name: str) -> None:
    """Each of these is exported in the interval in which it was counted, not with the next heartbeat."""
    uncommon = UncommonCounts()
    assert uncommon.quiet()
    setattr(uncommon, name, 1)
    assert not uncommon.quiet()


def test_an_ended_session_holds_nothing() -> None:
    """The last row of a session that ends in the middle of everything says that nothing is left."""
    peer = Peer(Limits(max_inflight=2))
    peer.deliver(*range(4), qos=1)
    peer.publish("later")
    peer.session.end(peer.now)
    counters = peer.take_counters()
    last = counters.uncommon
    assert (last.window_len, last.mqueue_len, last.waiting_qos0, last.waiting_qos1) == (0, 0, 0, 0)
    assert counters.drops == {"dropped_session_ended_qos0": 1, "dropped_session_ended_qos1": 2}


def test_window_full_time() -> None:
    """The time of a full window is split at the interval's end."""
    peer = Peer(Limits(max_inflight=2))
    peer.deliver("a", qos=1)
    peer.advance(1)
    peer.deliver("b", qos=1)
    peer.advance(2)
    assert peer.take_counters().uncommon.window_full_us == 2 * SECOND

    peer.advance(3)
    peer.puback(1)
    peer.advance(4)
    assert peer.take_counters().uncommon.window_full_us == 3 * SECOND


def test_window_full_time_and_connections() -> None:
    """A full window counts while the client is online, and anew with another size after a reconnect."""
    peer = Peer(Limits(max_inflight=2), 5)
    peer.deliver("a", "b", qos=1)
    peer.advance(1)
    peer.disconnect()
    peer.advance(10)
    assert peer.take_counters().uncommon.window_full_us == SECOND

    peer.connect(5, receive_maximum=1)
    peer.advance(2)
    peer.puback(1)
    peer.advance(3)
    peer.puback(2)
    peer.advance(4)
    assert peer.take_counters().uncommon.window_full_us == 5 * SECOND


def test_congested_time() -> None:
    """The time of a congested send path counts until it is free or the client has gone."""
    peer = Peer()
    peer.pause()
    peer.advance(1)
    peer.pause()
    peer.advance(1)
    peer.resume()
    peer.advance(5)
    peer.pause()
    peer.advance(1)
    peer.disconnect()
    peer.advance(5)

    assert peer.take_counters().uncommon.congested_us == 3 * SECOND


def test_reading_paused_time() -> None:
    """The time without reading counts until reading resumes or the client has gone."""
    peer = Peer()
    peer.session.note_reading_paused(True, peer.now)
    peer.advance(2)
    peer.disconnect()
    peer.advance(5)

    assert peer.take_counters().uncommon.reading_paused_us == 2 * SECOND
    assert peer.take_counters().uncommon.reading_paused_us == 0


def test_connected_time() -> None:
    """The time connected is split at the interval's end, whoever is connected then."""
    peer = Peer()
    peer.advance(6)
    peer.disconnect()
    peer.advance(4)
    peer.connect()
    peer.advance(1)
    assert peer.take_counters().uncommon.connected_us == 7 * SECOND
    peer.advance(10)
    assert peer.take_counters().uncommon.connected_us == 10 * SECOND
    peer.advance(2)
    peer.disconnect()
    peer.advance(3)
    assert peer.take_counters().uncommon.connected_us == 2 * SECOND
    peer.advance(10)
    assert peer.take_counters().uncommon.connected_us == 0
    assert Peer(online=False).take_counters().uncommon.connected_us == 0


def test_connected_time_and_take_over() -> None:
    """Another connection of the same client goes on with the time of the one that it has taken over."""
    peer = Peer()
    peer.advance(3)
    peer.disconnect()
    peer.connect()
    peer.advance(4)
    assert peer.take_counters().uncommon.connected_us == 7 * SECOND


def test_connected_time_of_a_session_that_ends() -> None:
    """It is counted up to the end of the connection, also if the session ends with it."""
    peer = Peer()
    peer.advance(3)
    peer.session.end(peer.now)
    peer.advance(4)
    assert peer.take_counters().uncommon.connected_us == 3 * SECOND


@pytest.mark.parametrize("leaves", [False, True])
def test_connected_time_is_within_the_interval(leaves: bool) -> None:
    """Rows end before their counters are taken: what comes in between is of the next row, and no time is lost."""
    peer = Peer()
    peer.advance(10)
    end = peer.now
    peer.advance(1)
    if leaves:
        peer.disconnect()
    peer.advance(1)
    first = peer.session.take_counters(peer.now, end)
    peer.advance(8)
    second = peer.session.take_counters(peer.now, peer.now)
    expected = (10 * SECOND, SECOND if leaves else 10 * SECOND)
    assert (first.uncommon.connected_us, second.uncommon.connected_us) == expected


def test_connected_time_of_a_client_that_comes_after_the_end() -> None:
    """Who connects between the end of an interval and the taking of its counters is connected in the next one."""
    peer = Peer(online=False)
    peer.advance(10)
    end = peer.now
    peer.advance(1)
    peer.connect()
    peer.advance(1)
    assert peer.session.take_counters(peer.now, end).uncommon.connected_us == 0
    peer.advance(8)
    assert peer.take_counters().uncommon.connected_us == 9 * SECOND


def test_acknowledged_and_how_long_it_took() -> None:
    """Completed deliveries are counted by QoS, with the time since they were first sent."""
    peer = Peer(Limits(retry_interval=SECOND // 100))
    peer.deliver("a", qos=1)
    peer.deliver("b", "c", qos=2)
    peer.now += 5
    peer.puback(1)
    peer.pubrec(2)
    peer.now += 95
    peer.pubcomp(2)
    peer.advance(1)
    peer.pubrec(3)
    peer.pubcomp(3)

    counters = peer.take_counters()

    assert (counters.acknowledged_qos1, counters.acknowledged_qos2) == (1, 2)
    assert counts(counters.ack_qos1_buckets) == {5: 1}
    assert counts(counters.ack_qos2_buckets) == {bucket_of(100): 1, bucket_of(1_000_000): 1}
    assert counters.uncommon.resent_publish > 0


def test_refusing_pubrec_is_acknowledged() -> None:
    """A PUBREC with an error completes a QoS 2 delivery."""
    peer = Peer(version=5)
    peer.deliver("a", qos=2)

    peer.pubrec(1, 0x80)

    assert peer.take_counters().acknowledged_qos2 == 1


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_time_from_routed_to_sent(qos: int) -> None:
    """The time from routed to first sent is in a histogram of the QoS, offline time included."""
    peer = Peer()
    peer.publish("a", qos=qos)
    peer.now += 100
    peer.run()
    peer.disconnect()
    peer.publish("b", qos=qos)
    peer.advance(1)
    peer.connect()

    counters = peer.take_counters()

    assert counts(getattr(counters, f"wait_qos{qos}_buckets")) == {bucket_of(100): 1, bucket_of(1_000_000): 1}
    assert [getattr(counters, f"wait_qos{other}_buckets") for other in range(3) if other != qos] == [None, None]


def test_intervals_follow_one_another() -> None:
    """Each interval begins where the last one ended, the first at the creation of the session."""
    peer = Peer()
    assert peer.outbound.sender.counters.interval_start == START
    peer.deliver("a", qos=1)
    peer.advance(1)
    peer.take_counters()

    counters = peer.take_counters()

    assert counters.interval_start == START + SECOND
    assert by_qos(counters, "offered") == by_qos(counters, "sent") == (0, 0, 0)
    assert counters.ack_qos1_buckets is None
    assert counters.wait_qos1_buckets is None
    assert counters.mailbox_buckets is None
    assert counters.drops is None


def test_gauge_of_awaiting_rel() -> None:
    """The interval has the number of packet ids that wait for PUBREL at its end."""
    peer = Peer()
    peer.send(from_client(1, 2), from_client(2, 2))
    assert peer.take_counters().uncommon.awaiting_rel_len == 2
    peer.pubrel(1)
    assert peer.take_counters().uncommon.awaiting_rel_len == 1
