"""FC-25: what waits at a full address, in which order it goes, and when it is given up."""

from itertools import pairwise

import pytest

from broker.addresses.full_address import Parked
from broker.runtime.clock import monotonic_us
from broker.server.shutdown import take_leave
from protocol import properties as props
from protocol import reason_codes
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.connect import Will
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.subscribe import Subscribe, Subscription
from protocol.unsubscribe import Unsubscribe
from tests.support.broker.full import (
    LIMIT,
    SIZE,
    TOPIC,
    acknowledge,
    address,
    answered,
    answers,
    drain,
    local_broker,
    numbers,
    packet,
    publisher,
    send,
    subscriber,
    take,
)
from tests.support.broker.local import LocalBroker, LocalClient

FILLING = range(1, LIMIT // SIZE + 1)
QUOTA_EXCEEDED = reason_codes.QUOTA_EXCEEDED


def fill(local: LocalBroker, version: int = 5) -> tuple[LocalClient, LocalClient]:
    """A subscriber that acknowledges nothing, and a publisher that has published as much as fits."""
    reader = subscriber(local)
    sender = publisher(local, version)
    send(sender, FILLING)
    assert answered(sender) == list(FILLING)
    return reader, sender


def waiting(local: LocalBroker) -> list[Parked]:
    """What waits of the publisher."""
    return local.broker.addresses.producers.parked(local.broker.clients.by_id["publisher"].session)


# -- order


def test_first_in_first_out() -> None:
    """FC-25: what waits goes in the order in which it came, whoever sent it and at whatever QoS."""
    with local_broker() as local:
        reader = subscriber(local, 2)
        senders = [publisher(local, 4 + number % 2, f"sender-{number}") for number in range(3)]
        send(senders[0], FILLING)
        for number in range(11, 41):
            send(senders[number % 3], [number], number % 7 % 3)
        assert take(reader, 40) == list(range(1, 41))
        assert address(local).size == 0


def test_nothing_passes_what_waits() -> None:
    """FC-9, FC-25: a message that would fit gets in line too, even if it is empty, or there is nobody to receive it."""
    with local_broker() as local:
        reader, sender = fill(local)
        sender.send(packet(11), Publish(TOPIC.encode(), b"", 1, packet_id=12), packet(13, size=2))
        assert answered(sender) == []
        reader.send(Puback(1))
        assert answered(sender) == [11, 12]
        reader.send(Puback(2))
        assert answered(sender) == [13]


def test_retained_when_routed() -> None:
    """FC-25: what waits is not retained yet; it is as soon as it is routed."""
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
    """FC-25: a message arrives as it was published, however long it has waited; its expiry has gone on meanwhile."""
    with local_broker() as local:
        reader, sender = fill(local)
        properties: Properties = {props.USER_PROPERTY: [("a", "b")], props.MESSAGE_EXPIRY_INTERVAL: 100}
        sender.send(packet(11, properties=dict(properties)), packet(12, properties=properties))
        waiting(local)[0].publish.expires_at -= 10_000_000
        messages: list[Publish] = []
        while len(messages) < 12:
            packets = reader.received()
            messages += [message for message in packets if isinstance(message, Publish)]
            acknowledge(reader, packets)
        first, second = messages[10:]
        assert first.properties == properties | {props.MESSAGE_EXPIRY_INTERVAL: 90}
        assert second.properties == properties


def test_expired_while_waiting() -> None:
    """FC-25, [MQTT-3.3.2-5]: what has expired while it waited is answered as usual and goes to nobody."""
    with local_broker() as local:
        reader, sender = fill(local)
        sender.send(packet(11, properties={props.MESSAGE_EXPIRY_INTERVAL: 1}))
        waiting(local)[0].publish.expires_at -= 2_000_000
        assert take(reader, 10) == list(FILLING)
        assert answered(sender) == [11]
        assert reader.received() == []
        assert address(local).size == 0


def test_no_local() -> None:
    """FC-25: what waited does not come back to its publisher if that does not want its own [MQTT-3.8.3-3]."""
    with local_broker() as local:
        reader, sender = fill(local)
        sender.send(Subscribe(1, [Subscription(TOPIC, 1, no_local=True)]))
        sender.received()
        send(sender, [11])
        assert address(local).waiting == 1
        assert take(reader, 11) == list(range(1, 12))
        assert answered(sender) == [11]


# -- room


def test_room_when_subscribers_leave() -> None:
    """FC-25: there is room too when fewer are subscribed than before, so that a message needs less of it."""
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
    """FC-24: what a session held counts no more when it has ended, at once or later."""
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
    """FC-25: a thousand that wait for one acknowledgement are routed a part at a time, and all of them."""
    with local_broker(session={"producer_window_size": "10MiB"}) as local:
        reader = subscriber(local, 0)
        sender = publisher(local, 4)
        reader.connection.pause_writing()
        send(sender, [1], size=LIMIT)
        send(sender, range(2, 1002), size=4)
        assert answered(sender) == [1]
        local.run(reader.connection.resume_writing)
        for _ in range(10):
            local.run(lambda: None)
        assert answered(sender) == list(range(2, 1002))
        assert numbers(reader.received()) == list(range(1, 1002))


def test_room_for_all_at_once() -> None:
    """FC-25: a thousand that need no room any more are all routed in the next turns of the loop."""
    with local_broker(session={"producer_window_size": "10MiB"}) as local:
        reader, sender = fill(local, 4)
        send(sender, range(11, 1011))
        reader.send(Unsubscribe(1, [TOPIC]))
        local.pass_time(1.2)
        for _ in range(3):
            local.run(lambda: None)
        assert answered(sender) == list(range(11, 1011))


# -- giving up


@pytest.mark.parametrize("qos", [1, 2])
def test_timeout(qos: int) -> None:
    """FC-25: after block_timeout, and not before, it is answered as `fail` does, in the order in which it came."""
    with local_broker(block_timeout="10s") as local:
        reader, sender = fill(local)
        send(sender, [11, 12], qos)
        local.pass_time(9)
        assert sender.received() == []
        local.pass_time(2)
        packets = sender.received()
        assert answers(packets) == [(11, QUOTA_EXCEEDED), (12, QUOTA_EXCEEDED)]
        assert isinstance(packets[0], Puback | Pubrec)
        assert packets[0].properties is not None
        assert TOPIC in str(packets[0].properties[props.REASON_STRING])
        assert take(reader, 10) == list(FILLING)
        send(sender, [11], qos)
        assert answered(sender) == [11]
        assert take(reader, 1) == [11]


def test_timeout_of_each() -> None:
    """FC-25: each PUBLISH has its own time; those that came later wait on, and may still be routed."""
    with local_broker(block_timeout="10s") as local:
        reader, sender = fill(local)
        send(sender, [11])
        waiting(local)[0].since -= 5_000_000
        send(sender, [12])
        local.pass_time(6)
        assert answers(sender.received()) == [(11, QUOTA_EXCEEDED)]
        assert take(reader, 11) == [*FILLING, 12]
        assert answered(sender) == [12]


@pytest.mark.parametrize("version", [4, 5])
def test_timeout_of_qos0(version: int) -> None:
    """FC-25: QoS 0 that has waited for too long is discarded and counted; nobody is closed for it."""
    with local_broker(block_timeout="10s") as local:
        reader, sender = fill(local, version)
        send(sender, [11, 12], 0)
        local.pass_time(11)
        assert not sender.gone
        counters = local.broker.clients.by_id["publisher"].session.outbound.sender.counters
        assert (counters.publish_parked, counters.publish_discarded, counters.publish_refused) == (2, 2, 0)
        assert counters.publish_parked_us > 2 * 10_000_000
        assert take(reader, 10) == list(FILLING)


@pytest.mark.parametrize("qos", [1, 2])
def test_timeout_closes_old_clients(qos: int) -> None:
    """FC-25: 3.1.1 clients are closed. What they sent behind it is not routed before they send it all again (FC-9)."""
    with local_broker(block_timeout="10s") as local:
        reader = subscriber(local)
        sender = local.client(4)
        sender.connect("publisher", clean_start=False)
        send(sender, FILLING)
        send(sender, [11, 12, 13], qos)
        waiting(local)[0].since -= 5_000_000
        local.pass_time(6)
        assert sender.gone
        assert address(local).waiting == 0
        assert take(reader, 10) == list(FILLING)
        again = local.client(4)
        assert again.connect("publisher", clean_start=False).session_present
        send(again, [11, 12, 13], qos, dup=True)
        assert answered(again) == [11, 12, 13]
        assert take(reader, 3) == [11, 12, 13]


def test_timeout_of_one_of_two() -> None:
    """FC-25: who is closed takes along what it has waiting there itself, not what others have."""
    with local_broker(block_timeout="10s") as local:
        reader, sender = fill(local, 4)
        other = publisher(local, 4, "other")
        send(sender, [11])
        waiting(local)[0].since -= 5_000_000
        send(other, [12])
        send(sender, [13])
        local.pass_time(6)
        assert sender.gone
        assert take(reader, 11) == [*FILLING, 12]
        assert answered(other) == [12]


def test_short_timeout() -> None:
    """FC-25: a time shorter than a second is kept too, also by who comes to an address that has long been full."""
    with local_broker(block_timeout="300ms") as local:
        reader, sender = fill(local)
        for number in (11, 12):
            send(sender, [number])
            local.pass_time(0.5)
            assert answers(sender.received()) == [(number, QUOTA_EXCEEDED)]
        assert take(reader, 10) == list(FILLING)


def test_no_timeout() -> None:
    """FC-25: with `infinity` a PUBLISH waits for as long as it takes."""
    with local_broker(block_timeout="infinity") as local:
        reader, sender = fill(local)
        send(sender, [11])
        local.pass_time(1_000_000)
        assert sender.received() == []
        assert take(reader, 11) == list(range(1, 12))
        assert answered(sender) == [11]


def test_reject_threshold() -> None:
    """FC-25: past reject_threshold_bytes, held and parked together, a PUBLISH is answered as `fail` does at once."""
    with local_broker(reject_threshold_bytes=LIMIT + 2 * SIZE) as local:
        reader, sender = fill(local)
        send(sender, [11, 12, 13])
        send(sender, [14], 0)
        assert answers(sender.received()) == [(13, QUOTA_EXCEEDED)]
        assert take(reader, 12) == list(range(1, 13))
        assert answered(sender) == [11, 12]
        assert local.broker.addresses.refused_total == 2


def test_many_time_out() -> None:
    """FC-25: however many time out at once, each turn of the loop gives up a bounded part of them."""
    with local_broker(block_timeout="10s", session={"producer_window_size": "10MiB"}) as local:
        reader, sender = fill(local, 4)
        send(sender, range(11, 1011), 0)
        local.pass_time(9.8)
        left = [address(local).waiting]
        while left[-1]:
            local.pass_time(0.1)
            left.append(address(local).waiting)
        assert max(before - after for before, after in pairwise(left)) == 256
        assert take(reader, 10) == list(FILLING)


# -- wills


def will_of(number: int, qos: int = 1) -> Will:
    """A will that says which it is."""
    return Will(TOPIC.encode(), packet(number).payload, qos)


def test_will_of_a_full_address() -> None:
    """FC-24: a will is routed whatever the size of its address: there is nobody to hold back."""
    with local_broker("fail") as local:
        reader, _ = fill(local)
        dying = local.client()
        dying.connect("dying", will=will_of(11))
        dying.drop()
        assert address(local).size == LIMIT + SIZE
        assert take(reader, 11) == list(range(1, 12))


def test_will_does_not_pass() -> None:
    """FC-9, FC-25: a will does not pass what its client, or another, has sent before and what waits."""
    with local_broker() as local:
        reader, _ = fill(local)
        dying = local.client()
        dying.connect("dying", will=will_of(12))
        send(dying, [11])
        dying.drop()
        assert address(local).waiting == 2
        reader.send(Puback(1))  # room for one, and a will needs none
        assert address(local).waiting == 0
        assert numbers(reader.received()) == [1, 2, 3, 4, 5]
        reader.send(*[Puback(number) for number in range(2, 6)])
        assert take(reader, 7) == list(range(6, 13))


def test_will_is_not_given_up() -> None:
    """FC-25: a will that waits behind others is routed at the latest after block_timeout."""
    with local_broker(block_timeout="10s") as local:
        reader, sender = fill(local)
        send(sender, [11])
        dying = local.client()
        dying.connect("dying", will=will_of(12))
        dying.drop()
        local.pass_time(11)
        assert answers(sender.received()) == [(11, QUOTA_EXCEEDED)]
        assert take(reader, 11) == [*FILLING, 12]


def test_will_when_the_broker_stops() -> None:
    """FC-24: when the broker stops, wills do not wait behind what is not going to be routed any more."""
    with local_broker() as local:
        reader, sender = fill(local)
        reader.received()
        send(sender, [11])
        quiet = subscriber(local, 0)
        dying = local.client()
        dying.connect("dying", will=will_of(12))
        local.run(lambda: take_leave(local.broker, monotonic_us()))
        assert numbers(quiet.received()) == [12]


# -- the publisher's credit


def test_receive_maximum() -> None:
    """FC-20, FC-25: what waits is unacknowledged, so it uses up the client's Receive Maximum."""
    with local_broker(session={"receive_maximum": 10}) as local:
        reader, sender = fill(local)
        send(sender, range(11, 16), 1)
        send(sender, range(16, 21), 2)
        assert sender.received() == []
        reader.send(Puback(1))
        assert answered(sender) == [11]
        send(sender, [21])
        assert not sender.gone
        send(sender, [22])
        assert sender.gone


def test_max_awaiting_rel() -> None:
    """FC-22, FC-25: QoS 2 PUBLISHes that wait are among those that max_awaiting_rel bounds."""
    with local_broker(session={"max_awaiting_rel": 2}) as local:
        reader, sender = fill(local)
        send(sender, [11, 12, 13, 14], 2)
        reader.send(Puback(1))
        assert answered(sender) == [11]
        assert address(local).waiting == 1
        sender.send(Pubrel(11))
        assert [type(received) for received in sender.received()] == [Pubcomp]
        assert address(local).waiting == 2
        assert drain(reader)[0] == list(range(1, 14))
        assert answered(sender) == [12, 13]


def test_given_up_ids_let_in() -> None:
    """FC-22, FC-25: a PUBLISH that is given up leaves its id to one that waits for it, which then waits for room."""
    with local_broker(session={"max_awaiting_rel": 2}) as local:
        reader, sender = fill(local, 5)
        send(sender, [11, 12, 13], 2)
        local.pass_time(32)
        assert answers(sender.received()) == [(11, QUOTA_EXCEEDED), (12, QUOTA_EXCEEDED)]
        assert address(local).waiting == 1
        assert drain(reader)[0] == [*range(1, 11), 13]
        assert answered(sender) == [13]


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("dup", [False, True])
def test_sent_again_while_it_waits(qos: int, dup: bool) -> None:
    """FC-21, FC-25: a PUBLISH that is sent again while it waits is the same one: routed once, answered once."""
    with local_broker() as local:
        reader, sender = fill(local, 4)
        send(sender, [11], qos)
        send(sender, [11, 11], qos, dup=dup)
        assert address(local).waiting == 1
        assert take(reader, 11) == list(range(1, 12))
        packets = sender.received()
        assert answers(packets) == [(11, 0)]
        acknowledge(sender, packets)
        sender.received()
        send(sender, [11], qos)
        assert answered(sender) == [11]
        assert take(reader, 1) == [11]


def test_packet_ids_are_per_qos_and_client() -> None:
    """FC-25: the same packet id of another client is another PUBLISH."""
    with local_broker() as local:
        reader, sender = fill(local)
        other = publisher(local, 5, "other")
        send(sender, [11], packet_id=7)
        send(other, [12], packet_id=7)
        send(other, [13], 2, packet_id=7)
        assert drain(reader, sender, other)[0] == list(range(1, 14))


def test_counts() -> None:
    """FC-24 to FC-26: what happens is counted for the session, for the address and for all addresses."""
    with local_broker() as local:
        reader, sender = fill(local)
        send(sender, [11, 12])
        addresses = local.broker.addresses
        assert (addresses.full, addresses.parked_total, address(local).parked) == (1, 2, 2)
        take(reader, 12)
        local.pass_time(2)
        assert (addresses.full, addresses.parked_total) == (0, 2)
        assert addresses.paged_total == addresses.refused_total == addresses.dropped_total == 0
        counters = local.broker.clients.by_id["publisher"].session.take_counters(0)
        assert (counters.publish_parked, counters.publish_refused, counters.publish_discarded) == (2, 0, 0)
        assert counters.publish_parked_us > 0
        assert counters.received_qos1 == 12


@pytest.mark.parametrize(("policy", "refused", "dropped"), [("fail", 2, 0), ("drop", 0, 2)])
def test_counts_of_its_own(policy: str, refused: int, dropped: int) -> None:
    """FC-26: what `fail` and `drop` do is counted for the address that was full, and for no other."""
    with local_broker(policy) as local:
        _, sender = fill(local)
        send(sender, [11, 12])
        full, other = address(local), address(local, "full/other")
        assert (full.refused, full.dropped) == (refused, dropped)
        assert (other.refused, other.dropped) == (0, 0)


def test_retained_messages_count() -> None:
    """FC-24: a retained message that comes with a subscription takes up room until it is acknowledged."""
    with local_broker() as local:
        publisher(local).send(packet(1, retain=True))
        reader = local.client()
        reader.connect("reader")
        reader.send(Subscribe(1, [Subscription(TOPIC, 1)]))
        assert numbers(reader.received()) == [1]
        assert address(local).size == SIZE
        reader.send(Puback(1))
        assert address(local).size == 0
