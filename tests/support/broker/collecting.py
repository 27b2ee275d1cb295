"""Collects all messages that are on their way to a client."""

from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.packet import Packet
from protocol.ping import Pingreq, Pingresp
from protocol.publish import Publish
from tests.support.wire import WireClient


def collect(client: WireClient, acknowledge: bool = True) -> list[Publish]:
    """All messages that are on their way, acknowledged to the end unless told otherwise."""
    return [packet for packet in collect_packets(client, acknowledge) if isinstance(packet, Publish)]


def collect_packets(client: WireClient, acknowledge: bool = True) -> list[Packet]:
    """All packets that are on their way.

    Deliveries are written at the turn of the loop after that which routed them, the answer to a ping at once: so the
    second ping's answer comes behind them. What the client acknowledges brings more; that is waited for too.
    """
    packets: list[Packet] = []
    quiet = 0
    while quiet < 2:
        client.send(Pingreq())
        news = _until_pong(client, acknowledge)
        packets += news
        quiet = 0 if news else quiet + 1
    return packets


def _until_pong(client: WireClient, acknowledge: bool) -> list[Packet]:
    packets: list[Packet] = []
    while not isinstance(packet := client.receive(), Pingresp):
        packets.append(packet)
        if acknowledge and isinstance(packet, Publish) and packet.qos:
            client.send((Puback if packet.qos == 1 else Pubrec)(packet.packet_id))
        elif acknowledge and isinstance(packet, Pubrel):
            client.send(Pubcomp(packet.packet_id))
    return packets
