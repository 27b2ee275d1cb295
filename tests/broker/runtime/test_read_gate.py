"""A client is read while there is no reason not to, in whatever order the reasons end (FC-23, FC-25)."""

from hypothesis import given
from hypothesis import strategies as st

from broker.runtime.clock import monotonic_us
from broker.runtime.read_gate import PARKED, RATE, UNDRAINED
from protocol.ping import Pingreq, Pingresp
from tests.support.broker.full import publisher
from tests.support.broker.local import LocalBroker, LocalClient

REASONS = st.sampled_from([UNDRAINED, RATE, PARKED])
STEPS = st.lists(st.tuples(st.booleans(), REASONS), max_size=20)


def pongs(client: LocalClient) -> int:
    """How many pings have been answered since the last call."""
    return [type(answer) for answer in client.received()].count(Pingresp)


def step(local: LocalBroker, client: LocalClient, begins: bool, reason: int) -> None:
    """A reason begins, or ends."""
    if begins:
        local.run(lambda: client.connection.gate.pause(reason, monotonic_us()))
    else:
        local.run(lambda: client.connection.gate.resume(reason))


@given(STEPS)
def test_any_order(steps: list[tuple[bool, int]]) -> None:
    """FC-23, FC-25: a client is read exactly while there is no reason not to; nothing that it sends is lost."""
    with LocalBroker() as local:
        client = publisher(local)
        sent, answers, left = 0, 0, set[int]()
        for begins, reason in steps:
            step(local, client, begins, reason)
            left = left | {reason} if begins else left - {reason}
            client.send(Pingreq())
            sent += 1
            answers += pongs(client)
            assert client.transport.reading == (not left)
            assert answers == sent or left
        for reason in left:
            step(local, client, False, reason)
        answers += pongs(client)
        assert answers == sent
        assert client.transport.reading


def test_closed() -> None:
    """FC-23: a reason that ends while the connection is closing does not start reading again."""
    with LocalBroker() as local:
        client = publisher(local)
        step(local, client, True, RATE)
        client.transport.stuck = True
        local.run(client.connection.close)
        step(local, client, False, RATE)
        client.send(Pingreq())
        assert client.received() == []


def test_stream_ends() -> None:
    """FC-23, FC-25: what arrived before the end of the stream is handled, whatever kept the client from being read."""
    with LocalBroker() as local:
        client = publisher(local)
        step(local, client, True, RATE)
        step(local, client, True, PARKED)
        client.send(*[Pingreq()] * 1000)
        assert pongs(client) == 0
        local.run(client.socket.eof_received)
        assert pongs(client) == 1000
        assert client.gone
