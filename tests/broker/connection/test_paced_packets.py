"""FC-16: the packets of a paced publisher that wait."""

from broker.connection.paced_packets import MOST_BYTES, PacedPackets
from protocol import properties as props
from protocol.acknowledgements import Puback, Pubrel
from protocol.ping import Pingreq
from protocol.publish import Publish
from protocol.subscribe import Subscribe, Subscription


def test_full_by_bytes() -> None:
    """FC-16: above 64 KiB of waiting packets the client is not read, until some of them have been handled."""
    held = PacedPackets()
    while not held.is_full(False):
        held.add(Publish(b"t", bytes(10_000)))
    held.take()
    assert not held.is_full(False)


def test_properties_count() -> None:
    """FC-16: the size of properties counts as the payload does."""
    held = PacedPackets()
    held.add(Publish(b"t", b"", 0, False, {props.USER_PROPERTY: [("k", "v" * 60_000)] * 2}))
    assert held.is_full(False)
    assert MOST_BYTES < 120_000


def test_full_by_another_packet() -> None:
    """FC-16: behind a waiting SUBSCRIBE the client is not read until the SUBSCRIBE has been handled."""
    held = PacedPackets()
    subscribe = Subscribe(1, [Subscription("t", 0)])
    held.add(Publish(b"t", b""))
    held.add(subscribe)
    held.take()
    assert held.is_full(False)
    assert held.take() is subscribe
    assert not held.is_full(False)
    assert held.take() is None


def test_acknowledgements_that_are_needed() -> None:
    """FC-16: up to 1 MiB waits, other packets too, while others need the client's acknowledgements."""
    held = PacedPackets()
    held.add(Subscribe(1, [Subscription("t", 0)]))
    while not held.is_full(True):
        held.add(Publish(b"t", bytes(10_000)))
    held.take()
    for _ in range(100):
        held.take()
    assert not held.is_full(True)
    assert held.is_full(False) is False


def test_what_goes_on() -> None:
    """FC-16: acknowledgements and PINGREQ are handled at once; PUBLISH and SUBSCRIBE wait."""
    waits = [Publish(b"t", b""), Subscribe(1, [Subscription("t", 0)])]
    held = PacedPackets()
    assert all(held.may_overtake(packet) for packet in (Puback(1), Pubrel(1), Pingreq()))
    assert not any(held.may_overtake(packet) for packet in waits)


def test_pubrel_behind_its_publish() -> None:
    """FC-16, FC-21: a PUBREL waits while a QoS 2 PUBLISH with its packet id does, however often that was sent."""
    held = PacedPackets()
    for _ in range(2):
        held.add(Publish(b"t", b"", 2, packet_id=7))
    held.take()
    assert not held.may_overtake(Pubrel(7))
    assert held.may_overtake(Pubrel(8))
    held.take()
    assert held.may_overtake(Pubrel(7))
