"""A client that holds up the end of a broker."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.process import BrokerProcess
from tests.support.wire import WireClient, connected


@contextmanager
def stuck_client(broker: BrokerProcess) -> Iterator[None]:
    """A client that reads nothing while megabytes wait for it; it is reset at the end."""
    with WireClient(broker.address(), 5, receive_buffer=4096) as stuck:
        stuck.connect()
        stuck.subscribe("t", qos=1)
        with connected(broker.address(), 5) as sender:
            for _ in range(30):
                sender.publish("t", b"x" * 500_000, 1)
        yield
        stuck.reset()
