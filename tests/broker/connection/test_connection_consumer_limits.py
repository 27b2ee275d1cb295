"""FC-10, FC-11 and FC-14 over sockets: byte windows, rates, slow consumers."""

import pytest

from protocol import reason_codes
from protocol.disconnect import Disconnect
from protocol.publish import Publish
from tests.broker.conftest import Start
from tests.support.broker.collecting import collect
from tests.support.broker.events import wait_for_event
from tests.support.broker.local import LocalBroker
from tests.support.wire import connected


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_small_byte_window(start: Start, version: int, qos: int) -> None:
    """FC-10: with a byte window far smaller than the burst all messages arrive, in order."""
    address = start(sections={"session": {"consumer_window_size": "10KiB"}}).address()
    with connected(address, version) as subscriber, connected(address, version) as publisher:
        subscriber.subscribe("t", qos=qos)
        sent = [b"%d" % number + b"." * 3000 for number in range(200)]
        for payload in sent:
            publisher.publish("t", payload, qos)
        assert [message.payload for message in collect(subscriber)] == sent


def test_one_at_a_time(start: Start) -> None:
    """FC-10: with a byte window of 0 the next delivery comes after the acknowledgement of the last."""
    address = start(sections={"session": {"consumer_window_size": 0}}).address()
    with connected(address, 5) as subscriber, connected(address, 5) as publisher:
        subscriber.subscribe("t", qos=1)
        for number in range(3):
            publisher.publish("t", b"%d" % number, 1)
        first = subscriber.expect(Publish)
        subscriber.expect_nothing_more()
        subscriber.finish(first)
        assert subscriber.expect(Publish).payload == b"1"


def test_what_the_transport_holds_counts() -> None:
    """FC-10: with a byte window the send path is congested as soon as the transport holds anything."""
    with LocalBroker(session={"consumer_window_size": 1000}) as local:
        client = local.client()
        client.connect("c")
        assert client.transport.high == 0


@pytest.mark.parametrize("qos", [0, 1])
def test_rate(start: Start, qos: int) -> None:
    """FC-11: deliveries beyond the rate arrive later, in order."""
    address = start(sections={"session": {"consumer_max_rate": 100}}).address()
    with connected(address, 5) as subscriber, connected(address, 5) as publisher:
        subscriber.subscribe("t", qos=qos)
        sent = [b"%d" % number for number in range(60)]
        for payload in sent:
            publisher.publish("t", payload, qos)
        assert [subscriber.receive_message().payload for _ in sent] == sent


def test_slow_consumer_is_disconnected(start: Start) -> None:
    """FC-14: with policy disconnect a slow consumer gets 0x97, is logged by client id, and its session stays."""
    slow = {"threshold": 10, "check_period": "1s", "policy": "disconnect"}
    broker = start(sections={"session": {"slow_consumer": slow, "max_inflight": 2}})
    address = broker.address()
    with connected(address, 5, client_id="sluggish") as subscriber, connected(address, 5) as publisher:
        subscriber.subscribe("t", qos=1)
        for number in range(20):
            publisher.publish("t", b"%d" % number, 1)
        end = subscriber.expect_close()
        assert isinstance(end, Disconnect)
        assert end.reason_code == reason_codes.QUOTA_EXCEEDED
        event = wait_for_event(broker, "slow_consumer")[0]
        assert event["client_id"] == "sluggish"
        assert "18 waiting" in event["detail"]


def test_slow_consumer_is_noted(start: Start) -> None:
    """FC-14: by default a slow consumer is reported, stays connected, and $SYS counts it."""
    slow = {"check_period": "1s"}
    broker = start(sections={"session": {"slow_consumer": slow, "max_inflight": 2}, "mqtt": {"sys_interval": "100ms"}})
    with connected(broker.address(), 5) as subscriber, connected(broker.address(), 5) as publisher:
        subscriber.subscribe("t", qos=1)
        for number in range(20):
            publisher.publish("t", b"%d" % number, 1)
        wait_for_event(broker, "slow_consumer")
        with connected(broker.address(), 5) as operator:
            operator.subscribe("$SYS/broker/slow_consumers/total")
            while operator.receive_message().payload != b"1":
                pass
        assert len(collect(subscriber)) == 20


def test_stalled_window(start: Start) -> None:
    """FC-14: a client that acknowledges nothing is reported, by default after a minute, here after a second."""
    broker = start(sections={"session": {"stalled_window": "1s", "max_inflight": 1}})
    with connected(broker.address(), 4, client_id="stuck") as subscriber, connected(broker.address(), 5) as publisher:
        subscriber.subscribe("t", qos=1)
        publisher.publish("t", b"x", 1)
        assert [event["client_id"] for event in wait_for_event(broker, "stalled_window")] == ["stuck"]


def test_who_is_held_to_a_rate_is_not_slow(start: Start) -> None:
    """FC-11, FC-14: a client that takes all that its rate allows is no slow consumer, whatever the threshold."""
    slow = {"threshold": 1000, "check_period": "1s", "policy": "disconnect"}
    broker = start(sections={"session": {"slow_consumer": slow, "consumer_max_rate": 20}})
    with connected(broker.address(), 5) as subscriber, connected(broker.address(), 5) as publisher:
        subscriber.subscribe("t", qos=1)
        for number in range(60):
            publisher.publish("t", b"%d" % number, 1)
        assert [int(subscriber.receive_message().payload) for _ in range(60)] == list(range(60))
