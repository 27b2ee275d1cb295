"""FC-25: a client that publishes to a full address and consumes from it makes progress."""

from itertools import islice, pairwise

import pytest

from protocol import reason_codes
from protocol.acknowledgements import Puback
from protocol.ping import Pingreq, Pingresp
from protocol.publish import Publish
from protocol.subscribe import Subscribe, Subscription
from tests.broker.conftest import Start
from tests.support.broker.full import (
    FILLING,
    SIZE,
    TOPIC,
    acknowledge,
    address,
    answered,
    answers,
    fill,
    local_broker,
    number_of,
    numbers,
    packet,
    publisher,
    sections,
    send,
    subscriber,
    take,
)
from tests.support.broker.local import LocalBroker, LocalClient
from tests.support.wire import WireClient, connected

QUOTA_EXCEEDED = reason_codes.QUOTA_EXCEEDED
SMALL_WINDOW: dict[str, object] = {"producer_window_size": 3 * SIZE, "receive_maximum": 1000}


def feeding_itself(local: LocalBroker, version: int = 5) -> LocalClient:
    """A client that has filled an address to which it is subscribed, and its producer window."""
    client = publisher(local, version)
    client.subscribe(TOPIC, 1)
    send(client, FILLING)
    send(client, [11, 12, 13])
    assert address(local).waiting == 3
    return client


def test_goes_on_reading() -> None:
    """FC-25: past its window a client is read if a parked PUBLISH waits for deliveries that it holds."""
    with local_broker(session=SMALL_WINDOW) as local:
        client = feeding_itself(local)
        client.received()
        assert client.transport.reading
        client.send(*[Puback(number) for number in (1, 2, 3)])
        assert sorted(number for number, _ in answers(client.received())) == [11, 12, 13]


def test_resumed_below_the_window() -> None:
    """FC-25: a paused publisher is read again when less than its window is parked, not while exactly that is."""
    with local_broker(session={"producer_window_size": 2 * SIZE}) as local:
        reader, client = fill(local)
        send(client, [11], size=SIZE + SIZE // 2)
        send(client, [12], size=2 * SIZE)
        assert not client.transport.reading
        came = reader.received()
        acknowledge(reader, came[:2])
        assert answered(client) == [11]
        assert not client.transport.reading
        acknowledge(reader, came[2:])
        assert answered(client) == [12]
        assert client.transport.reading


@pytest.mark.parametrize("places", [1, 100])
def test_wherever_it_holds_it(places: int) -> None:
    """FC-25: this holds for deliveries that are under way to it and for those that are queued."""
    with local_broker(session=SMALL_WINDOW | {"max_inflight": places}) as local:
        client = publisher(local)
        client.subscribe("elsewhere", 1)
        client.subscribe(TOPIC, 1)
        send(client, [1], topic="elsewhere")
        send(client, FILLING)
        send(client, [11, 12, 13])
        assert address(local).waiting == 3
        assert client.transport.reading


@pytest.mark.parametrize("qos", [1, 2])
def test_past_the_window(qos: int) -> None:
    """FC-25: a PUBLISH past its window is answered as `fail` does, at once."""
    with local_broker(session=SMALL_WINDOW) as local:
        client = feeding_itself(local)
        client.received()
        send(client, [14, 15], qos)
        send(client, [16], 0)
        assert answers(client.received()) == [(14, QUOTA_EXCEEDED), (15, QUOTA_EXCEEDED)]
        send(client, [17], topic="full/empty")
        send(client, [18], topic="elsewhere")
        assert {code for _, code in answers(client.received())} == {reason_codes.NO_MATCHING_SUBSCRIBERS}
        assert local.broker.addresses.refused_total == 3


def test_past_the_window_of_an_old_client() -> None:
    """FC-25: a PUBLISH past its window closes a 3.1.1 client, as `fail` does."""
    with local_broker(session=SMALL_WINDOW) as local:
        client = feeding_itself(local, 4)
        send(client, [14])
        assert client.gone


def test_room_made_in_the_same_chunk() -> None:
    """FC-25: acknowledgements make room for PUBLISHes of the same chunk."""
    with local_broker(session=SMALL_WINDOW) as local:
        client = feeding_itself(local)
        client.received()
        client.send(Puback(1), Puback(2), Puback(3), packet(14), packet(15), packet(16))
        assert sorted(answers(client.received())) == [(11, 0), (12, 0), (13, 0)]
        assert address(local).waiting == 3


def test_reading_ends_with_the_reason() -> None:
    """FC-25: when no PUBLISH waits for its deliveries, the client is not read past its window."""
    with local_broker(session=SMALL_WINDOW) as local:
        subscriber(local)
        client = publisher(local)
        client.subscribe(TOPIC, 1)
        send(client, range(1, 9))
        take(client, 8)
        send(client, range(9, 13))  # of which one fits: the other subscriber has kept all eight
        assert numbers(client.received()) == [9]
        assert client.transport.reading
        client.send(Puback(9))
        send(client, [13])
        assert answers(client.received()) == [(13, QUOTA_EXCEEDED)]
        assert address(local).waiting == 3
        assert not client.transport.reading


def test_not_read_who_holds_nothing() -> None:
    """FC-25: a client without deliveries of the address is not read past its window."""
    with local_broker(session=SMALL_WINDOW) as local:
        subscriber(local)
        client = publisher(local)
        client.subscribe("elsewhere", 1)
        send(client, [1], topic="elsewhere")
        send(client, FILLING)
        send(client, [11, 12, 13])
        assert not client.transport.reading
        local.pass_time(5)
        assert not client.transport.reading


def test_looked_at_again() -> None:
    """FC-25: a client that is not read is read when it gets deliveries that others wait for."""
    with local_broker(session=SMALL_WINDOW, block_timeout="infinity") as local:
        first, second = crosswise(local)
        assert not first.transport.reading
        local.pass_time(1.2)
        assert first.transport.reading
        assert second.transport.reading


def crosswise(local: LocalBroker) -> tuple[LocalClient, LocalClient]:
    """Two clients, each with a used-up window, waiting for room that only the other one can make."""
    first = publisher(local, 5, "first")
    second = publisher(local, 5, "second")
    first.subscribe("full/1", 1)
    second.subscribe("full/2", 1)
    send(first, range(1, 14), topic="full/2")
    assert not first.transport.reading
    send(second, range(1, 14), topic="full/1")
    return first, second


def test_crosswise() -> None:
    """FC-25: two clients that feed each other's full addresses both make progress."""
    with local_broker(session=SMALL_WINDOW, block_timeout="infinity") as local:
        clients = crosswise(local)
        local.pass_time(1.2)
        got: list[list[int]] = [[], []]
        for _ in range(40):
            for client, own in zip(clients, got, strict=True):
                packets = client.received()
                own += numbers(packets)
                acknowledge(client, packets)
        assert got == [list(range(1, 14))] * 2
        assert all(address(local, topic).size == 0 for topic in ("full/1", "full/2"))


def test_nobody_is_read_for_nothing() -> None:
    """FC-25: the timer ends with the connections that are not read."""
    with local_broker(session=SMALL_WINDOW) as local:
        reader = subscriber(local)
        client = publisher(local)
        send(client, range(1, 14))
        assert not client.transport.reading
        take(reader, 13)
        assert client.transport.reading
        local.pass_time(100)
        assert len(local.broker.wheel) == 0


def test_over_a_socket(start: Start) -> None:
    """FC-25: a client that publishes at full speed to an address that it consumes gets all its messages."""
    broker = start(sections=sections(session={"producer_window_size": 3 * SIZE}))
    with connected(broker.address(), 5) as client:
        client.subscribe(TOPIC, qos=1)
        to_send = iter(range(1, 2001))
        client.send(*[packet(number) for number in islice(to_send, 20)])
        got, refused, done = [], 0, 0
        while done < 2000:
            received = client.receive()
            if isinstance(received, Publish):
                got.append(number_of(received))
                client.send(Puback(received.packet_id))
            elif isinstance(received, Puback):
                done += 1
                refused += received.reason_code == QUOTA_EXCEEDED
                client.send(*[packet(number) for number in islice(to_send, 1)])
        got += [number_of(message) for message in rest(client)]
        assert all(one < other for one, other in pairwise(got))
        assert len(got) + refused == 2000
        assert len(got) > 200


def rest(client: WireClient) -> list[Publish]:
    """What is still on its way."""
    messages: list[Publish] = []
    quiet = 0
    while quiet < 2:
        client.send(Pingreq())
        quiet += 1
        while not isinstance(received := client.receive(), Pingresp):
            assert isinstance(received, Publish)
            messages.append(received)
            client.send(Puback(received.packet_id))
            quiet = 0
    return messages


def test_subscribing_to_a_full_address() -> None:
    """FC-25: a client that is read for its acknowledgements only may subscribe, ping and disconnect."""
    with local_broker(session=SMALL_WINDOW) as local:
        client = feeding_itself(local)
        client.received()
        client.send(Subscribe(2, [Subscription("more", 1)]), Pingreq())
        assert [type(received).__name__ for received in client.received()] == ["Suback", "Pingresp"]
