"""FC-25: when parked PUBLISHes are given up, by block_timeout or reject_threshold_bytes, and the answers."""

from functools import partial
from itertools import pairwise

import pytest

from broker.runtime.clock import monotonic_us
from broker.runtime.timers import TICK
from protocol import properties as props
from protocol import reason_codes
from protocol.acknowledgements import Puback, Pubrec
from tests.support.broker.full import (
    COST,
    FILLING,
    LIMIT,
    TOPIC,
    address,
    answered,
    answers,
    fill,
    local_broker,
    parked,
    publisher,
    send,
    session,
    subscriber,
    take,
)

QUOTA_EXCEEDED = reason_codes.QUOTA_EXCEEDED


@pytest.mark.parametrize("qos", [1, 2])
def test_timeout(qos: int) -> None:
    """FC-25: after block_timeout, and not before, the broker refuses parked PUBLISHes in the order of their arrival."""
    with local_broker(block_timeout="10s") as local:
        reader, sender = fill(local)
        send(sender, [11, 12], qos)
        local.pass_time(9)
        assert sender.received() == []
        local.pass_time(2)
        packets = sender.received()
        assert answers(packets) == [(11, QUOTA_EXCEEDED), (12, QUOTA_EXCEEDED)]
        assert isinstance(packets[0], Puback | Pubrec)
        assert packets[0].properties is not None
        assert TOPIC in str(packets[0].properties[props.REASON_STRING])
        assert take(reader, 10) == list(FILLING)
        send(sender, [11], qos)
        assert answered(sender) == [11]
        assert take(reader, 1) == [11]


def test_timeout_of_each() -> None:
    """FC-25: block_timeout applies to each PUBLISH separately, so one that came later may still be routed."""
    with local_broker(block_timeout="10s") as local:
        reader, sender = fill(local)
        send(sender, [11])
        parked(local)[0].since -= 5_000_000
        send(sender, [12])
        local.pass_time(6)
        assert answers(sender.received()) == [(11, QUOTA_EXCEEDED)]
        assert take(reader, 11) == [*FILLING, 12]
        assert answered(sender) == [12]


@pytest.mark.parametrize("version", [4, 5])
def test_timeout_of_qos0(version: int) -> None:
    """FC-25: after block_timeout the broker discards and counts parked QoS 0 PUBLISHes and closes no connection."""
    with local_broker(block_timeout="10s") as local:
        reader, sender = fill(local, publisher(local, version))
        send(sender, [11, 12], 0)
        local.pass_time(11)
        assert not sender.gone
        uncommon = session(local).outbound.sender.counters.uncommon
        assert (uncommon.publish_parked, uncommon.publish_discarded, uncommon.publish_refused) == (2, 2, 0)
        assert uncommon.publish_parked_us > 2 * 10_000_000
        assert take(reader, 10) == list(FILLING)


@pytest.mark.parametrize("qos", [1, 2])
def test_timeout_closes_old_clients(qos: int) -> None:
    """FC-9, FC-25: a timeout closes a 3.1.1 client, and what it had parked is routed only after a resend."""
    with local_broker(block_timeout="10s") as local:
        reader = subscriber(local)
        sender = local.client(4)
        sender.connect("publisher", clean_start=False)
        send(sender, FILLING)
        send(sender, [11, 12, 13], qos)
        parked(local)[0].since -= 5_000_000
        local.pass_time(6)
        assert sender.gone
        assert address(local).waiting == 0
        assert take(reader, 10) == list(FILLING)
        again = local.client(4)
        assert again.connect("publisher", clean_start=False).session_present
        send(again, [11, 12, 13], qos, dup=True)
        assert answered(again) == [11, 12, 13]
        assert take(reader, 3) == [11, 12, 13]


def test_timeout_of_one_of_two() -> None:
    """FC-25: a client that a timeout closes takes its own parked PUBLISHes along, and none of another client."""
    with local_broker(block_timeout="10s") as local:
        reader, sender = fill(local, publisher(local, 4))
        other = publisher(local, 4, "other")
        send(sender, [11])
        parked(local)[0].since -= 5_000_000
        send(other, [12])
        send(sender, [13])
        local.pass_time(6)
        assert sender.gone
        assert take(reader, 11) == [*FILLING, 12]
        assert answered(other) == [12]


def test_short_timeout() -> None:
    """FC-25: the broker keeps a block_timeout below one second, also at an address that has been full for longer."""
    with local_broker(block_timeout="300ms") as local:
        reader, sender = fill(local)
        for number in (11, 12):
            send(sender, [number])
            local.pass_time(0.5)
            assert answers(sender.received()) == [(number, QUOTA_EXCEEDED)]
        assert take(reader, 10) == list(FILLING)


def test_no_timeout() -> None:
    """FC-25: with a block_timeout of infinity a PUBLISH stays parked until there is room."""
    with local_broker(block_timeout="infinity") as local:
        reader, sender = fill(local)
        send(sender, [11])
        local.pass_time(1_000_000)
        assert sender.received() == []
        assert take(reader, 11) == list(range(1, 12))
        assert answered(sender) == [11]


def test_reject_threshold() -> None:
    """FC-25: the broker refuses a PUBLISH at once when held and parked bytes would exceed reject_threshold_bytes."""
    with local_broker(reject_threshold_bytes=LIMIT + 3 * COST - 1) as local:
        reader, sender = fill(local)
        send(sender, [11, 12, 13])
        send(sender, [14], 0)
        assert answers(sender.received()) == [(13, QUOTA_EXCEEDED)]
        assert take(reader, 12) == list(range(1, 13))
        assert answered(sender) == [11, 12]
        assert local.broker.addresses.refused_total == 2


def test_many_time_out() -> None:
    """FC-25: each turn of the loop gives up at most 256 PUBLISHes, however many time out at once."""
    with local_broker(block_timeout="10s", session={"producer_window_size": "10MiB"}) as local:
        reader, sender = fill(local, publisher(local, 4))
        send(sender, range(11, 1011), 0)
        at = monotonic_us() + 9_800_000
        left = [address(local).waiting]
        while left[-1]:
            at += TICK  # not the machine's time, which may be two ticks later
            local.run(partial(local.broker.wheel.advance, at))
            left.append(address(local).waiting)
        assert max(before - after for before, after in pairwise(left)) == 256
        assert take(reader, 10) == list(FILLING)
