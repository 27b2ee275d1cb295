"""FC-25: ten producers on one address, held back fairly, and nothing of theirs lost."""

import threading
from collections import Counter, defaultdict

import pytest

from protocol.acknowledgements import Puback
from protocol.publish import Publish
from tests.broker.conftest import Start
from tests.support.process import Address
from tests.support.wire import connected
from tests.support_broker.full import TOPIC, sections

PRODUCERS = 10
MESSAGES = 5_000


def jain(counts: list[int]) -> float:
    """Jain's index: 1 = all the same, 1 / n = one has all."""
    return float(sum(counts) ** 2 / (len(counts) * sum(count * count for count in counts)))


class Producer:
    """Publishes as fast as it is let: QoS 0 without end, or QoS 1 with a number of PUBLISHes unacknowledged."""

    def __init__(self, address: Address, name: int, version: int, qos: int, unacknowledged: int) -> None:
        self.client = connected(address, version)
        self.stopped = False
        self._name = name
        self._qos = qos
        self._unacknowledged = unacknowledged
        self._sent = 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._send(self._unacknowledged)
            while not self.stopped:
                if self._qos:
                    self.client.expect(Puback)
                    self._send(1)
                else:
                    self._send(100)
        except OSError:
            pass  # the test is over

    def _send(self, count: int) -> None:
        numbers = range(self._sent + 1, self._sent + count + 1)
        self._sent += count
        self.client.send(*[self._publish(number) for number in numbers])

    def _publish(self, number: int) -> Publish:
        payload = b"%d %d" % (self._name, number)
        return Publish(TOPIC.encode(), payload.ljust(200), self._qos, packet_id=number % 65_535 + 1 if self._qos else 0)

    def stop(self) -> None:
        """Break the connection, which ends whatever it waits for."""
        self.stopped = True
        self.client.reset()
        self._thread.join()


@pytest.mark.parametrize(("version", "qos"), [(4, 0), (4, 1), (5, 1)])
def test_ten_producers(start: Start, version: int, qos: int) -> None:
    """FC-25: what gets through is spread evenly over producers that want the same; of each, all arrives in order."""
    session: dict[str, object] = {"producer_window_size": 6_400}
    broker = start(sections=sections(session=session, max_size_bytes=20_000))
    with connected(broker.address(), 5) as subscriber:
        subscriber.subscribe(TOPIC, qos=1)
        producers = [Producer(broker.address(), name, version, qos, 30) for name in range(PRODUCERS)]
        try:
            counts: Counter[int] = Counter()
            last: defaultdict[int, int] = defaultdict(int)
            while counts.total() < MESSAGES:
                name, number = map(int, subscriber.receive_message().payload.split())
                assert number == last[name] + 1
                last[name] = number
                if len(last) == PRODUCERS:  # all have begun
                    counts[name] += 1
        finally:
            for producer in producers:
                producer.stop()
    assert jain(list(counts.values())) > 0.99
