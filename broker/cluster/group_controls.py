"""What a group's home and the cells of its members tell each other (FC-13), as controls of their link.

The cell of a member sends JOIN, then ROOM when its client connects or goes, REPORTS about deliveries, and LEAVE. The
home answers JOIN with JOINED, and sends a DELIVERY when the group's queue hands the member a message. A member has a
number of its own on the link, and so has each delivery to it.
"""

import json
import struct
from typing import Final, NamedTuple

from broker.cluster.controls import control, data_of
from protocol.decoder import Decoder
from protocol.errors import MalformedPacket
from protocol.publish import Publish
from protocol.subscribe import Subscription
from session.flows import KEPT

JOIN: Final = b"$cell/group/join"
JOINED: Final = b"$cell/group/joined"
LEAVE: Final = b"$cell/group/leave"
ROOM: Final = b"$cell/group/room"
"""How many deliveries a member may have at a time; 0 = its client is away."""
DELIVERY: Final = b"$cell/group/delivery"
REPORTS: Final = b"$cell/group/reports"

DONE: Final = 0
"""A delivery is acknowledged, or was sent at QoS 0."""
SENT: Final = 1
"""It has been sent at QoS 2: no other member may get it [MQTT-4.8.2-5]."""
RETURNED: Final = 2
"""The member does not take it: it goes back to the head of the queue."""

_MEMBER: Final = struct.Struct(">I")
_ROOM: Final = struct.Struct(">II")
_DELIVERY: Final = struct.Struct(">IIQQQ")
_REPORT: Final = struct.Struct(">BII")


class Joining(NamedTuple):
    """A member that joins a group."""

    number: int
    subscription: Subscription


class Report(NamedTuple):
    """What has become of a delivery."""

    kind: int
    member: int
    delivery: int


def join(joining: Joining) -> bytes:
    """A member joins."""
    number, wanted = joining
    told = [number, wanted.topic_filter, wanted.qos, wanted.retain_as_published]
    return control(JOIN, json.dumps(told).encode())


def read_join(payload: bytes) -> Joining:
    """The member that joins."""
    number, topic_filter, qos, retain_as_published = json.loads(data_of(payload))
    return Joining(number, Subscription(topic_filter, qos, False, retain_as_published, 2))


def about_member(topic: bytes, number: int) -> bytes:
    """JOINED or LEAVE."""
    return control(topic, _MEMBER.pack(number))


def read_member(payload: bytes) -> int:
    """The number of the member."""
    (number,) = _MEMBER.unpack(data_of(payload))
    return int(number)


def room(member: int, most: int) -> bytes:
    """A member may have so many deliveries."""
    return control(ROOM, _ROOM.pack(member, most))


def read_room(payload: bytes) -> tuple[int, int]:
    """The number of the member, and how many."""
    member, most = _ROOM.unpack(data_of(payload))
    return member, most


def delivery(member: int, number: int, publish: Publish) -> bytes:
    """A member gets a message. Its times are of the clock that all processes of a host share."""
    times = publish.received_at, publish.expires_at, publish.flow & KEPT
    head, block, payload = publish.delivery(publish.topic, b"", -1)
    packet_id = b"\0\1" if publish.qos else b""  # a PUBLISH needs one; nobody reads it
    return control(DELIVERY, b"".join((_DELIVERY.pack(member, number, *times), head, packet_id, block, payload)))


def read_delivery(payload: bytes) -> tuple[int, int, Publish]:
    """The numbers of the member and of the delivery, and the message. Raises MalformedPacket."""
    data = data_of(payload)
    member, number, received_at, expires_at, flow = _DELIVERY.unpack_from(data)
    decoder = Decoder(version=5)
    decoder.feed(data[_DELIVERY.size :])
    publish = decoder.next_packet()
    if not isinstance(publish, Publish):
        raise MalformedPacket("a delivery of a group is cut off")
    publish.packet_id = 0
    publish.received_at, publish.expires_at, publish.flow = received_at, expires_at, flow
    return member, number, publish


def reports(found: list[Report]) -> bytes:
    """What has become of deliveries, in this order."""
    return control(REPORTS, b"".join([_REPORT.pack(*each) for each in found]))


def read_reports(payload: bytes) -> list[Report]:
    """The same."""
    return [Report(*each) for each in _REPORT.iter_unpack(data_of(payload))]
