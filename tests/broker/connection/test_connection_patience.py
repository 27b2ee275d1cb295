"""FC-16 over sockets: publishers are paced for a subscriber that drains its queue, and other packets go on."""

import fcntl
import termios
from array import array
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from socket import SHUT_WR
from threading import Thread
from typing import Final

import pytest

from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.connect import Will
from protocol.disconnect import Disconnect
from protocol.packet import Packet
from protocol.ping import Pingreq, Pingresp
from protocol.publish import Publish, encode_publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from tests.broker.conftest import Start
from tests.support.broker.metrics import check_books, of_client, read_rows, total
from tests.support.process import Address, BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

BURST: Final = 5_000
SMALL: Final = {"max_inflight": 1, "max_mqueue_len": 10}
FEW: Final = 30_000
"""Bytes that a reader has not read when it begins: less than a window has."""
ATTEMPTS: Final = 30
"""How often a test tries to have a publisher held back: on a busy machine a second may pass between two writes."""


def publish(topic: str, number: int, qos: int, size: int = 10) -> bytes:
    """One PUBLISH; its payload begins with its number."""
    payload = b"%d" % number
    return encode_publish(
        topic.encode(), payload.ljust(size, b"."), qos, False, False, number % 65_535 + 1 if qos else 0, None, 4
    )


def number_of(message: Publish) -> int:
    """Which one it is."""
    return int(bytes(message.payload).rstrip(b"."))


def send_burst(address: Address, topic: str, qos: int, last: Callable[[WireClient], None], will: Will | None) -> None:
    """Publish BURST messages as fast as the broker takes them, then do what comes `last`."""
    with WireClient(address, 4, timeout=60) as publisher:
        publisher.connect("publisher", will=will)
        window = 50 if qos == 2 else BURST  # FC-22
        for first in range(0, BURST, window):
            publisher.send(b"".join(publish(topic, number, qos, 2_000) for number in range(first, first + window)))
            if qos == 2:
                publisher.send(*[Pubrel(publisher.expect(Pubrec).packet_id) for _ in range(window)])
                assert len([publisher.expect(Pubcomp) for _ in range(window)]) == window
        last(publisher)


def received(reader: WireClient) -> int:
    """Bytes that the kernel has for a client."""
    count = array("i", [0])
    fcntl.ioctl(reader.socket, termios.FIONREAD, count)
    return count[0]


def numbers(reader: WireClient) -> Iterator[int]:
    """What a client gets that acknowledges all at once."""
    while True:
        packet = reader.receive()
        if isinstance(packet, Publish):
            if packet.qos:
                reader.send(Puback(packet.packet_id) if packet.qos == 1 else Pubrec(packet.packet_id))
            yield number_of(packet)
        else:
            assert isinstance(packet, Pubrel)
            reader.send(Pubcomp(packet.packet_id))


@pytest.fixture
def small(start: Start, tmp_path: Path) -> BrokerProcess:
    """A broker with queues that are full soon, and metrics."""
    metrics = {"directory": str(tmp_path / "metrics"), "interval": "100ms"}
    patience = {"overflow_patience": "60s"}  # a busy machine may take longer than the default for a burst
    session = {**SMALL, **patience, "max_inflight": 20, "max_mqueue_len": 20}
    return start(sections={"session": session, "metrics": metrics})


def disconnect(publisher: WireClient) -> None:
    """DISCONNECT right behind the last PUBLISH."""
    publisher.send(Disconnect())
    publisher.until_close()


def close(publisher: WireClient) -> None:
    """The end of the stream right behind the last PUBLISH."""
    publisher.socket.shutdown(SHUT_WR)
    publisher.until_close()


@pytest.mark.parametrize("last", [disconnect, close])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_burst(small: BrokerProcess, tmp_path: Path, qos: int, last: Callable[[WireClient], None]) -> None:
    """FC-16: all of a burst arrives though the queue holds little of it, followed by the will of its publisher."""
    address = small.address()
    # A receive buffer of few KB makes the kernel drop segments and resend them after seconds, some 40 at the worst.
    with WireClient(address, 4, timeout=20, receive_buffer=131_072) as reader:
        reader.connect("reader")
        reader.subscribe("burst", "will", qos=qos)
        will = Will(b"will", b"-1", qos)
        messages = numbers(reader)
        thread = Thread(target=send_burst, args=(address, "burst", qos, last, will))
        thread.start()
        wait_until(lambda: received(reader) > FEW, "the reader is behind")
        assert [next(messages) for _ in range(BURST)] == list(range(BURST))
        thread.join()
        with connected(address, 4) as other:
            other.publish("will", b"-2", qos)
        wills = list(iter(lambda: next(messages), -2))
    small.stop()
    rows = read_rows(tmp_path / "metrics")
    check_books(rows)
    # A will has no publisher that could wait: if a reader is far behind, its queue has no room for the will.
    dropped = total(of_client(rows, "reader"), f"dropped_qos{qos}")
    assert wills + [-1] * dropped == ([-1] if last is close else [])
    assert total(of_client(rows, "reader"), "paced_for_us") > 0
    assert total(of_client(rows, "publisher"), "publish_paced_us") > 0


# -- while a publisher is held back


class Pair:
    """A subscriber that takes one message at a time, and a publisher that has filled its queue."""

    def __init__(self, address: Address, stack: ExitStack) -> None:
        self.slow = stack.enter_context(connected(address, 4))
        self.slow.subscribe("slow", qos=1)
        self.publisher = stack.enter_context(connected(address, 4))
        self.sent = 0

    def publishes(self, count: int) -> list[bytes]:
        """PUBLISHes of QoS 1, each with its own packet id."""
        self.sent += count
        return [publish("slow", number, 1) for number in range(self.sent - count, self.sent)]

    def provoke(self, *behind: Packet) -> list[Packet]:
        """Fill the queue while it drains, then send ten PUBLISHes and what comes `behind`. Returns what is answered.

        The first of the ten is taken, and held back are those behind it, if nothing took too long.
        """
        self.publisher.send(*self.publishes(30))
        for _ in range(30):
            self.publisher.expect(Puback)
        self.slow.receive_message()
        self.publisher.send(*self.publishes(10), *behind)
        return [self.publisher.receive() for _ in range(10 + len(behind))]


@pytest.fixture
def pair(start: Start) -> Iterator[Pair]:
    """Both, on a broker of their own."""
    broker = start(sections={"session": SMALL})
    with ExitStack() as stack:
        yield Pair(broker.address(), stack)


def place(packets: list[Packet], kind: type[Packet]) -> int:
    """How many PUBACKs were before the first packet of this class."""
    position = next(index for index, packet in enumerate(packets) if isinstance(packet, kind))
    return sum(isinstance(packet, Puback) for packet in packets[:position])


def eventually(attempt: Callable[[], bool]) -> None:
    """Try until it works."""
    assert any(attempt() for _ in range(ATTEMPTS)), "the publisher was never held back"


def test_pings_are_answered(pair: Pair) -> None:
    """FC-16: a paced publisher gets PINGRESP before the PUBACKs that it waits for."""
    eventually(lambda: place(pair.provoke(Pingreq()), Pingresp) < 10)


def test_its_own_deliveries_go_on(pair: Pair) -> None:
    """FC-16: the acknowledgements of a paced publisher for its own deliveries are handled, and the next are sent."""
    pair.publisher.subscribe("own", qos=1)
    with connected(Address(*pair.slow.socket.getpeername()[:2]), 4) as other:

        def attempt() -> bool:
            other.publish("own", b"first", 1)
            other.publish("own", b"second", 1)
            first = pair.publisher.expect(Publish)
            answers = pair.provoke(Puback(first.packet_id))
            second = next(packet for packet in answers if isinstance(packet, Publish))
            pair.publisher.send(Puback(second.packet_id))
            assert (bytes(first.payload), bytes(second.payload)) == (b"first", b"second")
            return place(answers, Publish) < 10

        eventually(attempt)


def test_subscribe_does_not_overtake(pair: Pair) -> None:
    """FC-16: a SUBSCRIBE waits behind paced PUBLISHes, and the packets after it wait too."""

    def attempt() -> bool:
        answers = pair.provoke(Pingreq(), Subscribe(1, [Subscription("x", 0)]), Pingreq())
        assert place(answers, Suback) == 10
        assert isinstance(answers[-1], Pingresp)
        return place(answers, Pingresp) < 10

    eventually(attempt)


def test_others_are_not_held_back(pair: Pair) -> None:
    """FC-16: a publisher to another subscriber gets its acknowledgements while the first one is paced."""
    with connected(Address(*pair.slow.socket.getpeername()[:2]), 4) as other:

        def attempt() -> bool:
            pair.publisher.send(*pair.publishes(30))
            for _ in range(30):
                pair.publisher.expect(Puback)
            pair.slow.receive_message()
            pair.publisher.send(*pair.publishes(10), Pingreq())
            before = self_answers(pair)
            other.publish("other", b"x", 1)
            pair.publisher.send(Pingreq())
            meanwhile = self_answers(pair)
            for _ in range(10 - before - meanwhile):
                pair.publisher.expect(Puback)
            return before + meanwhile < 10

        eventually(attempt)


def self_answers(pair: Pair) -> int:
    """How many PUBACKs come before the next PINGRESP."""
    count = 0
    while not isinstance(pair.publisher.receive(), Pingresp):
        count += 1
    return count


# -- stalled, and off


def stall(start: Start, folder: Path, patience: str) -> tuple[int, int, int]:
    """2,000 messages to a subscriber that acknowledges nothing: drops, and microseconds of patience at both ends."""
    metrics = {"directory": str(folder), "interval": "100ms"}
    broker = start(sections={"session": {**SMALL, "overflow_patience": patience}, "metrics": metrics})
    with connected(broker.address(), 4, client_id="deaf") as deaf:
        deaf.subscribe("t", qos=1)
        with connected(broker.address(), 4, client_id="publisher") as publisher:
            for first in range(0, 2_000, 100):
                publisher.send(*[publish("t", number, 1) for number in range(first, first + 100)])
                for _ in range(100):
                    publisher.expect(Puback)
        broker.stop()
    rows = read_rows(folder)
    check_books(rows)
    return (
        total(of_client(rows, "deaf"), "dropped_queue_full_qos1"),
        total(of_client(rows, "deaf"), "paced_for_us"),
        total(of_client(rows, "publisher"), "publish_paced_us"),
    )


def test_stalled_subscriber(start: Start, tmp_path: Path) -> None:
    """FC-16: a subscriber that acknowledges nothing delays its publisher by a second and a timer's tick, once."""
    dropped, paced_for, paced = stall(start, tmp_path / "metrics", "5s")
    assert dropped == 2_000 - 1 - 10
    assert 0 < paced <= 1_500_000
    assert paced_for == paced


def test_off(start: Start, tmp_path: Path) -> None:
    """FC-16: with overflow_patience 0 the publisher is not delayed, and the same messages are dropped."""
    assert stall(start, tmp_path / "metrics", "0s") == (2_000 - 1 - 10, 0, 0)
