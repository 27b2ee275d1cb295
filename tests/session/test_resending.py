"""FC-8 while connected: only 3.1.1 resends, each `retry_interval` after the last send, and only from the window."""

import pytest

from session.limits import NEVER, Limits
from tests.support.session.messages import SECOND, message, publishes, resent, text_of, texts
from tests.support.session.peer import START, Peer

INTERVAL = 30


def test_qos1_publish_is_resent() -> None:
    """FC-8: an unacknowledged QoS 1 PUBLISH is sent again after retry_interval, with its packet id and DUP set."""
    peer = Peer()
    peer.deliver("a", qos=1)

    assert resent(peer.advance(INTERVAL)) == [("dup", 1, "a")]


def test_qos2_publish_is_resent() -> None:
    """FC-8: an unanswered QoS 2 PUBLISH is sent again after retry_interval, with its packet id and DUP set."""
    peer = Peer()
    peer.deliver("a", qos=2)

    assert resent(peer.advance(INTERVAL)) == [("dup", 1, "a")]


def test_pubrel_is_resent() -> None:
    """FC-8: after PUBREC the PUBREL is resent, not the PUBLISH."""
    peer = Peer()
    peer.deliver("a", qos=2)
    peer.pubrec(1)

    assert resent(peer.advance(INTERVAL)) == [("rel", 1, "")]


def test_only_from_the_window() -> None:
    """FC-8: QoS 0, acknowledged and queued deliveries are never resent."""
    peer = Peer(Limits(max_inflight=2))
    peer.deliver("zero", qos=0)
    peer.deliver("acked", "kept", "next", "waits", qos=1)
    peer.puback(1)

    assert [text for _, _, text in resent(peer.advance(INTERVAL))] == ["kept", "next"]
    assert peer.waiting() == ["waits"]


def test_order_first_sent() -> None:
    """FC-8: PUBLISHes and PUBRELs are resent in the order first sent."""
    peer = Peer()
    peer.deliver("a", qos=1)
    peer.deliver("b", qos=2)
    peer.deliver("c", qos=1)
    peer.deliver("d", qos=2)
    peer.pubrec(2)

    assert resent(peer.advance(INTERVAL)) == [("dup", 1, "a"), ("rel", 2, ""), ("dup", 3, "c"), ("dup", 4, "d")]


def test_not_before_the_interval() -> None:
    """FC-8: one microsecond before retry_interval nothing is resent."""
    peer = Peer()
    peer.deliver("a", qos=1)

    assert peer.advance(INTERVAL - 0.000001) == []
    assert len(peer.advance(0.000001)) == 1


def test_each_after_its_own_last_send() -> None:
    """FC-8: each delivery is resent retry_interval after it was itself last sent, again and again."""
    peer = Peer()
    peer.deliver("a", qos=1)
    peer.advance(10)
    peer.deliver("b", qos=1)

    assert texts(peer.advance(20)) == ["a"]
    assert texts(peer.advance(10)) == ["b"]
    assert texts(peer.advance(20)) == ["a"]
    assert texts(peer.advance(40)) == ["b", "a", "b"]


def test_not_while_congested() -> None:
    """FC-8: nothing is resent while the send path is congested; afterwards it is."""
    peer = Peer()
    peer.deliver("a", qos=1)
    peer.pause()
    assert peer.advance(1000) == []

    peer.resume()
    assert texts(peer.advance(30)) == ["a"]


def test_not_together_with_what_is_due() -> None:
    """FC-8: each delivery is resent when it is due itself, not along with an earlier one."""
    peer = Peer()
    peer.deliver("a", qos=1)
    peer.advance(0.000001)
    peer.deliver("b", qos=1)

    assert texts(peer.advance(INTERVAL - 0.000001)) == ["a"]
    assert texts(peer.advance(0.000001)) == ["b"]


def test_pubrel_interval_begins_with_the_pubrel() -> None:
    """FC-8: PUBREL is resent retry_interval after the PUBREL, not after the PUBLISH."""
    peer = Peer()
    peer.deliver("a", qos=2)
    peer.advance(20)
    peer.pubrec(1)

    assert peer.advance(29) == []
    assert resent(peer.advance(1)) == [("rel", 1, "")]


def test_configured_interval() -> None:
    """FC-8: retry_interval is configurable."""
    peer = Peer(Limits(retry_interval=2 * SECOND))
    peer.deliver("a", qos=1)

    assert texts(peer.advance(7)) == ["a"] * 3


@pytest.mark.parametrize("qos", [1, 2])
def test_never_with_infinity(qos: int) -> None:
    """FC-8: with retry_interval `infinity` nothing is resent while connected, and no timer is set."""
    peer = Peer(Limits(retry_interval=NEVER))
    peer.deliver("a", qos=qos)

    assert peer.advance(1_000_000) == []
    assert peer.host.arms == []


@pytest.mark.parametrize("qos", [1, 2])
def test_mqtt5_never_resends_while_connected(qos: int) -> None:
    """FC-8: MQTT 5 forbids resending on a connection [MQTT-4.4.0-1]: no timer, whatever was left over."""
    peer = Peer(version=5)
    peer.deliver("a", "b", qos=qos)
    if qos == 2:
        peer.pubrec(1)

    assert peer.host.arms == []
    peer.now += 3600 * SECOND
    peer.session.on_timer(peer.now)
    assert peer.run() == []


def test_upgrade_to_mqtt5_ends_resending() -> None:
    """FC-8: a timer of a 3.1.1 connection resends nothing after a reconnect with MQTT 5."""
    peer = Peer()
    peer.deliver("a", qos=1)
    peer.disconnect()
    peer.connect(5)

    assert peer.advance(1000) == []


def test_downgrade_to_311_begins_resending() -> None:
    """FC-8: the window of an MQTT 5 connection is resent by time after a reconnect with 3.1.1."""
    peer = Peer(version=5)
    peer.deliver("a", qos=1)
    peer.disconnect()
    peer.connect(4)

    assert texts(peer.advance(INTERVAL)) == ["a"]


def test_not_while_offline() -> None:
    """FC-8: an offline session resends nothing; the interval begins anew at the reconnect."""
    peer = Peer()
    peer.deliver("a", qos=1)
    peer.advance(10)
    peer.disconnect()

    assert peer.advance(100) == []
    assert texts(peer.connect()) == ["a"]
    assert peer.advance(29) == []
    assert texts(peer.advance(1)) == ["a"]


def test_acknowledged_in_time() -> None:
    """FC-8: with an empty window there is no timer, until something is in it again."""
    peer = Peer()
    peer.deliver("a", qos=1)
    peer.puback(1)

    assert peer.advance(100) == []
    assert peer.outbound.sender.timer_at == 0
    peer.deliver("b", qos=1)
    assert texts(peer.advance(INTERVAL)) == ["b"]


def test_timer_is_asked_for_once() -> None:
    """FC-8: one timer serves the whole window and is set once."""
    peer = Peer()

    peer.deliver(*range(20), qos=1)
    assert peer.host.arms == [START + INTERVAL * SECOND]
    peer.advance(INTERVAL)
    assert peer.host.arms == [START + INTERVAL * SECOND, START + 2 * INTERVAL * SECOND]


def test_early_or_late_timer_does_no_harm() -> None:
    """FC-8: a timer that comes early or once more resends nothing before its time."""
    peer = Peer()
    peer.deliver("a", qos=1)

    peer.session.on_timer(peer.now + 1)
    assert peer.flush() == []
    peer.advance(INTERVAL)
    peer.session.on_timer(peer.now)
    peer.session.on_timer(peer.now + 1)
    assert peer.flush() == []


def test_late_timer_resends_all_that_is_due() -> None:
    """FC-8: a timer that comes late resends all that is due by then, each once."""
    peer = Peer()
    peer.deliver("a", qos=1)
    peer.advance(1)
    peer.deliver("b", qos=1)

    peer.now += 3600 * SECOND
    peer.session.on_timer(peer.now)

    assert texts(peer.flush()) == ["a", "b"]


def test_held_back_deliveries_do_not_resend() -> None:
    """FC-1, FC-8: what a smaller window holds back after a reconnect is not resent by time, and sets no timer."""
    peer = Peer(Limits(max_inflight=3, retry_interval=10 * SECOND), 5)
    peer.deliver("a", "b", "c", qos=1)
    peer.disconnect()
    peer.session.limits.max_inflight = 1
    peer.connect(4)

    assert texts(peer.advance(25)) == ["a", "a"]
    assert texts(peer.puback(1)) == ["b"]
    assert texts(peer.advance(10)) == ["b"]


def test_resends_are_counted() -> None:
    """FC-8: resends are counted by kind, and not as sent deliveries."""
    peer = Peer()
    peer.deliver("a", "b", qos=1)
    peer.deliver("c", qos=2)
    peer.pubrec(3)
    peer.take_counters()

    peer.advance(INTERVAL)
    counters = peer.take_counters()

    assert (counters.uncommon.resent_publish, counters.uncommon.resent_pubrel) == (2, 1)
    assert counters.sent_qos1 == counters.sent_qos2 == counters.sent_bytes == 0


@pytest.mark.parametrize("version", [4, 5])
def test_dup_is_clear_on_first_transmissions(version: int) -> None:
    """FC-8: DUP is set on resent PUBLISHes only; the other flags and the content stay [MQTT-3.3.1-1]."""
    peer = Peer(version=version)
    peer.route(message("a", 1, "x/y", now=peer.now, retain=True), message("b", 2, now=peer.now))
    first = publishes(peer.run())
    peer.disconnect()

    again = publishes(peer.connect(version))

    assert [publish.dup for publish in first] == [False, False]
    assert [publish.dup for publish in again] == [True, True]
    for old, new in zip(first, again, strict=True):
        assert (new.packet_id, new.qos, new.retain, new.topic) == (old.packet_id, old.qos, old.retain, old.topic)
        assert text_of(new) == text_of(old)
