"""FC-25: ten producers on one address are held back equally, and none of their messages is lost."""

from collections import Counter, defaultdict

import pytest

from protocol.acknowledgements import Puback
from protocol.decoder import Decoder
from protocol.publish import Publish
from tests.broker.conftest import Start
from tests.support.broker.full import TOPIC, sections
from tests.support.costs import held
from tests.support.process import Address
from tests.support.wire import READ_BYTES, connected

PRODUCERS = 10
MESSAGES = 5_000
SIZE = 200
UNACKNOWLEDGED = 30
AHEAD = 400
"""QoS 0 PUBLISHes on their way: more than address and windows hold together, and no more than sockets take at once."""


def jain(counts: list[int]) -> float:
    """Jain's index: 1 = all the same, 1 / n = one has all."""
    return float(sum(counts) ** 2 / (len(counts) * sum(count * count for count in counts)))


class Producer:
    """Has always something to send: more than its producer window takes."""

    def __init__(self, address: Address, name: int, version: int, qos: int) -> None:
        self.client = connected(address, version)
        self._decoder = Decoder(version=version)
        self._name = name
        self._qos = qos
        self._sent = 0
        self._send(UNACKNOWLEDGED if qos else AHEAD)
        self.client.socket.setblocking(False)

    def go_on(self, arrived: bool) -> None:
        """Send a PUBLISH for each that has been acknowledged meanwhile; for one that has `arrived` if it is QoS 0."""
        if not self._qos:
            self._send(arrived)
            return
        try:
            self._decoder.feed(self.client.socket.recv(READ_BYTES))
        except BlockingIOError:
            return
        while (packet := self._decoder.next_packet()) is not None:
            assert isinstance(packet, Puback)
            assert packet.reason_code == 0
            self._send(1)

    def _send(self, count: int) -> None:
        numbers = range(self._sent + 1, self._sent + count + 1)
        self._sent += count
        self.client.send(*[self._publish(number) for number in numbers])

    def _publish(self, number: int) -> Publish:
        payload = b"%d %d" % (self._name, number)
        return Publish(TOPIC.encode(), payload.ljust(SIZE), self._qos, packet_id=number if self._qos else 0)


@pytest.mark.parametrize(("version", "qos"), [(4, 0), (4, 1), (5, 1)])
def test_ten_producers(start: Start, version: int, qos: int) -> None:
    """FC-25: equal producers get equal shares of a full address; the messages of each arrive in order."""
    session: dict[str, object] = {"producer_window_size": 16 * SIZE}
    broker = start(sections=sections(session=session, max_size_bytes=held(20, SIZE, TOPIC)))
    with connected(broker.address(), 5) as subscriber:
        subscriber.subscribe(TOPIC, qos=1)
        producers = [Producer(broker.address(), name, version, qos) for name in range(PRODUCERS)]
        counts: Counter[int] = Counter()
        last: defaultdict[int, int] = defaultdict(int)
        while counts.total() < MESSAGES:
            name, number = map(int, subscriber.receive_message().payload.split())
            assert number == last[name] + 1
            last[name] = number
            if len(last) == PRODUCERS:  # what the first ones sent before the others were there has gone
                counts[name] += 1
            for place, producer in enumerate(producers):
                producer.go_on(place == name)
        for producer in producers:
            producer.client.reset()
    assert jain(list(counts.values())) > 0.99
