"""Tells which messages a client gets, without waiting for a time in which nothing comes.

A marker is published behind everything else; a server that keeps the order of a publisher's messages has delivered what
it is going to when the marker arrives.
"""

from collections.abc import Callable
from uuid import uuid4

from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.packet import Packet
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from tests.support.wire import WireClient

REFUSED = 0x80
"""Reason codes from here on are refusals."""


def unique(name: str) -> str:
    """Return a topic or client id that no other test uses: all tests share one broker."""
    return f"{name}-{uuid4().hex[:12]}"


def subscribe(client: WireClient, *wanted: Subscription) -> list[int]:
    """Subscribe with options; returns the codes of SUBACK, none of which may be a refusal."""
    client.send(Subscribe(client.packet_id(), list(wanted)))
    codes = suback(client)[0].reason_codes
    assert max(codes) < REFUSED, codes
    return codes


def suback(client: WireClient) -> tuple[Suback, list[Publish]]:
    """Return SUBACK, and the messages that came before it: section 3.8.4 permits that."""
    early: list[Publish] = []
    while True:
        packet = client.receive()
        if isinstance(packet, Suback):
            return packet, early
        assert isinstance(packet, Publish), packet
        early.append(packet)


def messages(client: WireClient, publisher: WireClient, qos: int = 0) -> list[Publish]:
    """Return the messages of `publisher` that the client gets; it acknowledges each of them completely.

    `qos` is that of the marker: give the one that the messages are delivered with.
    """
    marker = unique("marker")
    client.send(Subscribe(client.packet_id(), [Subscription(marker, qos)]))
    found = collect(client, lambda packet: isinstance(packet, Suback))
    publisher.publish(marker, b"", qos)
    found += collect(client, lambda packet: isinstance(packet, Publish) and packet.topic == marker.encode())
    end = found.pop()
    if end.qos == 2:
        found += collect(client, lambda packet: isinstance(packet, Pubrel) and packet.packet_id == end.packet_id)
    return found


def collect(client: WireClient, last: Callable[[Packet], bool]) -> list[Publish]:
    """Return the messages up to the packet for which `last` holds, acknowledged as they come."""
    found: list[Publish] = []
    while True:
        packet = client.receive()
        acknowledge(client, packet)
        if isinstance(packet, Publish):
            found.append(packet)
        if last(packet):
            return found


def acknowledge(client: WireClient, packet: Packet) -> None:
    """Acknowledge as a client does that accepts everything."""
    if isinstance(packet, Publish) and packet.qos:
        client.send((Puback if packet.qos == 1 else Pubrec)(packet.packet_id))
    elif isinstance(packet, Pubrel):
        client.send(Pubcomp(packet.packet_id))


def topics(found: list[Publish]) -> list[str]:
    """Return the topics of messages, in their order."""
    return [message.topic.decode() for message in found]


def payloads(found: list[Publish]) -> list[bytes]:
    """Return the payloads of messages, in their order."""
    return [message.payload for message in found]
