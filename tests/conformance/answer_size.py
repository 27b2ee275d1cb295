"""Checks that SUBACK and UNSUBACK, which have a code for each filter, stay within a client's Maximum Packet Size."""

from protocol import properties as props
from tests.conformance import by_hand
from tests.support.process import Address
from tests.support.wire import WireClient, connected

MANY = 250
"""Filters of one packet: the limit that leaves no room for optional properties must still be enough for CONNACK."""


def check_size(address: Address, request: bytes, answer: int) -> None:
    """Send a packet with MANY filters, without a limit and with one that leaves no room for optional properties."""
    with connected(address, 5) as client:
        size, has_more = _ask(client, request, answer)
    limit = size - 1 if has_more else size
    with connected(address, 5, properties={props.MAXIMUM_PACKET_SIZE: limit}) as client:
        smaller, _ = _ask(client, request, answer)
        assert smaller <= limit


def _ask(client: WireClient, request: bytes, answer: int) -> tuple[int, bool]:
    """Return the length of the answer and whether it has a Reason String or User Properties."""
    client.send(request)
    first, body = by_hand.receive(client)
    assert first == answer
    assert len(by_hand.codes(5, body, 1)) == MANY
    return len(by_hand.packet(first, body)), body[2] > 0
