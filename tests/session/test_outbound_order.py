"""FC-9: for one topic and QoS, first transmissions keep the publish order."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import packet_types
from session.limits import Limits
from tests.support.session.messages import SECOND, message, publishes, texts
from tests.support.session.peer import Peer


def test_the_example_of_s2() -> None:
    """FC-9, S2: window 2, messages 1 to 4, 2 and 3 unacknowledged, gives 1 2 3 2 3 4 to the client."""
    peer = Peer(Limits(max_inflight=2))

    peer.deliver(1, 2, 3, 4, qos=1)  # step 2: 1 and 2 are sent
    peer.puback(1)  # step 3: 3 follows; 2 and 3 stay unacknowledged
    peer.advance(30)  # step 4: they are resent
    peer.puback(2, 3)  # step 5: 4 follows
    peer.puback(4)  # step 6

    assert texts(peer.packets) == ["1", "2", "3", "2", "3", "4"]
    assert [publish.dup for publish in publishes(peer.packets)] == [False, False, False, True, True, False]
    assert peer.window_ids() == []


def test_the_example_with_a_reconnect() -> None:
    """FC-9, S2: the same example with a reconnect in MQTT 5."""
    peer = Peer(Limits(max_inflight=2), 5)

    peer.deliver(1, 2, 3, 4, qos=1)
    peer.puback(1)
    peer.disconnect()
    peer.connect(5)
    peer.puback(2, 3)

    assert texts(peer.packets) == ["1", "2", "3", "2", "3", "4"]


def first_transmissions(peer: Peer) -> list[str]:
    """The texts of the PUBLISHes with DUP clear."""
    return texts(publish for publish in publishes(peer.packets) if not publish.dup)


@pytest.mark.parametrize("version", [4, 5])
def test_max_inflight_1_orders_all_topics(version: int) -> None:
    """FC-9: with max_inflight 1 all QoS 1 and 2 are in order over all topics, each complete before the next begins."""
    peer = Peer(Limits(max_inflight=1), version)
    for n in range(12):
        peer.publish(n, qos=1 + n % 2, topic=f"t/{n % 5}")
    peer.run()

    while window := peer.window_ids():
        assert len(window) == 1
        peer.disconnect()
        peer.connect(version)
        if len(first_transmissions(peer)) % 2:
            peer.puback(*window)
        else:
            peer.pubrec(*window)
            peer.pubcomp(*window)

    assert first_transmissions(peer) == [str(n) for n in range(12)]


def test_qos0_behind_a_backlog_keeps_its_order() -> None:
    """FC-9: QoS 0 that the gate has queued is not overtaken by QoS 0 that comes when the gate would be open."""
    peer = Peer(Limits(max_inflight=1))
    peer.deliver("one", "two", qos=1)
    peer.deliver("a", qos=0)
    peer.puback(1)  # "two" and "a" go
    peer.puback(2)
    peer.pause()
    peer.deliver("b", qos=0)
    peer.outbound.sender.set_congested(False, peer.now)
    peer.publish("c", qos=0)

    peer.run()

    assert [text for text in texts(peer.packets) if text in "abc"] == ["a", "b", "c"]


STEPS = st.one_of(
    st.tuples(st.just("publish"), st.integers(1, 40)),
    st.tuples(st.just("pass"), st.just(0)),
    st.tuples(st.just("acknowledge"), st.integers(1, 10)),
    st.tuples(st.just("pause"), st.just(0)),
    st.tuples(st.just("resume"), st.just(0)),
    st.tuples(st.just("reconnect"), st.integers(1, 5)),
    st.tuples(st.just("wait"), st.integers(1, 40)),
)


def play(peer: Peer, steps: Sequence[tuple[str, int]]) -> int:
    """Do what `steps` say; returns how many messages were published, numbered, at QoS 0, 1 and 2 on two topics."""
    count = 0
    for step, number in steps:
        if step == "publish":
            for _ in range(number):
                peer.route(message(count, count % 3, f"t/{count // 3 % 2}", now=peer.now))
                count += 1
        elif step == "pass":
            peer.run_pass()
        elif step == "acknowledge":
            acknowledge(peer, number)
        elif step == "pause":
            peer.pause()
        elif step == "resume":
            peer.resume()
        elif step == "wait":
            peer.advance(number)
        else:
            peer.disconnect()
            peer.connect(4 + number % 2, receive_maximum=number if number % 2 else 0)
    return count


def acknowledge(peer: Peer, number: int) -> None:
    """Acknowledge the oldest `number` deliveries that are out, all the way."""
    for packet_id, inflight in list(peer.outbound.sender.window.entries.items())[:number]:
        qos1 = inflight.publish.qos == 1
        for packet_type in [packet_types.PUBACK] if qos1 else [packet_types.PUBREC, packet_types.PUBCOMP]:
            peer.session.sender.acknowledge(packet_type, packet_id, 0, peer.now)
    peer.end_chunk()


@given(max_inflight=st.integers(1, 6), steps=st.lists(STEPS, max_size=30))
@settings(max_examples=80, deadline=None)
def test_order_per_topic_and_qos(max_inflight: int, steps: list[tuple[str, int]]) -> None:
    """FC-9: through window, mqueue, resend and reconnect, all arrives and each topic and QoS keeps its order."""
    peer = Peer(Limits(max_inflight=max_inflight, max_mqueue_len=0, retry_interval=10 * SECOND))
    count = play(peer, steps)

    peer.resume()
    while peer.window_ids():
        acknowledge(peer, 10)

    seen: dict[tuple[bytes, int], list[int]] = {}
    for publish in publishes(peer.packets):
        if not publish.dup:
            seen.setdefault((publish.topic, publish.qos), []).append(int(publish.payload))
    assert sorted(n for numbers in seen.values() for n in numbers) == list(range(count))
    for numbers in seen.values():
        assert numbers == sorted(numbers)
