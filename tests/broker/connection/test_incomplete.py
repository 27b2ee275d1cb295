"""Incomplete packets of clients with a session, below the memory watermark and beyond it (FC-32)."""

import random

from broker.connection.incomplete import SHARE
from broker.connection.newcomers import LITTLE
from protocol import reason_codes
from protocol.acknowledgements import Puback
from protocol.disconnect import Disconnect
from protocol.publish import Publish
from tests.support.broker.local import LocalBroker, LocalClient

SIZE = 300_000
WATERMARK = 256 * 1024 * 1024
MANY = 150
"""More than twice as many packets of SIZE as may be incomplete beyond the watermark."""
PACKET = Publish(b"t", bytes(SIZE), 1, packet_id=1).encode(5)


def begin(local: LocalBroker, count: int) -> list[LocalClient]:
    """So many clients that have sent all of a large PUBLISH but its last byte."""
    clients = [local.client() for _ in range(count)]
    for number, client in enumerate(clients):
        client.connect(f"client-{number}")
        client.send(PACKET[:-1])
    return clients


def reach(local: LocalBroker, reached: bool = True) -> None:
    """The memory is above the watermark, or below again; then it is looked at."""
    watermark = local.broker.quotas.watermark
    watermark.high, watermark.reached = WATERMARK, reached
    local.run(lambda: local.broker.handlers.incomplete.look(0))


def test_below_the_watermark_all_get_through() -> None:
    """FC-32: nobody is closed below the watermark, however much is incomplete, and each packet is acknowledged."""
    with LocalBroker() as local:
        clients = begin(local, MANY)
        reach(local, False)
        for client in clients:
            client.send(PACKET[-1:])
            assert client.expect(Puback).reason_code == reason_codes.NO_MATCHING_SUBSCRIBERS
        reach(local)
        assert local.broker.handlers.incomplete.total == 0
        assert not any(client.gone for client in clients)


def test_beyond_it_the_longest_silent_are_closed() -> None:
    """FC-32: a sixteenth of the watermark stays: of clients that have sent something last, however old they are."""
    with LocalBroker() as local:
        clients = begin(local, MANY)
        slow, silent = clients[:20], clients[20:]
        slow_rest = Publish(b"t", bytes(SIZE), 1, packet_id=2).encode(5)
        for client in slow:
            client.send(PACKET[-1:] + slow_rest[: SIZE // 2])
            assert client.expect(Puback).packet_id == 1
        reach(local)
        gone = [client.gone for client in silent]
        assert gone == sorted(gone, reverse=True)
        kept = MANY - sum(gone)
        left = kept * (len(PACKET) - 1) - len(slow) * (len(PACKET) - 1 - SIZE // 2)
        assert WATERMARK // SHARE - len(PACKET) < left <= WATERMARK // SHARE
        assert local.broker.handlers.incomplete.total == left
        assert silent[0].expect(Disconnect).reason_code == reason_codes.QUOTA_EXCEEDED
        for client in slow:
            client.send(slow_rest[SIZE // 2 :])
            assert client.expect(Puback).packet_id == 2


def test_beyond_it_more_is_bounded_as_it_comes() -> None:
    """FC-32: while the memory is above the watermark, incomplete packets never hold more than an eighth of it."""
    with LocalBroker() as local:
        reach(local)
        clients = []
        for number in range(MANY):
            clients.append(client := local.client())
            client.connect(f"client-{number}")
            client.send(PACKET[:-1])
            held = sum(each.socket.incomplete() for each in clients)
            assert held <= WATERMARK // SHARE * 2
        assert 0 < sum(client.gone for client in clients) < MANY


def test_what_is_counted() -> None:
    """The sum is never less than what is held, whatever sizes clients send, and exact once it is looked at."""
    chosen = random.Random(1)
    with LocalBroker() as local:
        table = local.broker.handlers.incomplete
        clients = [local.client() for _ in range(20)]
        for number, client in enumerate(clients):
            client.connect(f"client-{number}")
        streams = [b""] * len(clients)
        for _ in range(1_000):
            number = chosen.randrange(len(clients))
            if len(streams[number]) < SIZE:
                streams[number] += Publish(b"t", bytes(chosen.choice([1, 500, 5_000, SIZE]))).encode(5)
            size = chosen.choice([1, 100, 4_000, 100_000, 2 * SIZE])
            clients[number].send(streams[number][:size])
            streams[number] = streams[number][size:]
            held = [client.socket.held() for client in clients]
            counted = sum(count for count in held if count > LITTLE)
            assert counted <= table.total
        local.run(lambda: table.look(0))
        assert table.total == counted > 0
        for client in clients:
            client.drop()
        assert table.total == 0
