"""FC-23: a client that publishes above its rate is not read until the rate allows, and loses nothing."""

import time
from collections.abc import Callable, Iterator

import pytest

from protocol.acknowledgements import Puback
from protocol.disconnect import Disconnect
from protocol.ping import Pingreq, Pingresp
from tests.broker.conftest import Start
from tests.support.broker.full import answers, numbers, packet, publisher, send, subscriber
from tests.support.broker.local import LocalBroker, LocalClient
from tests.support.wire import connected


def limited(rate: object = 10, **session: object) -> LocalBroker:
    """A broker that reads so many PUBLISHes a second of each connection."""
    return LocalBroker(session={"producer_max_rate": rate, "receive_maximum": 1000, **session})


def read(client: LocalClient) -> int:
    """How many of the client's QoS 1 PUBLISHes have been read since the last call."""
    return len(answers(client.received()))


def until(condition: Callable[[], bool]) -> Iterator[int]:
    """Steps until `condition` holds; fails if that takes too many."""
    for step in range(1000):
        if condition():
            return
        yield step
    raise AssertionError("it takes too long")


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_over_a_socket(start: Start, version: int, qos: int) -> None:
    """FC-23: all messages arrive, no faster than the rate allows, for each version and QoS."""
    broker = start(sections={"session": {"producer_max_rate": 200, "retry_interval": "infinity"}})
    with connected(broker.address(), 5) as reader, connected(broker.address(), version) as sender:
        reader.subscribe("full/a", qos=0)
        begun = time.monotonic()
        sender.send(*[packet(number, qos) for number in range(1, 31)])
        sender.send(*[packet(number, 0) for number in range(31, 121)])
        got = [int(reader.receive_message().payload.rstrip(b".")) for _ in range(120)]
        assert got == list(range(1, 121))
        assert time.monotonic() - begun > (120 - 40) / 200 * 0.9  # a fifth of a second's worth is there at once


def test_not_read_past_the_rate() -> None:
    """FC-23: the rest of a chunk waits too, and is handled as the rate allows."""
    with limited(10) as local:
        sender = publisher(local)
        send(sender, range(1, 31))
        assert not sender.transport.reading
        count = read(sender)
        assert 1 <= count <= 2
        for _ in until(lambda: sender.transport.reading):
            local.pass_time(0.1)
            more = read(sender)
            assert more <= 2
            count += more
        assert count == 30


def test_nothing_is_lost() -> None:
    """FC-23: messages above the rate arrive later, in order."""
    with limited(100) as local:
        reader = subscriber(local, 0, topic_filter="full/a")
        sender = publisher(local)
        for begin in range(1, 301, 100):
            send(sender, range(begin, begin + 100), 0)
        got = numbers(reader.received())
        assert len(got) < 100
        for _ in until(lambda: len(got) >= 300):
            local.pass_time(0.1)
            got.extend(numbers(reader.received()))
        assert got == list(range(1, 301))


def test_others_go_on() -> None:
    """FC-23: each connection has its own rate; a publisher below its rate is read at once."""
    with limited(10) as local:
        fast, slow = publisher(local), publisher(local, 5, "slow")
        send(fast, range(1, 31))
        send(slow, [1])
        assert read(slow) == 1
        assert slow.transport.reading
        assert not fast.transport.reading


@pytest.mark.parametrize("rate", ["infinity", 1_000_000])
def test_off(rate: object) -> None:
    """FC-23: without a limit, or below it, everything is read at once."""
    with limited(rate) as local:
        sender = publisher(local)
        send(sender, range(1, 201))
        assert read(sender) == 200
        assert sender.transport.reading


def test_other_packets_are_not_counted() -> None:
    """FC-23: only PUBLISHes count; PINGREQ and acknowledgements do not."""
    with limited(1) as local:
        client = publisher(local)
        client.send(*[Pingreq()] * 100, *[Puback(number) for number in range(1, 100)])
        assert [type(answer) for answer in client.received()] == [Pingresp] * 100
        assert client.transport.reading


def test_keepalive_does_not_end_it() -> None:
    """FC-23: the keep-alive does not end the connection of a client that is not read."""
    with limited(1) as local:
        client = local.client(4)
        client.connect("publisher", keep_alive=10)
        send(client, range(1, 101))
        local.pass_time(60)
        assert not client.gone


def test_kept_pings() -> None:
    """FC-23: packets behind a delayed PUBLISH are answered in their order."""
    with limited(1) as local:
        client = publisher(local)
        client.send(packet(1), packet(2), packet(3), Pingreq())
        seen = [type(answer) for answer in client.received()]
        assert seen == [Puback]
        for _ in until(lambda: len(seen) == 4):
            local.pass_time(1)
            seen.extend([type(answer) for answer in client.received()])
        assert seen == [Puback, Puback, Puback, Pingresp]


def test_leaving() -> None:
    """FC-23: a connection that ends while it is not read leaves no timer, and the next one has its own rate."""
    with limited(1) as local:
        client = publisher(local)
        client.send(packet(1), packet(2), packet(3), Disconnect())
        client.drop()
        assert client.gone
        local.pass_time(30)
        again = publisher(local)
        send(again, [1])
        assert read(again) == 1


def test_counted() -> None:
    """FC-23: the time without reading is counted, also while it lasts and after the client has gone."""
    with limited(1) as local:
        client = local.client(4)
        client.connect("publisher", clean_start=False)
        send(client, [1, 2, 3, 4, 5])
        session = local.broker.clients.by_id["publisher"].session
        assert session.take_counters(session.created_at + 10_000_000).uncommon.publish_throttled_us > 5_000_000
        client.drop()
        assert not session.take_counters(session.created_at + 20_000_000).uncommon.publish_throttled_us > 0


def test_the_time_ends_with_the_pause() -> None:
    """FC-23: `publish_throttled_us` of a client that is read again counts no further time."""
    with limited(1) as local:
        client = publisher(local)
        send(client, [1, 2, 3])
        for _ in until(lambda: client.transport.reading):
            local.pass_time(1)
        session = local.broker.clients.by_id["publisher"].session
        later = session.created_at + 3600_000_000
        assert session.take_counters(later).uncommon.publish_throttled_us > 0
        assert session.take_counters(later + 1_000_000).uncommon.publish_throttled_us == 0
