"""FC-20 to FC-25: a parked PUBLISH keeps its packet id and counts for Receive Maximum and max_awaiting_rel."""

import pytest

from protocol import reason_codes
from protocol.acknowledgements import Puback, Pubcomp, Pubrel
from tests.support.broker.full import (
    acknowledge,
    address,
    answered,
    answers,
    drain,
    fill,
    local_broker,
    publisher,
    send,
    take,
)

QUOTA_EXCEEDED = reason_codes.QUOTA_EXCEEDED


def test_receive_maximum() -> None:
    """FC-20, FC-25: parked PUBLISHes count against the Receive Maximum of their client."""
    with local_broker(session={"receive_maximum": 10}) as local:
        reader, sender = fill(local)
        send(sender, range(11, 16), 1)
        send(sender, range(16, 21), 2)
        assert sender.received() == []
        reader.send(Puback(1))
        assert answered(sender) == [11]
        send(sender, [21])
        assert not sender.gone
        send(sender, [22])
        assert sender.gone


def test_max_awaiting_rel() -> None:
    """FC-22, FC-25: parked QoS 2 PUBLISHes count against max_awaiting_rel."""
    with local_broker(session={"max_awaiting_rel": 2}) as local:
        reader, sender = fill(local)
        send(sender, [11, 12, 13, 14], 2)
        reader.send(Puback(1))
        assert answered(sender) == [11]
        assert address(local).waiting == 1
        sender.send(Pubrel(11))
        assert [type(received) for received in sender.received()] == [Pubcomp]
        assert address(local).waiting == 2
        assert drain(reader)[0] == list(range(1, 14))
        assert answered(sender) == [12, 13]


def test_given_up_ids_let_in() -> None:
    """FC-22, FC-25: giving up a PUBLISH frees its packet id for one that waits for an id, and that one is parked."""
    with local_broker(session={"max_awaiting_rel": 2}) as local:
        reader, sender = fill(local)
        send(sender, [11, 12, 13], 2)
        local.pass_time(32)
        assert answers(sender.received()) == [(11, QUOTA_EXCEEDED), (12, QUOTA_EXCEEDED)]
        assert address(local).waiting == 1
        assert drain(reader)[0] == [*range(1, 11), 13]
        assert answered(sender) == [13]


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("dup", [False, True])
def test_sent_again_while_it_waits(qos: int, dup: bool) -> None:
    """FC-21, FC-25: the broker routes and answers a parked PUBLISH once, also if its client sends it again."""
    with local_broker() as local:
        reader, sender = fill(local, publisher(local, 4))
        send(sender, [11], qos)
        send(sender, [11, 11], qos, dup=dup)
        assert address(local).waiting == 1
        assert take(reader, 11) == list(range(1, 12))
        packets = sender.received()
        assert answers(packets) == [(11, 0)]
        acknowledge(sender, packets)
        sender.received()
        send(sender, [11], qos)
        assert answered(sender) == [11]
        assert take(reader, 1) == [11]


def test_packet_ids_are_per_qos_and_client() -> None:
    """FC-25: parked PUBLISHes with the same packet id, of another client or QoS, are different PUBLISHes."""
    with local_broker() as local:
        reader, sender = fill(local)
        other = publisher(local, 5, "other")
        send(sender, [11], packet_id=7)
        send(other, [12], packet_id=7)
        send(other, [13], 2, packet_id=7)
        assert drain(reader, sender, other)[0] == list(range(1, 14))
