"""The packets of deliveries: shared pieces, message expiry, Maximum Packet Size."""

import pytest

from protocol.decoder import Decoder
from protocol.properties import CONTENT_TYPE, MESSAGE_EXPIRY_INTERVAL, SUBSCRIPTION_IDENTIFIER, TOPIC_ALIAS
from protocol.publish import Publish
from session.limits import Limits
from session.outbox import PUBACK_HEAD, PUBCOMP_HEAD, PUBREL_HEAD, Outbox
from tests.support.session.messages import SECOND, message, publishes, resent, texts
from tests.support.session.peer import Peer


def taken(outbox: Outbox) -> bytes:
    """What the connection would write."""
    return b"".join(outbox.take())


# -- pieces


@pytest.mark.parametrize("version", [4, 5])
def test_pieces_are_shared(version: int) -> None:
    """The packets of one message to many sessions share their objects: nothing is copied for each."""
    zero, one = message("a", 0), message("b", 1)
    boxes = [Outbox(), Outbox()]
    for number, outbox in enumerate(boxes):
        outbox.version = version
        outbox.add_publish(zero, 0, 0)
        outbox.add_publish(one, 100 + number, 0)

    first, second = (outbox.take() for outbox in boxes)

    assert len(first) == len(second) == 4
    assert [a is b for a, b in zip(first, second, strict=True)] == [True, True, False, True]
    assert first[2] == (100).to_bytes(2, "big")


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("text", ["", "payload"])
def test_packet_size_is_what_is_written(version: int, qos: int, text: str) -> None:
    """packet_size equals the length of the encoded packet, for each version, QoS and payload."""
    outbox = Outbox()
    outbox.version = version
    publish = message(text, qos, "a/b", expiry=60)
    size = outbox.packet_size(publish)

    outbox.add_publish(publish, 1 if qos else 0, 0)

    assert len(taken(outbox)) == size


def test_take_empties() -> None:
    """Packets that were taken from the outbox are not written again, and no longer count."""
    outbox = Outbox()
    outbox.add_publish(message("a"), 0, 0)
    outbox.add_acknowledgement(PUBREL_HEAD, 5)

    assert taken(outbox).endswith(b"\x62\x02\x00\x05")
    assert taken(outbox) == b""
    assert outbox.delivery_bytes == 0


def test_foreign_properties_do_not_travel() -> None:
    """A delivery has neither the publisher's topic alias nor its subscription identifier."""
    peer = Peer(version=5)
    properties: dict[int, int | str | bytes | list[tuple[str, str]] | list[int]] = {
        TOPIC_ALIAS: 3,
        SUBSCRIPTION_IDENTIFIER: [7],
        CONTENT_TYPE: "text/plain",
    }
    peer.route(Publish(b"t", b"a", 1, properties=properties))
    first = publishes(peer.run())
    peer.disconnect()

    again = publishes(peer.connect(5))

    assert [publish.properties for publish in first + again] == [{CONTENT_TYPE: "text/plain"}] * 2


# -- message expiry


def expiry_of(publish: Publish) -> object:
    """The Message Expiry Interval that the client was told."""
    return (publish.properties or {}).get(MESSAGE_EXPIRY_INTERVAL)


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_expired_messages_are_dropped(version: int, qos: int) -> None:
    """A message that has expired is not sent, and is counted [MQTT-3.3.2-5]."""
    peer = Peer(Limits(max_inflight=1), version, online=False)
    peer.publish("old", qos=qos, expiry=10)
    peer.publish("young", qos=qos, expiry=11)
    peer.advance(10)

    assert texts(peer.connect(version)) == ["young"]
    assert peer.take_counters().drops == {f"dropped_expired_qos{qos}": 1}


def test_expired_in_the_mailbox() -> None:
    """A message that expires in the mailbox is dropped when it is taken up."""
    peer = Peer()
    peer.publish("zero", qos=0, expiry=1)
    peer.publish("one", qos=1, expiry=1)
    peer.now += SECOND

    assert peer.run() == []
    assert peer.take_counters().drops == {"dropped_expired_qos0": 1, "dropped_expired_qos1": 1}
    assert peer.window_ids() == []


def test_expired_head_frees_the_way() -> None:
    """An expired head takes no slot: the delivery behind it is sent at once."""
    peer = Peer(Limits(max_inflight=1))
    peer.deliver("sent", qos=1)
    peer.deliver("old", qos=1, expiry=1)
    peer.deliver("next", qos=1)
    peer.advance(1)

    assert texts(peer.puback(1)) == ["next"]


@pytest.mark.parametrize(("waited", "left"), [(0, 10), (0.5, 10), (1, 9), (3.2, 7), (9.999, 1)])
@pytest.mark.parametrize("qos", [0, 1])
def test_expiry_is_counted_down(waited: float, left: int, qos: int) -> None:
    """The client gets the rest of the Message Expiry Interval, never 0 seconds [MQTT-3.3.2-6]."""
    peer = Peer(version=5, online=False)
    peer.publish("a", qos=qos, expiry=10)
    peer.advance(waited)

    (publish,) = publishes(peer.connect(5))

    assert expiry_of(publish) == left
    assert peer.take_counters().sent_bytes == 1


def test_expiry_of_a_resent_message() -> None:
    """An expired message in the window is resent without remaining time, as its delivery has begun."""
    peer = Peer(version=5)
    peer.deliver("a", qos=1, expiry=10)
    peer.disconnect()
    peer.advance(4)
    assert [expiry_of(publish) for publish in publishes(peer.connect(5))] == [6]
    peer.disconnect()
    peer.advance(60)

    assert [expiry_of(publish) for publish in publishes(peer.connect(5))] == [0]


def test_311_is_told_no_expiry() -> None:
    """3.1.1 has no properties: the message is sent until it expires."""
    peer = Peer(online=False)
    peer.publish("a", qos=1, expiry=10)

    (publish,) = publishes(peer.connect())

    assert publish.properties is None


# -- Maximum Packet Size


def size_of(publish: Publish, version: int = 5) -> int:
    """Length of the packet for that version."""
    outbox = Outbox()
    outbox.version = version
    return outbox.packet_size(publish)


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize(("spare", "arrives"), [(0, True), (-1, False)])
def test_maximum_packet_size(qos: int, spare: int, arrives: bool) -> None:
    """Up to the client's Maximum Packet Size a packet is sent, one byte more is dropped and counted [MQTT-3.1.2-24]."""
    size = size_of(message("a", qos, size=100))
    peer = Peer(version=5, maximum_packet_size=size + spare)

    assert peer.deliver("a", qos=qos, size=100) == (["a"] if arrives else [])
    assert peer.take_counters().drops == (None if arrives else {f"dropped_too_large_qos{qos}": 1})
    assert len(peer.window_ids()) == (1 if qos and arrives else 0)


def test_too_large_head_frees_the_way() -> None:
    """A head that is too large for the client is dropped, and the queue continues [MQTT-3.1.2-25]."""
    peer = Peer(Limits(max_inflight=1), 5, maximum_packet_size=50)
    peer.deliver("a", qos=1)
    peer.deliver("big", qos=1, size=100)
    peer.deliver("b", qos=1)

    assert texts(peer.puback(1)) == ["b"]


def test_too_large_for_the_new_connection() -> None:
    """FC-8: a delivery above the new Maximum Packet Size is not resent, and counts as completed."""
    peer = Peer(version=5)
    peer.deliver("big", qos=1, size=100)
    peer.deliver("a", qos=1)
    peer.deliver("huge", qos=2, size=100)
    peer.pubrec(3)
    peer.disconnect()

    sent = resent(peer.connect(5, maximum_packet_size=50))

    assert sent == [("dup", 2, "a"), ("rel", 3, "")]
    assert peer.window_ids() == [2, 3]
    counters = peer.take_counters()
    assert (counters.uncommon.resent_publish, counters.uncommon.resent_pubrel) == (1, 1)
    assert counters.drops is None  # they have been counted as sent


def test_too_large_makes_room_for_what_is_held_back() -> None:
    """FC-1, FC-8: a delivery that is dropped for its size takes no slot of a smaller window."""
    peer = Peer(version=5)
    peer.deliver("big", qos=1, size=100)
    peer.deliver("a", "b", qos=1)
    peer.disconnect()

    assert resent(peer.connect(5, receive_maximum=1, maximum_packet_size=50)) == [("dup", 2, "a")]
    assert resent(peer.puback(2)) == [("dup", 3, "b")]


def test_limit_is_the_connections() -> None:
    """A Maximum Packet Size applies to its own connection, not to the next."""
    peer = Peer(version=5, maximum_packet_size=50)
    assert peer.deliver("a", qos=1, size=100) == []
    peer.disconnect()
    peer.connect(5)

    assert peer.deliver("b", qos=1, size=100) == ["b"]


def test_decoder_agrees_with_the_limit() -> None:
    """A decoder with that limit accepts exactly the sizes of these tests."""
    publish = message("a", 1, size=100)
    decoder = Decoder(size_of(publish), version=5)
    outbox = Outbox()
    outbox.version = 5
    outbox.add_publish(publish, 1, 0)

    decoder.feed(taken(outbox))

    assert decoder.next_packet() is not None


def test_what_waits_for_no_commit_frees_nothing() -> None:
    """FC-27: pieces that need no commit go out behind those that wait for one, not instead of it."""
    outbox = Outbox()
    outbox.add_acknowledgement(PUBACK_HEAD, 1)
    outbox.wait_for(7)
    outbox.add_acknowledgement(PUBCOMP_HEAD, 2)
    outbox.wait_for(0)
    assert outbox.commit == 7
    outbox.take()
    assert outbox.commit == 0
