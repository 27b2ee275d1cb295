"""FC-5 and FC-6: what an overflow drops, counts and reports, and that nothing is dropped that could be sent."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from session.limits import DROP_NEWEST, DROP_OLDEST, DROP_OLDEST_QOS0, Limits
from tests.support.session.messages import message, texts
from tests.support.session.peer import Peer

POLICIES = [DROP_OLDEST, DROP_OLDEST_QOS0, DROP_NEWEST]


def blocked_peer(**limits: int | str) -> Peer:
    """A peer to which nothing can be sent: the window (of one) is full and the send path congested."""
    peer = Peer(Limits(max_inflight=1, **limits))  # type: ignore[arg-type]
    peer.deliver("sent", qos=1)
    peer.pause()
    peer.take_counters()
    return peer


# -- FC-5


@pytest.mark.parametrize(
    ("policy", "left"),
    [(DROP_OLDEST, ["c", "d", "e"]), (DROP_OLDEST_QOS0, ["a", "c", "e"]), (DROP_NEWEST, ["a", "b", "c"])],
)
def test_policies_by_length(policy: str, left: list[str]) -> None:
    """FC-5: at max_mqueue_len a new delivery makes room as mqueue_overflow says."""
    peer = blocked_peer(max_mqueue_len=3, mqueue_overflow=policy)

    for text, qos in [("a", 1), ("b", 0), ("c", 1), ("d", 0), ("e", 2)]:
        peer.deliver(text, qos=qos)

    assert peer.waiting() == left


@pytest.mark.parametrize(
    ("policy", "left"),
    [(DROP_OLDEST, ["c", "d"]), (DROP_OLDEST_QOS0, ["a", "d"]), (DROP_NEWEST, ["a", "b", "c"])],
)
def test_policies_by_bytes(policy: str, left: list[str]) -> None:
    """FC-5: at max_mqueue_bytes a new delivery makes room as mqueue_overflow says, for all its bytes."""
    peer = blocked_peer(max_mqueue_bytes=100, mqueue_overflow=policy)
    peer.deliver("a", qos=1, size=30)
    peer.deliver("b", qos=0, size=30)
    peer.deliver("c", qos=0, size=30)

    peer.deliver("d", qos=1, size=70)

    assert peer.waiting() == left


def test_counted_at_its_own_qos() -> None:
    """FC-5: a drop is counted at the QoS of the dropped delivery."""
    peer = blocked_peer(max_mqueue_len=3)
    for qos in (0, 1, 2, 2, 2, 1):
        peer.deliver(qos, qos=qos)

    assert peer.take_counters().drops == {f"dropped_queue_full_qos{qos}": 1 for qos in (0, 1, 2)}


def test_default_length() -> None:
    """FC-5: by default 1000 deliveries wait, and the oldest is dropped for the next."""
    peer = Peer(online=False)

    peer.publish(*range(1001), qos=1)

    assert peer.waiting() == [str(n) for n in range(1, 1001)]


def test_no_limit() -> None:
    """FC-5: with both limits 0 everything waits."""
    peer = Peer(Limits(max_mqueue_len=0, max_mqueue_bytes=0), online=False)

    peer.publish(*range(3000), qos=0, size=1000)

    assert len(peer.waiting()) == 3000


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_larger_than_the_byte_limit(policy: str, qos: int) -> None:
    """FC-5: a delivery that can never fit is dropped itself, whatever the policy, and no other."""
    peer = blocked_peer(max_mqueue_bytes=10, mqueue_overflow=policy)
    peer.deliver("a", qos=0)
    peer.deliver("b", qos=1)

    peer.deliver("huge", qos=qos, size=11)

    assert peer.waiting() == ["a", "b"]
    assert peer.take_counters().drops == {f"dropped_queue_full_qos{qos}": 1}


def test_drops_are_counted_by_qos_and_reason() -> None:
    """FC-5: every drop is counted, by QoS and reason."""
    peer = blocked_peer(max_mqueue_len=1)
    for qos in (0, 1, 1, 2, 2, 2, 0):
        peer.deliver("x", qos=qos)

    counters = peer.take_counters()

    assert counters.drops == {
        "dropped_queue_full_qos0": 1,
        "dropped_queue_full_qos1": 2,
        "dropped_queue_full_qos2": 3,
    }
    assert (counters.uncommon.dropped_qos0, counters.uncommon.dropped_qos1, counters.uncommon.dropped_qos2) == (1, 2, 3)


def test_reported_once_per_episode() -> None:
    """FC-5: an overflow is reported at its first drop; the next report comes only after the queue has drained."""
    peer = blocked_peer(max_mqueue_len=2)
    assert peer.host.reports == []

    peer.deliver("a", "b", qos=0)
    assert peer.host.reports == []
    for _ in range(10):
        peer.deliver("c", "d", qos=0)
    assert peer.host.reports == ["mqueue_full"]

    peer.resume()
    peer.pause()
    peer.deliver("e", "f", "g", "h", qos=0)
    assert peer.host.reports == ["mqueue_full"] * 2


def test_offline_overflow_is_reported_once() -> None:
    """FC-5: while the client is away an overflow is one episode, however long."""
    peer = Peer(Limits(max_mqueue_len=2), online=False)

    peer.publish(*range(50), qos=1)

    assert peer.host.reports == ["mqueue_full"]
    peer.connect()
    peer.puback(*peer.window_ids())
    peer.disconnect()
    peer.publish(*range(50), qos=1)
    assert peer.host.reports == ["mqueue_full"] * 2


def test_oversized_deliveries_are_one_episode() -> None:
    """FC-5: deliveries that can never fit are reported once, though the queue stays empty."""
    peer = blocked_peer(max_mqueue_bytes=10)

    for _ in range(10):
        peer.deliver("huge", qos=0, size=11)
        peer.deliver("huge", qos=1, size=11)

    assert peer.host.reports == ["mqueue_full"]
    peer.resume()
    peer.puback(1)
    peer.deliver("fine", qos=0)
    peer.pause()
    peer.deliver("huge", qos=0, size=11)
    assert peer.host.reports == ["mqueue_full"] * 2


# -- FC-6


@pytest.mark.parametrize("policy", POLICIES)
def test_sent_before_anything_is_dropped(policy: str) -> None:
    """FC-6: before an overflow drops anything, what the send path allows is sent."""
    peer = Peer(Limits(max_mqueue_len=3, mqueue_overflow=policy))

    assert peer.deliver(*range(1000), qos=0) == [str(n) for n in range(1000)]
    assert peer.take_counters().drops is None


@pytest.mark.parametrize("policy", POLICIES)
def test_window_is_used_before_anything_is_dropped(policy: str) -> None:
    """FC-6: before an overflow drops anything, what the window allows is sent."""
    peer = Peer(Limits(max_inflight=20, max_mqueue_len=10, mqueue_overflow=policy))
    peer.disconnect()
    peer.publish(*range(10), qos=1, size=10_000)
    peer.connect()  # seven of ten are a pass's bytes
    peer.publish(*range(10, 20), qos=1)

    peer.run()

    assert peer.take_counters().drops is None
    assert len(peer.window_ids()) == 20


def test_oversized_qos0_is_sent_if_it_can_be() -> None:
    """FC-6: a QoS 0 that can never fit is sent if only the busy mailbox holds it back."""
    peer = Peer(Limits(max_mqueue_bytes=10))

    received = peer.deliver(*range(150), qos=0, size=20)

    assert received == [str(n) for n in range(150)]
    assert peer.take_counters().drops is None


def test_oversized_qos1_is_sent_if_it_can_be() -> None:
    """FC-6: a QoS 1 that can never fit is sent if those before it are and the window has room."""
    peer = Peer(Limits(max_inflight=20, max_mqueue_bytes=100_000))
    peer.disconnect()
    peer.publish(*range(10), qos=1, size=10_000)
    peer.connect()

    peer.publish("huge", qos=1, size=200_000)

    assert texts(peer.run()) == ["7", "8", "9", "huge"]
    assert peer.take_counters().drops is None


def test_oversized_is_sent_in_order() -> None:
    """FC-6, FC-9: a delivery that can never fit overtakes none that waits: if those stay, it is dropped."""
    peer = Peer(Limits(max_inflight=1, max_mqueue_bytes=10))
    peer.deliver("a", "b", qos=1)

    assert peer.deliver("huge", qos=0, size=11) == []
    assert peer.waiting() == ["b"]
    assert peer.take_counters().drops == {"dropped_queue_full_qos0": 1}


def test_full_window_may_cost_qos0() -> None:
    """FC-6: QoS 0 behind a QoS 1 head that waits for the window may be dropped."""
    peer = Peer(Limits(max_inflight=1, max_mqueue_len=2, mqueue_overflow=DROP_NEWEST))
    peer.deliver("a", "b", qos=1)

    peer.deliver("c", "d", qos=0)

    assert peer.take_counters().drops == {"dropped_queue_full_qos0": 1}


@given(
    max_mqueue_len=st.integers(1, 5),
    max_mqueue_bytes=st.sampled_from([0, 1, 20, 100]),
    policy=st.sampled_from(POLICIES),
    bursts=st.lists(st.tuples(st.integers(1, 250), st.sampled_from([4, 20, 150])), min_size=1, max_size=4),
)
@settings(max_examples=40, deadline=None)
def test_no_burst_costs_qos0(
    max_mqueue_len: int, max_mqueue_bytes: int, policy: str, bursts: list[tuple[int, int]]
) -> None:
    """FC-6: with a free send path and room in the window no QoS 0 is dropped, for any burst and limits."""
    peer = Peer(Limits(max_mqueue_len=max_mqueue_len, max_mqueue_bytes=max_mqueue_bytes, mqueue_overflow=policy))
    sent: list[str] = []
    for count, size in bursts:
        for _ in range(count):
            peer.route(message(len(sent), 0, size=size, now=peer.now))
            sent.append(str(len(sent)))
        peer.run_pass()

    peer.run()

    assert texts(peer.packets) == sent
    assert peer.take_counters().drops is None


def test_report_says_how_much_and_which_limit() -> None:
    """FC-5: the report has the length, the limit that is reached, its key, and the policy."""
    by_length = blocked_peer(max_mqueue_len=2, mqueue_overflow="drop_newest")
    by_length.deliver("a", "b", "c", qos=1)
    assert by_length.host.details == ["2 deliveries wait, max_mqueue_len is 2; mqueue_overflow is drop_newest"]

    by_bytes = blocked_peer(max_mqueue_bytes=10)
    by_bytes.deliver("a", "b", qos=1, size=7)
    (detail,) = by_bytes.host.details
    assert detail.startswith("7 payload bytes wait and 7 bytes do not fit, max_mqueue_bytes is 10; ")
