"""FC-24, FC-25: wills to a full address: they need no room, and wait only behind parked PUBLISHes."""

from broker.runtime.clock import monotonic_us
from broker.server.shutdown import disconnect_all
from protocol import reason_codes
from protocol.acknowledgements import Puback
from protocol.connect import Will
from tests.support.broker.full import (
    COST,
    FILLING,
    LIMIT,
    TOPIC,
    address,
    answers,
    fill,
    local_broker,
    numbers,
    packet,
    send,
    subscriber,
    take,
)
from tests.support.broker.local import LocalBroker, LocalClient

QUOTA_EXCEEDED = reason_codes.QUOTA_EXCEEDED


def will_of(number: int, qos: int = 1) -> Will:
    """A will whose payload is a number."""
    return Will(TOPIC.encode(), packet(number).payload, qos)


def with_will(local: LocalBroker, number: int) -> LocalClient:
    """A client with such a will."""
    client = local.client()
    client.connect("dying", will=will_of(number))
    return client


def test_will_of_a_full_address() -> None:
    """FC-24: the broker routes a will to a full address at once, because it can hold nobody back."""
    with local_broker("fail") as local:
        reader, _ = fill(local)
        dying = with_will(local, 11)
        dying.drop()
        assert address(local).size == LIMIT + COST
        assert take(reader, 11) == list(range(1, 12))


def test_will_does_not_pass() -> None:
    """FC-9, FC-25: a will waits behind the PUBLISHes that its client, or another, has parked before it."""
    with local_broker() as local:
        reader, _ = fill(local)
        dying = with_will(local, 12)
        send(dying, [11])
        dying.drop()
        assert address(local).waiting == 2
        reader.send(Puback(1))  # room for one, and a will needs none
        assert address(local).waiting == 0
        assert numbers(reader.received()) == [1, 2, 3, 4, 5]
        reader.send(*[Puback(number) for number in range(2, 6)])
        assert take(reader, 7) == list(range(6, 13))


def test_will_is_not_given_up() -> None:
    """FC-25: the broker routes a will that waits behind a parked PUBLISH after block_timeout at the latest."""
    with local_broker(block_timeout="10s") as local:
        reader, sender = fill(local)
        send(sender, [11])
        dying = with_will(local, 12)
        dying.drop()
        local.pass_time(11)
        assert answers(sender.received()) == [(11, QUOTA_EXCEEDED)]
        assert take(reader, 11) == [*FILLING, 12]


def test_will_when_the_broker_stops() -> None:
    """FC-24: when the broker stops, it routes wills without waiting for parked PUBLISHes."""
    with local_broker() as local:
        reader, sender = fill(local)
        reader.received()
        send(sender, [11])
        quiet = subscriber(local, 0)
        with_will(local, 12)
        broker = local.broker
        local.run(
            lambda: disconnect_all(
                broker.connections,
                broker.clients,
                broker.addresses,
                broker.capabilities,
                broker.run_queue,
                monotonic_us(),
            )
        )
        assert numbers(quiet.received()) == [12]
