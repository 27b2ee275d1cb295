"""PUBLISHes of a client and the acknowledgements that it gets, in a form that is easy to compare."""

from collections.abc import Sequence

from protocol import packet_types
from protocol.acknowledgements import Acknowledgement
from protocol.packet import Packet
from protocol.publish import Publish
from tests.support.session.messages import message

Answer = tuple[int, int, int]


def from_client(packet_id: int, qos: int, text: str = "in", *, dup: bool = False) -> Publish:
    """A PUBLISH as the client sends it."""
    packet = message(text, qos)
    packet.packet_id = packet_id
    packet.dup = dup
    return packet


def answers(packets: Sequence[Packet]) -> list[Answer]:
    """The acknowledgements among `packets`: packet type, packet id, reason code."""
    return [(p.packet_type, p.packet_id, p.reason_code) for p in packets if isinstance(p, Acknowledgement)]


def puback(packet_id: int, reason_code: int = 0) -> Answer:
    """What PUBACK looks like among `answers`."""
    return (packet_types.PUBACK, packet_id, reason_code)


def pubrec(packet_id: int, reason_code: int = 0) -> Answer:
    """What PUBREC looks like among `answers`."""
    return (packet_types.PUBREC, packet_id, reason_code)


def pubcomp(packet_id: int, reason_code: int = 0) -> Answer:
    """What PUBCOMP looks like among `answers`."""
    return (packet_types.PUBCOMP, packet_id, reason_code)
