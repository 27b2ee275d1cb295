"""One bridge, and a remote broker that does what the test says."""

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.acknowledgements import Puback, Pubrec, Pubrel
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.properties import Properties
from protocol.publish import Publish
from tests.broker.conftest import Start
from tests.support.broker.bridged import OUT, Remote, bridge, publish
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

REFUSED = (reason_codes.NOT_AUTHORIZED, reason_codes.TOPIC_NAME_INVALID, reason_codes.UNSPECIFIED_ERROR)


def user_properties(publish: Publish) -> list[tuple[str, str]]:
    """Those of a message, but for the path that tells loops."""
    found = (publish.properties or {}).get(props.USER_PROPERTY, [])
    return [pair for pair in found if isinstance(pair, tuple) and pair[0] != "sluice-via"]  # type: ignore[union-attr]


@pytest.mark.parametrize("version", ["5", "3.1.1"])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_go_out_with_their_names_there(start: Start, remote: Remote, version: str, qos: int) -> None:
    """The local prefix goes, the remote one comes; QoS and RETAIN stay."""
    topic = {"filter": "t/#", "local_prefix": "here/", "remote_prefix": "there/"}
    broker = start(sections=bridge(remote, topic, proto_ver=version))
    connection = remote.accepted()
    publish(broker, "here/t/1", b"hello", qos=qos, retain=True)
    (message,) = connection.take(1)
    assert (message.topic, message.payload, message.qos, message.retain) == (b"there/t/1", b"hello", qos, True)


def test_properties_go_through(start: Start, remote: Remote) -> None:
    """User properties, expiry, content type and correlation data stay; the response topic is mapped."""
    answers = {"filter": "answers/#", "direction": "in", "local_prefix": "far/"}
    broker = start(sections=bridge(remote, OUT, answers))
    connection = remote.accepted(filters=1)
    properties: Properties = {
        props.USER_PROPERTY: [("a", "1"), ("a", "2")],
        props.MESSAGE_EXPIRY_INTERVAL: 100,
        props.CONTENT_TYPE: "text/plain",
        props.CORRELATION_DATA: b"7",
        props.RESPONSE_TOPIC: "far/answers/7",
    }
    publish(broker, "out/1", b"ask", properties=properties)
    (message,) = connection.take(1)
    assert message.properties is not None
    assert user_properties(message) == [("a", "1"), ("a", "2")]
    assert 98 <= props.integer(message.properties, props.MESSAGE_EXPIRY_INTERVAL) <= 100
    assert message.properties[props.CONTENT_TYPE] == "text/plain"
    assert message.properties[props.CORRELATION_DATA] == b"7"
    assert message.properties[props.RESPONSE_TOPIC] == "answers/7"


def test_what_waits_during_an_outage_goes_out_in_order(start: Start, remote: Remote) -> None:
    """A bridge whose remote broker is not there keeps what is published, also before the first connection."""
    broker = start(sections=bridge(remote))
    first = remote.next()  # not accepted
    publish(broker, "out/1", b"1", b"2")
    first.close()
    connection = remote.accepted()
    assert [each.payload for each in connection.take(2)] == [b"1", b"2"]
    connection.close()
    publish(broker, "out/1", b"3", b"4", b"5")
    assert [each.payload for each in remote.accepted(session_present=True).take(3)] == [b"3", b"4", b"5"]


def test_what_has_expired_does_not_go_out(start: Start, remote: Remote) -> None:
    """The Message Expiry Interval runs while the remote broker is away."""
    broker = start(sections=bridge(remote))
    first = remote.next()  # not accepted
    for seconds in (1, 100):
        publish(broker, "out/1", b"%d" % seconds, properties={props.MESSAGE_EXPIRY_INTERVAL: seconds})
    publish(broker, "clock", b"x", retain=True, properties={props.MESSAGE_EXPIRY_INTERVAL: 1})
    with connected(broker.address(), 5) as client:
        wait_until(lambda: not _is_retained(client, "clock"), "a second to pass")
    first.close()
    assert [each.payload for each in remote.accepted().take(1)] == [b"100"]


def _is_retained(client: WireClient, topic: str) -> bool:
    """Whether a topic has a retained message."""
    client.subscribe(topic, "end")
    client.publish("end")
    topics: list[bytes] = []
    while b"end" not in topics:
        topics.append(client.expect(Publish).topic)
    return topic.encode() in topics


def test_the_window_is_the_remote_brokers_receive_maximum(start: Start, remote: Remote) -> None:
    """FC-1: no more is unacknowledged than the remote broker's CONNACK allows."""
    broker = start(sections=bridge(remote))
    connection = remote.accepted(properties={props.RECEIVE_MAXIMUM: 2})
    publish(broker, "out/1", *[b"%d" % number for number in range(5)])
    first, second = connection.expect(Publish), connection.expect(Publish)
    connection.send(Puback(first.packet_id))
    third = connection.expect(Publish)  # not before the first is acknowledged: these are all
    assert [each.payload for each in (first, second, third)] == [b"0", b"1", b"2"]


def test_a_lower_maximum_qos_is_kept_to(start: Start, remote: Remote) -> None:
    """A remote broker with Maximum QoS 1 gets at QoS 1 what has QoS 2, and RETAIN only if it can retain."""
    broker = start(sections=bridge(remote))
    connection = remote.accepted(properties={props.MAXIMUM_QOS: 1, props.RETAIN_AVAILABLE: 0})
    publish(broker, "out/1", b"exactly", qos=2, retain=True)
    (message,) = connection.take(1)
    assert (message.payload, message.qos, message.retain) == (b"exactly", 1, False)


@pytest.mark.parametrize("most", [0, 1])
def test_what_is_under_way_keeps_to_a_lower_maximum_qos_too(start: Start, remote: Remote, most: int) -> None:
    """What was sent at QoS 2 goes on at the QoS of the remote broker's next CONNACK, with what is behind it."""
    broker = start(sections=bridge(remote))
    connection = remote.accepted(properties={props.RECEIVE_MAXIMUM: 2})
    publish(broker, "out/1", b"1", b"2", b"3", qos=2)
    ids = [connection.expect(Publish).packet_id for _ in range(2)]
    connection.close()
    connection = remote.accepted(session_present=True, properties={props.MAXIMUM_QOS: most, props.RECEIVE_MAXIMUM: 2})
    taken = connection.take(3)
    assert [(each.payload, each.qos) for each in taken] == [(b"1", most), (b"2", most), (b"3", most)]
    assert [each.packet_id for each in taken[:2]] == (ids if most else [0, 0])


def test_what_is_too_large_under_its_name_there_is_not_sent(start: Start, remote: Remote) -> None:
    """The remote broker's Maximum Packet Size is about the packet that it gets, with the longer name and the path."""
    topic = {"filter": "out/#", "remote_prefix": "a/long/prefix/"}
    broker = start(sections=bridge(remote, topic) | {"drop_events": {"topic": "dropped/{reason}"}})
    connection = remote.accepted(properties={props.MAXIMUM_PACKET_SIZE: 100})
    with connected(broker.address(), 5) as watcher:
        watcher.subscribe("dropped/#", qos=1)
        publish(broker, "out/1", b"x" * 80, b"y" * 20)
        assert [each.payload for each in connection.take(1)] == [b"y" * 20]
        assert watcher.receive_message().topic == b"dropped/too_large"


def test_retain_can_be_left_out(start: Start, remote: Remote) -> None:
    """With `outgoing_retain: false` nothing is retained at a remote broker that does not take it."""
    broker = start(sections=bridge(remote, outgoing_retain=False, state_topic="state"))
    connection = remote.accepted()
    assert connection.connect.will is not None
    assert not connection.connect.will.retain
    assert not connection.expect(Publish).retain
    publish(broker, "out/1", b"x", retain=True)
    assert [each.retain for each in connection.take(1)] == [False]


@pytest.mark.parametrize("code", REFUSED)
@pytest.mark.parametrize("qos", [1, 2])
def test_what_is_refused_for_good_does_not_block(start: Start, remote: Remote, qos: int, code: int) -> None:
    """A message that the remote broker refuses is told, and what is behind it goes out."""
    broker = start(sections=bridge(remote) | {"drop_events": {"topic": "dropped/{reason}"}})
    connection = remote.accepted(properties={props.RECEIVE_MAXIMUM: 1})
    with connected(broker.address(), 5) as watcher:
        watcher.subscribe("dropped/#", qos=1)
        publish(broker, "out/1", b"bad", b"good", qos=qos)
        message = connection.expect(Publish)
        connection.send((Puback if qos == 1 else Pubrec)(message.packet_id, code))
        assert [each.payload for each in connection.take(1)] == [b"good"]
        assert watcher.receive_message().topic == b"dropped/refused"
    broker.wait_for_output(lambda lines: any("bridge_refused" in line for line in lines), "bridge_refused")


@pytest.mark.parametrize("qos", [1, 2])
def test_what_finds_no_room_is_sent_again(start: Start, remote: Remote, qos: int) -> None:
    """0x97 is no refusal for good: the bridge connects again later, and sends the same message."""
    broker = start(sections=bridge(remote))
    connection = remote.accepted()
    publish(broker, "out/1", b"one", b"two", qos=qos)
    message = connection.expect(Publish)
    connection.send((Puback if qos == 1 else Pubrec)(message.packet_id, reason_codes.QUOTA_EXCEEDED))
    connection.until_close()
    again = remote.accepted(session_present=True).take(2)
    assert [each.payload for each in again] == [b"one", b"two"]


def test_qos_2_goes_on_where_it_was(start: Start, remote: Remote) -> None:
    """After PUBREC a broken connection continues with PUBREL, not with a second PUBLISH."""
    broker = start(sections=bridge(remote))
    connection = remote.accepted()
    publish(broker, "out/1", b"once", qos=2)
    message = connection.expect(Publish)
    connection.send(Pubrec(message.packet_id))
    assert connection.expect(Pubrel).packet_id == message.packet_id
    connection.close()
    assert remote.accepted(session_present=True).expect(Pubrel).packet_id == message.packet_id


def test_bridges_do_not_count_as_clients(start: Start, remote: Remote) -> None:
    """`max_connections` is about clients: a bridge takes no place of theirs, nor gives one free when it ends."""
    broker = start(sections=bridge(remote) | {"mqtt": {"max_connections": 1, "sys_interval": "1s"}})
    connection = remote.accepted()
    with connected(broker.address(), 5) as client:
        client.subscribe("$SYS/broker/clients/connected")
        wait_until(lambda: client.expect(Publish).payload == b"2", "both to be counted")
        for _ in range(2):
            connection.close()
            connection = remote.accepted(session_present=True)  # the broker is full
            client.publish("out/1", qos=1)
            connection.take(1)
            with WireClient(broker.address(), 5) as other:
                other.send(Connect("other", True, version=5))
                assert other.expect(Connack).reason_code == reason_codes.QUOTA_EXCEEDED
