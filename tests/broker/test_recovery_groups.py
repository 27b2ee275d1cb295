"""FC-13 over a restart (FC-27): what a group has handed to a member is not lost when the member's session ends."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from protocol import properties as props
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.properties import Properties
from protocol.publish import Publish
from tests.support.broker.restarting import KEPT, Restart, come_back, leave, payloads
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

GROUP = "$share/group/t"
SHORT: Properties = {props.SESSION_EXPIRY_INTERVAL: 1}
ENDS: Properties = {props.SESSION_EXPIRY_INTERVAL: 0}

ALL = [b"%d" % number for number in range(6)]

both = pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])


@contextmanager
def holding(broker: BrokerProcess, properties: Properties | None) -> Iterator[WireClient]:
    """A member that has got three messages at QoS 1, and acknowledged none of them.

    Three more wait in the queue, and another member is away.
    """
    leave(broker, "away", GROUP, qos=1)
    with WireClient(broker.address(), 5) as member:
        window: Properties = {props.RECEIVE_MAXIMUM: 3}
        member.connect("member", clean_start=False, properties=window | (properties or {}))
        member.subscribe(GROUP, qos=1)
        with connected(broker.address(), 5) as publisher:
            for number in range(6):
                publisher.publish("t", b"%d" % number, 1)
        assert [member.expect(Publish).payload for _ in range(3)] == ALL[:3]
        yield member


def on_disk(broker: BrokerProcess) -> None:
    """Wait until all that the broker has handled is on disk: so is what comes before this SUBACK."""
    leave(broker, "nobody", "nothing")


def got_by_the_other(broker: BrokerProcess) -> list[bytes]:
    """What the member that was away gets."""
    with come_back(broker, "away") as away:
        return payloads(away, 6)


@both
@pytest.mark.parametrize("properties", [None, KEPT])
def test_a_member_that_begins_anew(run: Restart, how: signal.Signals, properties: Properties | None) -> None:
    """Another member gets what this one has not acknowledged, whether its session was kept or not."""
    with holding(run(), properties):
        broker = run(how)
    with WireClient(broker.address(), 5) as member:
        assert not member.connect("member").session_present
        assert got_by_the_other(broker) == ALL


@both
def test_a_member_that_comes_back(run: Restart, how: signal.Signals) -> None:
    """Its kept session resends what it has not acknowledged; when it ends later, others get the rest."""
    with holding(run(), KEPT):
        broker = run(how)
    with come_back(broker, "member") as member:
        member.finish(member.expect(Publish))
        assert [member.expect(Publish).payload for _ in range(5)] == ALL[1:]
        member.expect_nothing_more()
        on_disk(broker)
    broker = run(how)
    with WireClient(broker.address(), 5) as member:
        member.connect("member")
        with come_back(broker, "away") as away:
            assert payloads(away, 5) == ALL[1:]
        on_disk(broker)
    with come_back(run(how), "away") as away:
        away.expect_nothing_more()


def test_a_member_that_has_expired_while_the_broker_was_down(run: Restart) -> None:
    """Others get what it has not acknowledged."""
    broker = run()
    with holding(broker, SHORT) as member:
        member.disconnect()
        on_disk(broker)
    left_at = time.time()
    broker.ask_to_end(signal.SIGKILL)
    broker.stop()
    wait_until(lambda: time.time() > left_at + 1.1, "a second has passed")
    assert got_by_the_other(run()) == ALL


@both
def test_a_member_that_resumes_a_session_that_ends_with_its_connection(run: Restart, how: signal.Signals) -> None:
    """Others get what it had not acknowledged when the broker ended, and its connection with it."""
    broker = run()
    with holding(broker, KEPT), WireClient(broker.address(), 5) as member:
        member.send(Connect("member", False, 0, properties=ENDS, version=5))
        assert member.expect(Connack).session_present
        assert [member.expect(Publish).payload for _ in range(3)] == ALL[:3]
        broker = run(how)
        assert got_by_the_other(broker) == ALL
    with WireClient(broker.address(), 5) as member:
        assert not member.connect("member", clean_start=False).session_present


def test_a_member_that_ends_its_session_before_the_broker_is_killed(run: Restart) -> None:
    """What a clean start has returned to the queue is on disk when CONNACK comes."""
    broker = run()
    with holding(broker, KEPT), WireClient(broker.address(), 5) as member:
        assert not member.connect("member").session_present
        broker = run()
    assert got_by_the_other(broker) == ALL


@both
def test_members_that_come_and_go(run: Restart, how: signal.Signals) -> None:
    """Messages that several members had in turn, and none acknowledged, are still there in order."""
    broker = run()
    with holding(broker, KEPT):
        broker = run(how)
    for properties in (KEPT, None, KEPT):
        with WireClient(broker.address(), 5) as member:
            member.connect("member")  # a clean start: the next member gets them
            with WireClient(broker.address(), 5) as other:
                other.connect("other", properties=properties)
                other.subscribe(GROUP, qos=1)
                assert [other.expect(Publish).payload for _ in range(6)] == ALL
                on_disk(broker)
                broker = run(how)
        with WireClient(broker.address(), 5) as other:
            other.connect("other")
    assert got_by_the_other(broker) == ALL
