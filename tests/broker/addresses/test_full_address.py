"""FC-24 to FC-26: the order of parked PUBLISHes, what makes room for them, and how they are counted."""

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.acknowledgements import Puback
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.subscribe import Subscribe, Subscription
from protocol.unsubscribe import Unsubscribe
from tests.support.broker.full import (
    COST,
    FILLING,
    SIZE,
    TOPIC,
    acknowledge,
    address,
    answered,
    answers,
    fill,
    local_broker,
    numbers,
    packet,
    parked,
    publisher,
    send,
    session,
    subscriber,
    take,
)
from tests.support.costs import held

# -- order


def test_first_in_first_out() -> None:
    """FC-25: parked PUBLISHes are routed in the order of their arrival, across publishers and QoS levels."""
    with local_broker() as local:
        reader = subscriber(local, 2)
        senders = [publisher(local, 4 + number % 2, f"sender-{number}") for number in range(3)]
        send(senders[0], FILLING)
        for number in range(11, 41):
            send(senders[number % 3], [number], number % 7 % 3)
        assert take(reader, 40) == list(range(1, 41))
        assert address(local).size == 0


def test_nothing_passes_what_waits() -> None:
    """FC-9, FC-25: a PUBLISH that would fit, or has no payload, is parked behind those that came before it."""
    with local_broker() as local:
        reader, sender = fill(local)
        sender.send(packet(11, size=2 * SIZE), Publish(TOPIC.encode(), b"", 1, packet_id=12), packet(13, size=2))
        assert answered(sender) == []
        reader.send(Puback(1))
        assert answered(sender) == []  # only the second one would fit
        reader.send(Puback(2))
        assert answered(sender) == [11, 12]
        reader.send(Puback(3))
        assert answered(sender) == [13]


@pytest.mark.parametrize("policy", ["block", "fail"])
def test_no_room_without_a_payload(policy: str) -> None:
    """FC-24a: a PUBLISH without a payload needs room too, as one that clears a retained message; without RETAIN too."""
    with local_broker(policy) as local:
        reader, sender = subscriber(local), publisher(local)
        send(sender, FILLING, retain=True)
        assert answered(sender) == list(FILLING)
        sender.send(*[Publish(TOPIC.encode(), b"", 1, retain, packet_id=11 + retain) for retain in (False, True)])
        refused = [(11, reason_codes.QUOTA_EXCEEDED), (12, reason_codes.QUOTA_EXCEEDED)]
        assert answers(sender.received()) == (refused if policy == "fail" else [])
        retained = local.broker.messages.retained
        assert retained.get(TOPIC.encode()) is not None
        reader.send(Puback(1), Puback(2))
        assert (retained.get(TOPIC.encode()) is None) == (policy == "block")


def test_no_subscriber_no_room() -> None:
    """FC-24a: a PUBLISH that nobody gets needs no room, so that it clears a retained message."""
    with local_broker("fail", max_size_bytes=1) as local:
        sender = publisher(local, 4)
        sender.send(packet(1, retain=True), Publish(TOPIC.encode(), b"", 1, True, packet_id=2))
        assert answered(sender) == [1, 2]
        assert local.broker.messages.retained.get(TOPIC.encode()) is None


def test_retained_when_routed() -> None:
    """FC-25: the broker stores a parked retained message when it routes it, and not before."""
    with local_broker() as local:
        reader, sender = fill(local)
        sender.send(packet(11, retain=True))
        late = local.client()
        late.connect("late")
        late.subscribe(TOPIC, 0)
        assert late.received() == []
        reader.send(Puback(1), Puback(2))
        assert numbers(late.received()) == [11]
        latest = local.client()
        latest.connect("latest")
        latest.send(Subscribe(1, [Subscription(TOPIC, 0)]))
        assert numbers(latest.received()) == [11]


def test_properties_arrive() -> None:
    """FC-25: a parked message keeps its properties, and its Message Expiry Interval goes down meanwhile."""
    with local_broker() as local:
        reader, sender = fill(local)
        properties: Properties = {props.USER_PROPERTY: [("a", "b")], props.MESSAGE_EXPIRY_INTERVAL: 100}
        sender.send(packet(11, properties=dict(properties)), packet(12, properties=properties))
        parked(local)[0].publish.expires_at -= 10_000_000
        messages: list[Publish] = []
        while len(messages) < 12:
            packets = reader.received()
            messages += [message for message in packets if isinstance(message, Publish)]
            acknowledge(reader, packets)
        first, second = messages[10:]
        assert first.properties == properties | {props.MESSAGE_EXPIRY_INTERVAL: 90}
        assert second.properties == properties


def test_expired_while_waiting() -> None:
    """FC-25, [MQTT-3.3.2-5]: the broker acknowledges a message that expired while parked and delivers it to nobody."""
    with local_broker() as local:
        reader, sender = fill(local)
        sender.send(packet(11, properties={props.MESSAGE_EXPIRY_INTERVAL: 1}))
        parked(local)[0].publish.expires_at -= 2_000_000
        assert take(reader, 10) == list(FILLING)
        assert answered(sender) == [11]
        assert reader.received() == []
        assert address(local).size == 0


def test_no_local() -> None:
    """FC-25, [MQTT-3.8.3-3]: the broker does not deliver a parked message to its own publisher with No Local."""
    with local_broker() as local:
        reader, sender = fill(local)
        sender.send(Subscribe(1, [Subscription(TOPIC, 1, no_local=True)]))
        sender.received()
        send(sender, [11])
        assert address(local).waiting == 1
        assert take(reader, 11) == list(range(1, 12))
        assert answered(sender) == [11]


def test_no_local_of_another_client() -> None:
    """FC-24: the deliveries to a subscriber with No Local need room if another client publishes."""
    with local_broker() as local:
        reader = publisher(local, client_id="reader")
        reader.send(Subscribe(1, [Subscription(TOPIC, 1, no_local=True)]))
        sender = publisher(local)
        send(sender, range(1, 12))
        assert answered(sender) == list(FILLING)


# -- room


def test_room_when_subscribers_leave() -> None:
    """FC-25: a parked PUBLISH is routed when unsubscriptions have reduced the room that it needs."""
    with local_broker(block_timeout="infinity") as local:
        readers = [subscriber(local) for _ in range(3)]
        sender = publisher(local)
        send(sender, [1, 2, 3, 4])
        assert answered(sender) == [1, 2, 3]
        for reader in readers[:2]:
            reader.received()
            reader.send(Unsubscribe(1, [TOPIC]))
        local.pass_time(2)
        assert answered(sender) == [4]


@pytest.mark.parametrize("kept", [False, True])
def test_room_when_a_session_ends(kept: bool) -> None:
    """FC-24: an address no longer counts what a session held once the session has ended, at once or by expiry."""
    nobody = [(number, reason_codes.NO_MATCHING_SUBSCRIBERS) for number in range(11, 15)]
    with local_broker() as local:
        sender = publisher(local)
        reader = local.client()
        reader.connect("reader", properties={props.SESSION_EXPIRY_INTERVAL: 5} if kept else None)
        reader.subscribe(TOPIC, 1)
        send(sender, range(1, 15))
        assert answered(sender) == list(FILLING)
        reader.drop()
        assert answers(sender.received()) == ([] if kept else nobody)
        local.pass_time(7)
        assert answers(sender.received()) == (nobody if kept else [])
        assert address(local).size == 0
        assert address(local).waiting == 0


def test_room_in_turns() -> None:
    """FC-25: the broker routes a thousand PUBLISHes parked for one acknowledgement in several turns of the loop."""
    room = held(1_000, 4, TOPIC)
    with local_broker(session={"producer_window_size": "10MiB"}, max_size_bytes=room) as local:
        reader = subscriber(local, 0)
        sender = publisher(local, 4)
        reader.socket.pause_writing()
        send(sender, [1], size=room)
        send(sender, range(2, 1002), size=4)
        assert answered(sender) == [1]
        local.run(reader.socket.resume_writing)
        for _ in range(10):
            local.run(lambda: None)
        assert answered(sender) == list(range(2, 1002))
        assert numbers(reader.received()) == list(range(1, 1002))


def test_room_for_all_at_once() -> None:
    """FC-25: the broker routes a thousand PUBLISHes that need no room any more in the next turns of the loop."""
    with local_broker(session={"producer_window_size": "10MiB"}) as local:
        reader, sender = fill(local, publisher(local, 4))
        send(sender, range(11, 1011))
        reader.send(Unsubscribe(1, [TOPIC]))
        local.pass_time(1.2)
        for _ in range(3):
            local.run(lambda: None)
        assert answered(sender) == list(range(11, 1011))


# -- counts


def test_counts() -> None:
    """FC-24 to FC-26: the session, the address and the totals of all addresses count parked PUBLISHes."""
    with local_broker() as local:
        reader, sender = fill(local)
        send(sender, [11, 12])
        addresses = local.broker.addresses
        assert (addresses.full, addresses.parked_total, address(local).parked) == (1, 2, 2)
        take(reader, 12)
        local.pass_time(2)
        assert (addresses.full, addresses.parked_total) == (0, 2)
        assert addresses.paged_total == addresses.refused_total == addresses.dropped_total == 0
        counters = session(local).take_counters(0)
        uncommon = counters.uncommon
        assert (uncommon.publish_parked, uncommon.publish_refused, uncommon.publish_discarded) == (2, 0, 0)
        assert uncommon.publish_parked_us > 0
        assert counters.received_qos1 == 12


@pytest.mark.parametrize(("policy", "refused", "dropped"), [("fail", 2, 0), ("drop", 0, 2)])
def test_counts_of_its_own(policy: str, refused: int, dropped: int) -> None:
    """FC-26: the full address counts what `fail` and `drop` did there, and another address does not."""
    with local_broker(policy) as local:
        _, sender = fill(local)
        send(sender, [11, 12])
        full, other = address(local), address(local, "full/other")
        assert (full.refused, full.dropped) == (refused, dropped)
        assert (other.refused, other.dropped) == (0, 0)


def test_retained_messages_count() -> None:
    """FC-24: a retained message that a subscription brings counts for its address until it is acknowledged."""
    with local_broker() as local:
        publisher(local).send(packet(1, retain=True))
        reader = local.client()
        reader.connect("reader")
        reader.send(Subscribe(1, [Subscription(TOPIC, 1)]))
        assert numbers(reader.received()) == [1]
        assert address(local).size == COST
        reader.send(Puback(1))
        assert address(local).size == 0
