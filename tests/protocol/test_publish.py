"""PUBLISH: its outgoing forms are correct, encoded when needed, shared, and slices of the received bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.properties import CONTENT_TYPE, MESSAGE_EXPIRY_INTERVAL, SUBSCRIPTION_IDENTIFIER, TOPIC_ALIAS, Properties
from protocol.publish import Publish, encode_publish, with_dup
from protocol.publish_encoder import ALIAS_PROPERTY, encode_identifiers
from tests.support.protocol import strategies
from tests.support.protocol.packets import content, decode_one, plain

BIG = bytes(range(256)) * 64


def receive(packet: Publish, version: int) -> Publish:
    """Return the packet as the broker decodes it."""
    received = decode_one(packet.encode(version), version)
    assert isinstance(received, Publish)
    return received


def outgoing(packet: Publish, version: int, packet_id: int = 77) -> bytes:
    """Encode as a session does."""
    if version == 5:
        frame = packet.frame5 if packet.frame5 is not None else packet.build5()
        rest = packet.rest5
    else:
        frame = packet.frame4 if packet.frame4 is not None else packet.build4()
        rest = packet.rest4
    if packet.qos == 0:
        return frame
    assert rest is not None
    return frame + packet_id.to_bytes(2, "big") + rest


def passed_on(properties: Properties | None) -> Properties | None:
    """Return the properties that subscribers get."""
    if properties is None:
        return None
    own = (TOPIC_ALIAS, SUBSCRIPTION_IDENTIFIER)
    return {number: value for number, value in properties.items() if number not in own}


@given(st.data())
def test_every_outgoing_form(data: st.DataObject) -> None:
    """Any PUBLISH is encoded correctly at every QoS, RETAIN and version, in any order of the forms."""
    version = data.draw(st.sampled_from([4, 5]))
    packet = data.draw(strategies.publishes(version))
    received = receive(packet, version)
    if not received.topic:
        received.topic = b"resolved"  # as the session does for an alias
    forms = [(qos, retain, out) for qos in range(3) for retain in (False, True) for out in (4, 5)]
    for qos, retain, out in data.draw(st.permutations(forms)):
        sent = decode_one(outgoing(received.at(qos, retain), out), out)
        assert isinstance(sent, Publish)
        assert (sent.topic, sent.payload) == (received.topic, packet.payload)
        assert (sent.qos, sent.retain, sent.dup) == (qos, retain, False)
        assert plain(sent.properties) == plain(passed_on(packet.properties) if out == 5 else None)


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("properties", [None, {38: [("k", "v")], 1: 1}])
def test_qos_0_frame_is_what_came_in(version: int, properties: Properties | None) -> None:
    """A QoS 0 PUBLISH is sent as the received bytes, user properties included; no other form is encoded."""
    if version == 4:
        properties = None
    packet = Publish(b"a/b", b"payload", 0, False, properties)
    received = receive(packet, version)
    frames = (received.frame4, received.frame5) if version == 4 else (received.frame5, received.frame4)
    assert frames == (packet.encode(version), None)
    assert (received.rest4, received.rest5) == (None, None)


@pytest.mark.parametrize("dup", [False, True])
@pytest.mark.parametrize("qos", [1, 2])
def test_qos_1_and_2_frames_are_what_came_in(qos: int, dup: bool) -> None:
    """What is before and after the packet identifier is sent as it was received, except DUP."""
    packet = Publish(b"a/b", BIG, qos, False, {38: [("k", "v")]}, 5, dup)
    clear = Publish(b"a/b", BIG, qos, False, {38: [("k", "v")]}, 5).encode(5)
    received = receive(packet, 5)
    assert received.dup is dup
    assert received.frame5 is not None
    assert received.rest5 is not None
    assert received.frame5 + b"\0\x05" + received.rest5 == clear
    assert received.frame4 is None
    assert with_dup(received.frame5) + b"\0\x05" + received.rest5 == with_dup(clear)
    assert with_dup(clear) == Publish(b"a/b", BIG, qos, False, {38: [("k", "v")]}, 5, True).encode(5)


@pytest.mark.parametrize("properties", [{TOPIC_ALIAS: 3}, {SUBSCRIPTION_IDENTIFIER: [4]}])
@pytest.mark.parametrize("qos", [0, 1])
def test_what_belongs_to_one_connection_is_not_passed_on(properties: Properties, qos: int) -> None:
    """Aliases and subscription identifiers are in `properties` and not in the outgoing form."""
    received = receive(Publish(b"a", b"payload", qos, False, dict(properties), qos), 5)
    assert received.properties == properties
    assert received.frame5 is None
    assert received.rest5 is None
    assert b"payload" in outgoing(received, 5)
    sent = decode_one(outgoing(received, 5), 5)
    assert content(sent) == content(Publish(b"a", b"payload", qos, packet_id=77 if qos else 0))


def test_variants_are_shared() -> None:
    """All deliveries at the same QoS and RETAIN are one object; with those of the PUBLISH it is the PUBLISH itself."""
    packet = Publish(b"a", BIG, 2, True)
    assert packet.at(2, True) is packet
    lower = packet.at(1, False)
    assert packet.at(0, False) is not lower
    assert packet.at(1, False) is lower
    assert lower.at(1, False) is lower
    assert lower.payload is packet.payload is BIG
    assert (lower.qos, lower.retain, lower.size) == (1, False, len(BIG))


def test_variants_carry_what_the_broker_has_set() -> None:
    """Deliveries have the message's times."""
    packet = Publish(b"a", b"", 1)
    packet.received_at = 5
    packet.expires_at = 6
    variant = packet.at(0, False)
    assert (variant.received_at, variant.expires_at) == (5, 6)


def test_rest_is_shared_between_qos_1_and_2() -> None:
    """A QoS 2 PUBLISH shares its payload with its delivery at QoS 1: only the part before the packet id differs."""
    received = receive(Publish(b"a", BIG, 2, packet_id=1), 4)
    lower = received.at(1, False)
    assert lower.rest4 is received.rest4
    assert lower.frame4 == b"\x32" + (received.frame4 or b"")[1:]


@given(strategies.publishes(5), st.booleans())
def test_deliveries_of_their_own(packet: Publish, aliased: bool) -> None:
    """A delivery can have its remaining expiry interval, subscription identifiers and an alias."""
    received = receive(packet, 5)
    received.topic = received.topic or b"resolved"
    more = encode_identifiers([7, 8]) + ALIAS_PROPERTY + b"\0\2"
    before, block, payload = received.delivery(b"" if aliased else received.topic, more, 30)
    middle = b"\0\x09" if received.qos else b""
    sent = decode_one(before + middle + block + payload, 5)
    assert isinstance(sent, Publish)
    assert sent.topic == (b"" if aliased else received.topic)
    expected = dict(packet.properties or {})
    had_expiry = packet.properties is not None
    received_expiry = expected.get(MESSAGE_EXPIRY_INTERVAL, 30)
    assert isinstance(received_expiry, int)
    expected.update({SUBSCRIPTION_IDENTIFIER: [7, 8], TOPIC_ALIAS: 2})
    if had_expiry:
        expected[MESSAGE_EXPIRY_INTERVAL] = min(30, received_expiry)
    assert plain(sent.properties) == plain(expected)
    assert sent.payload == packet.payload


@pytest.mark.parametrize(("received", "left", "sent"), [(60, 30, 30), (60, 61, 60), (0xFFFFFFFF, 2**32, 0xFFFFFFFF)])
def test_waiting_adds_nothing_to_an_expiry(received: int, left: int, sent: int) -> None:
    """[MQTT-3.3.2-6] The remaining Message Expiry Interval never exceeds the original, even if a clock was set back."""
    packet = receive(Publish(b"a", b"", 0, properties={MESSAGE_EXPIRY_INTERVAL: received}), 5)
    again = decode_one(b"".join(packet.delivery(b"a", b"", left)), 5)
    assert isinstance(again, Publish)
    assert again.properties == {MESSAGE_EXPIRY_INTERVAL: sent}


@given(strategies.publishes(5), st.sampled_from([b"", encode_identifiers([7, 268_435_455])]))
def test_identified(packet: Publish, identifiers: bytes) -> None:
    """A subscriber's identifiers are in its own MQTT 5 form, and in no other."""
    received = receive(packet, 5)
    received.topic = received.topic or b"resolved"
    own = received.identified(identifiers)
    for message, added in ((own, {SUBSCRIPTION_IDENTIFIER: [7, 268_435_455]} if identifiers else {}), (received, {})):
        sent = decode_one(outgoing(message, 5), 5)
        assert isinstance(sent, Publish)
        assert plain(sent.properties or {}) == plain((passed_on(packet.properties) or {}) | added)
        assert (sent.topic, sent.payload) == (received.topic, packet.payload)
        assert (sent.qos, sent.retain) == (packet.qos, packet.retain)
    assert outgoing(own, 4) == outgoing(received, 4)


@given(strategies.publishes(5), st.sampled_from([4, 5]))
def test_sent_again(packet: Publish, version: int) -> None:
    """A resent PUBLISH has DUP, the same packet identifier and the remaining expiry interval."""
    if packet.qos == 0:
        packet.qos, packet.packet_id = 1, 1
    packet.dup = False
    received = receive(packet, 5)
    received.topic = received.topic or b"resolved"
    sent = decode_one(received.identified(encode_identifiers([3])).encode_resent(version, 9, -1), version)
    assert isinstance(sent, Publish)
    assert (sent.dup, sent.packet_id, sent.qos, sent.payload) == (True, 9, packet.qos, packet.payload)
    if version == 5:
        assert sent.properties is not None
        assert sent.properties[SUBSCRIPTION_IDENTIFIER] == [3]


def test_wrong_publishes_are_not_encoded() -> None:
    """QoS 3, DUP at QoS 0, a missing packet identifier and too long topics are refused when encoded."""
    for qos, dup, packet_id in ((3, False, 1), (-1, False, 0), (0, True, 0), (1, False, 0), (1, False, 65_536)):
        with pytest.raises(ValueError, match="PUBLISH"):
            encode_publish(b"a", b"", qos, False, dup, packet_id, None, 4)
    with pytest.raises(ValueError, match="65535 bytes"):
        Publish(bytes(65_536), b"").build4()


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_trimmed(version: int, qos: int) -> None:
    """A message that keeps only its payload is encoded as before, at every QoS."""
    packet = receive(Publish(b"a/b", b"payload", qos, packet_id=1 if qos else 0), version)
    packet.trim()
    assert packet.payload == b"payload"
    for to in (0, 1, 2):
        variant = packet.at(to, False)
        assert variant.is_copy_of(packet)
        plainly = Publish(b"a/b", b"payload", to, packet_id=77 if to else 0)
        assert outgoing(variant, version) == plainly.encode(version)


def test_size_is_known_without_slicing() -> None:
    """`size` is the payload's length, for packets of any size."""
    for length in (0, 1, 100, 10_000):
        for version in (4, 5):
            for qos in (0, 1):
                received = receive(Publish(b"topic", bytes(length), qos, packet_id=qos), version)
                assert received.size == len(received.payload) == length


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("qos", [1, 2])
def test_without_frames(version: int, qos: int) -> None:
    """What waits keeps its payload once, and what is sent of it later is the same."""
    properties: Properties | None = {CONTENT_TYPE: "text"} if version == 5 else None
    received = receive(Publish(b"a/b", b"payload", qos, False, properties, packet_id=5), version)
    own = received.copy()
    own.forget_frames()
    assert (own.frame4, own.frame5, own.rest5) == (None, None, None)
    assert own.payload is own.rest4
    assert (own.build4(), own.rest4) == (received.build4(), received.rest4)
    assert (own.build5(), own.rest5) == (received.build5(), received.rest5)
