"""The rows of sessions without faults."""

from session.counters import Counters
from tests.support.spark.fleet.shapes import histogram

WINDOW = 32


class Ordinary:
    """Fills the same counters for every row; other counters are 0."""

    def __init__(self) -> None:
        self._counters = Counters(0)
        self._counters.begin_uncommon().window_limit = WINDOW

    def row(self, begin: int, offered: list[int], received: int, size: int) -> Counters:
        """All deliveries offered are sent and acknowledged. The result is valid until the next call.

        Args:
            begin: start of the interval, on the monotonic clock.
            offered: deliveries by QoS.
            received: PUBLISHes from the client, of QoS 0.
            size: payload bytes of each.
        """
        counters = self._counters
        counters.interval_start = begin
        counters.offered_qos0, counters.offered_qos1, counters.offered_qos2 = zero, one, two = offered
        counters.sent_qos0, counters.sent_qos1, counters.sent_qos2 = zero, one, two
        counters.acknowledged_qos1, counters.acknowledged_qos2 = one, two
        every = zero + one + two
        counters.sent_bytes = every * size
        counters.received_qos0 = received
        counters.received_bytes = received * size
        counters.begin_uncommon().window_max = min(one + two, 3)
        samples = min(every, 60)
        counters.mailbox_samples = samples
        counters.mailbox_max = min(samples, 3)
        counters.mailbox_buckets = histogram("mailbox_calm", samples)
        counters.wait_qos0_buckets = histogram("wait_calm", zero)
        counters.wait_qos1_buckets = histogram("wait_calm", one)
        counters.wait_qos2_buckets = histogram("wait_calm", two)
        counters.ack_qos1_buckets = histogram("ack_calm", one)
        counters.ack_qos2_buckets = histogram("ack_calm", two)
        return counters
