"""Shared subscriptions over sockets."""

from collections import Counter

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.disconnect import Disconnect
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from protocol.unsuback import Unsuback
from tests.broker.conftest import Start
from tests.support.broker.collecting import collect
from tests.support.broker.events import wait_for_event
from tests.support.process import Address
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected


@pytest.mark.parametrize("version", [4, 5])
def test_one_of_the_group(address: Address, version: int) -> None:
    """Each message goes to one member of each group, in turn, and to all subscribers that do not share."""
    with (
        connected(address, version) as first,
        connected(address, version) as second,
        connected(address, version) as third,
        connected(address, version) as alone,
        connected(address, 5) as sender,
    ):
        for member in (first, second, third):
            member.subscribe("$share/g/one/+", qos=1)
        first.subscribe("$share/other/one/#", qos=1)
        alone.subscribe("one/a", qos=1)
        for number in range(15):
            sender.publish("one/a", b"%d" % number, 1)
        everything = {b"%d" % number for number in range(15)}
        got = [[message.payload for message in collect(member)] for member in (first, second, third)]
        assert [len(payloads) for payloads in got] == [20, 5, 5]
        assert Counter(payload for payloads in got for payload in payloads) == Counter(dict.fromkeys(everything, 2))
        assert {message.payload for message in collect(alone)} == everything


def test_qos_of_each_member(address: Address) -> None:
    """Each member gets the QoS of its own subscription [MQTT-4.8.2-3]."""
    with connected(address, 5) as low, connected(address, 5) as high, connected(address, 5) as sender:
        low.subscribe("$share/q/qos", qos=0)
        high.subscribe("$share/q/qos", qos=2)
        for _ in range(4):
            sender.publish("qos", b"x", 2)
        assert [message.qos for message in collect(low)] == [0, 0]
        assert [message.qos for message in collect(high)] == [2, 2]


def test_identifiers(address: Address) -> None:
    """A shared subscription has its own identifier, and deliveries apart from other subscriptions."""
    with connected(address, 5) as client:
        client.subscribe("$share/i/id/#", properties={props.SUBSCRIPTION_IDENTIFIER: 9})
        client.subscribe("id/a", properties={props.SUBSCRIPTION_IDENTIFIER: 8})
        client.publish("id/a")
        found = [(message.properties or {}).get(props.SUBSCRIPTION_IDENTIFIER) for message in collect(client)]
        assert sorted(found, key=str) == [[8], [9]]


def test_no_retained(address: Address) -> None:
    """A shared subscription gets no retained messages."""
    with connected(address, 5) as client:
        client.publish("ret/a", b"x", 1, retain=True)
        client.subscribe("$share/r/ret/a")
        assert collect(client) == []
        client.publish("ret/a", b"", 0, retain=True)


def test_leaving(address: Address) -> None:
    """A member that unsubscribes, or whose session ends, gets no more messages; the others get them all."""
    with connected(address, 5) as stays, connected(address, 5) as leaves, connected(address, 5) as sender:
        gone = WireClient(address, 5)
        gone.connect()
        for member in (stays, leaves, gone):
            member.subscribe("$share/l/leave", qos=1)
        assert leaves.unsubscribe("$share/l/leave", "leave", "$share/x/leave").reason_codes == [
            reason_codes.SUCCESS,
            reason_codes.NO_SUBSCRIPTION_EXISTED,
            reason_codes.NO_SUBSCRIPTION_EXISTED,
        ]
        gone.send(Disconnect())
        gone.expect_close()
        gone.close()
        for _ in range(6):
            sender.publish("leave", b"x", 1)
        assert len(collect(stays)) == 6
        assert collect(leaves) == []
        leaves.send(Subscribe(9, [Subscription("$share/l/leave", 1)]))
        leaves.expect(Suback)
        assert isinstance(leaves.unsubscribe("$share/l/leave"), Unsuback)


def test_who_can_take_it_goes_first(address: Address) -> None:
    """A member that is offline or has a full window is skipped while another can take the message."""
    kept = {props.SESSION_EXPIRY_INTERVAL: 60}
    with connected(address, 5) as quick, connected(address, 5) as sender, WireClient(address, 5) as slow:
        slow.connect("slow-member", properties={props.RECEIVE_MAXIMUM: 1})
        away = WireClient(address, 5)
        away.connect("away-member", properties=dict(kept))
        for member in (slow, away, quick):
            member.subscribe("$share/p/pass", qos=1)
        away.close()

        def all_to_quick() -> bool:
            for number in range(10):
                sender.publish("pass", b"%d" % number, 1)
            return len(collect(quick)) == 10

        wait_until(all_to_quick, "the member that can take them gets all messages")
        assert all_to_quick()


def test_all_away(address: Address) -> None:
    """A group without online members queues its messages for members with kept sessions."""
    kept = {props.SESSION_EXPIRY_INTERVAL: 60}
    with connected(address, 5) as sender:
        for name in ("off-1", "off-2"):
            with WireClient(address, 5) as client:
                client.connect(name, properties=dict(kept))
                client.subscribe("$share/o/off", qos=1)
        for number in range(4):
            sender.publish("off", b"%d" % number, 1)
        got = []
        for name in ("off-1", "off-2"):
            with WireClient(address, 5) as client:
                client.connect(name, clean_start=False, properties=dict(kept))
                got += [message.payload for message in collect(client)]
        assert sorted(got) == [b"0", b"1", b"2", b"3"]


def test_many_away(address: Address) -> None:
    """One online member gets everything, however many members are offline."""
    with connected(address, 5) as here, connected(address, 5) as sender:
        for number in range(40):
            with WireClient(address, 5) as client:
                client.connect(f"many-{number}", properties={props.SESSION_EXPIRY_INTERVAL: 60})
                client.subscribe("$share/m/many", qos=1)
        here.subscribe("$share/m/many", qos=1)
        for number in range(5):
            sender.publish("many", b"%d" % number, 1)
        assert [message.payload for message in collect(here)] == [b"%d" % number for number in range(5)]


def test_busy_and_away(address: Address) -> None:
    """FC-13: online members take turns until they can take no more, however many are offline."""
    with connected(address, 5) as sender, WireClient(address, 5) as one, WireClient(address, 5) as other:
        for number in range(20):
            with WireClient(address, 5) as client:
                client.connect(f"busy-{number}", properties={props.SESSION_EXPIRY_INTERVAL: 60})
                client.subscribe("$share/b/busy", qos=1)
        for member in (one, other):
            member.connect(properties={props.RECEIVE_MAXIMUM: 1})
            member.subscribe("$share/b/busy", qos=1)
        for number in range(10):
            sender.publish("busy", b"%d" % number, 1)
        assert other.expect(Publish).payload == b"1"
        assert one.receive_message().payload == b"0"  # and acknowledges it, as the other does not
        assert [message.payload for message in collect(one)] == [b"%d" % number for number in range(2, 10)]


def test_same_message_twice_in_a_full_queue(start: Start) -> None:
    """FC-5: a message that two subscriptions bring to a full queue is in the queue afterwards."""
    sections = {"session": {"max_mqueue_len": 1}, "mqtt": {"overlapping_subscriptions": "each"}}
    address = start(sections=sections).address()
    with connected(address, 5) as sender:
        with WireClient(address, 5) as client:
            client.connect("twice", properties={props.SESSION_EXPIRY_INTERVAL: 60})
            client.subscribe("+", "twice", qos=1)
        sender.publish("twice", b"x", 1)
        with WireClient(address, 5) as client:
            assert client.connect("twice", clean_start=False).session_present
            assert [message.payload for message in collect(client)] == [b"x"]


def test_levels(start: Start) -> None:
    """max_topic_levels applies to the filter behind the share name."""
    address = start(sections={"mqtt": {"max_topic_levels": 2}}).address()
    with connected(address, 5) as client:
        assert client.subscribe("$share/g/a/b", "$share/g/a/b/c").reason_codes == [0, reason_codes.TOPIC_FILTER_INVALID]
        client.publish("a/b", b"x")
        assert client.receive_message().payload == b"x"


def test_overflow_is_told(start: Start) -> None:
    """FC-5, FC-13: drops from the queue of a group are logged once, with its name, and counted under $SYS."""
    sections = {"session": {"max_mqueue_len": 2, "max_inflight": 1}, "mqtt": {"sys_interval": "100ms"}}
    broker = start(sections=sections)
    with connected(broker.address(), 5) as operator:
        with connected(broker.address(), 5) as member, connected(broker.address(), 5) as sender:
            member.subscribe("$share/full/t", qos=1)
            for number in range(6):
                sender.publish("t", b"%d" % number, 1)
        (event,) = wait_for_event(broker, "shared_queue_full")
        assert event["group"] == "$share/full/t"
        assert "deliveries wait, max_mqueue_len is 2;" in event["detail"]
        operator.subscribe("$SYS/broker/publish/messages/dropped")
        while operator.receive_message().payload != b"3":
            pass
