"""PUBACK, PUBREC, PUBREL and PUBCOMP as packets (sections 3.4 to 3.7)."""

import pytest

from protocol import properties as props
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.packet import Packet
from protocol.properties import Properties, decode_properties
from protocol.publish import Publish
from protocol.subscribe import Subscription
from tests.conformance import by_hand
from tests.conformance.configured import Configured
from tests.conformance.delivery import messages, payloads, subscribe, unique
from tests.conformance.sessions import take
from tests.support.process import Address
from tests.support.wire import WireClient, connected

PUBACK, PUBREC, PUBREL, PUBCOMP = 0x40, 0x50, 0x62, 0x70
NAMES = {PUBACK: "PUBACK", PUBREC: "PUBREC", PUBREL: "PUBREL", PUBCOMP: "PUBCOMP"}

ANSWERS_TO_PUBLISH = {0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99}
CODES = {
    PUBACK: ANSWERS_TO_PUBLISH,
    PUBREC: ANSWERS_TO_PUBLISH,
    PUBREL: {0x00, 0x92},
    PUBCOMP: {0x00, 0x92},
}
"""The reason codes that each of them may have."""

SMALL = 64
"""A Maximum Packet Size that leaves room for CONNACK and no more than a short Reason String."""


def answer(client: WireClient) -> tuple[int, int, int, Properties, int]:
    """Return the next packet, an acknowledgement: first byte, packet identifier, code, properties, size."""
    first, body = by_hand.receive(client)
    assert first in NAMES, f"{first:#04x}"
    packet_id = int.from_bytes(body[:2], "big")
    size = 1 + len(by_hand.variable_byte_integer(len(body))) + len(body)
    code = body[2] if len(body) > 2 else 0
    found: Properties | None = None
    if len(body) > 3:
        found, end = decode_properties(body, 3, len(body), first >> 4)
        assert end == len(body)
    return first, packet_id, code, found or {}, size


def publish(
    topic: str, qos: int, packet_id: int, payload: bytes = b"", properties: Properties | None = None
) -> Publish:
    """Return a PUBLISH."""
    return Publish(topic.encode(), payload, qos, packet_id=packet_id, properties=properties)


def provoke(client: WireClient, topic: str, qos: int) -> list[tuple[int, int, int, Properties, int]]:
    """Cause an acknowledgement of this QoS in every way that the standard has; returns the acknowledgements."""
    found = []
    plain: Properties = {props.USER_PROPERTY: [("key", "value")]}
    not_utf8: Properties = {props.PAYLOAD_FORMAT_INDICATOR: 1, props.USER_PROPERTY: [("key", "value")]}
    for number, sent in enumerate((None, plain, not_utf8), 1):
        client.send(publish(topic, qos, number, b"\xff\xfe", sent))
        found.append(answer(client))
        assert found[-1][:2] == (PUBACK if qos == 1 else PUBREC, number)
        if qos == 2 and found[-1][2] < 0x80:
            client.send(Pubrel(number))
            found.append(answer(client))
            assert found[-1][:2] == (PUBCOMP, number)
    return found


# -- in 3.1.1 they are four bytes


def test_four_bytes_in_3_1_1(address: Address) -> None:
    """To a 3.1.1 client each acknowledgement is a first byte, a length of two and the packet identifier."""
    topic = unique("bytes").encode()
    with connected(address, 4) as client, connected(address, 4) as publisher:
        client.send(Publish(topic, b"", 1, packet_id=258))
        assert by_hand.receive(client) == (PUBACK, b"\1\2")
        client.send(Publish(topic, b"", 2, packet_id=772))
        assert by_hand.receive(client) == (PUBREC, b"\3\4")
        client.send(Pubrel(772))
        assert by_hand.receive(client) == (PUBCOMP, b"\3\4")
        client.send(by_hand.subscribe(4, 1, [(topic, 2)]))
        assert by_hand.receive(client)[0] == by_hand.SUBACK
        publisher.publish(topic.decode(), b"", 2)
        first, body = by_hand.receive(client)
        assert first == 0x34
        packet_id = body[-2:]
        client.send(b"\x50\2" + packet_id)
        assert by_hand.receive(client) == (PUBREL, packet_id)


# -- reason codes


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("subscribed", [True, False])
def test_codes_of_answers_to_publish(address: Address, qos: int, subscribed: bool) -> None:
    """PUBACK, PUBREC and PUBCOMP have codes of their tables; 0x10 only if there is no matching subscription."""
    topic = unique("codes")
    with connected(address, 5) as client, connected(address, 5) as subscriber:
        if subscribed:
            subscribe(subscriber, Subscription(topic, 0))
        found = provoke(client, topic, qos)
    for first, _, code, _, _ in found:
        assert code in CODES[first], f"{NAMES[first]} {code:#04x}"
        assert code != 0x10 or not subscribed
    assert found[0][2] in ({0x00} if subscribed else {0x00, 0x10})


@pytest.mark.parametrize("qos", [1, 2])
def test_code_of_a_refused_publish(configured: Configured, qos: int) -> None:
    """A PUBLISH that is not permitted is answered with 0x87, Not authorized."""
    topic = unique("denied")
    address = configured(authorization={"deny_publish": [f"{topic}/#"]})
    with connected(address, 5) as client:
        for packet_id in (1, 1, 2):
            client.send(publish(f"{topic}/deep", qos, packet_id))
            first, answered, code, _, _ = answer(client)
            assert (first, answered, code) == (PUBACK if qos == 1 else PUBREC, packet_id, 0x87)


@pytest.mark.parametrize("qos", [1, 2])
def test_code_of_a_wrong_payload(configured: Configured, qos: int) -> None:
    """A payload that is declared as UTF-8 and is not is refused with 0x99 and not delivered, where that is checked."""
    topic = unique("format")
    for check in (True, False):
        address = configured(mqtt={"check_payload_format": check})
        with connected(address, 5) as client, connected(address, 5) as subscriber:
            subscribe(subscriber, Subscription(topic, 0))
            for payload, good in ((b"\xff", False), (b"a\xc0\xaf", False), ("ä🌡".encode(), True), (b"", True)):
                client.send(publish(topic, qos, 1, payload, {props.PAYLOAD_FORMAT_INDICATOR: 1}))
                code = answer(client)[2]
                assert code == (0x00 if good or not check else 0x99)
                if qos == 2 and code == 0:
                    client.send(Pubrel(1))
                    assert answer(client)[0] == PUBCOMP
            expected = [b"\xff", b"a\xc0\xaf"] if not check else []
            assert payloads(messages(subscriber, client)) == [*expected, "ä🌡".encode(), b""]


@pytest.mark.parametrize("code", [0x00, 0x10])
def test_code_of_pubrel(address: Address, code: int) -> None:
    """The PUBREL after a PUBREC of success has code 0x00."""
    topic = unique("codes")
    with connected(address, 5) as client, connected(address, 5) as publisher:
        subscribe(client, Subscription(topic, 2))
        publisher.publish(topic, b"", 2)
        (message,) = take(client, 1)
        client.send(Pubrec(message.packet_id, code))
        assert answer(client)[:3] == (PUBREL, message.packet_id, 0x00)


def test_code_of_an_unknown_pubrec(address: Address) -> None:
    """If a PUBREC for an unknown packet identifier is answered with PUBREL, its code is 0x92 or left out."""
    with connected(address, 5) as client:
        client.send(Pubrec(4711), by_hand.PINGREQ)
        first, body = by_hand.receive(client)
        if first == PUBREL:
            assert body[:2] == (4711).to_bytes(2, "big")
            assert body[2:3] in (b"", b"\x00", b"\x92")
            first, body = by_hand.receive(client)
        assert first == by_hand.PINGRESP[0]


def test_code_of_an_unknown_pubrel(address: Address) -> None:
    """PUBCOMP for an unknown packet identifier has code 0x92 or none."""
    with connected(address, 5) as client:
        client.send(Pubrel(4711))
        first, packet_id, code, _, _ = answer(client)
        assert (first, packet_id) == (PUBCOMP, 4711)
        assert code in CODES[PUBCOMP]


def test_unknown_pubrel_in_3_1_1(address: Address) -> None:
    """A 3.1.1 PUBREL is answered with PUBCOMP, whether its packet identifier is known or not."""
    with connected(address, 4) as client:
        client.send(Pubrel(4711))
        assert by_hand.receive(client) == (PUBCOMP, (4711).to_bytes(2, "big"))


# -- the client's Maximum Packet Size


@pytest.mark.parametrize("qos", [1, 2])
def test_answers_to_publish_keep_to_the_maximum_packet_size(address: Address, qos: int) -> None:
    """No PUBACK, PUBREC or PUBCOMP is larger than the client's Maximum Packet Size; none is left out for that."""
    with connected(address, 5, properties={props.MAXIMUM_PACKET_SIZE: SMALL}) as client:
        found = provoke(client, unique("size") + "/level" * 20, qos)
        client.send(Pubrel(4711))
        found.append(answer(client))
    assert max(size for *_, size in found) <= SMALL


def test_refusals_keep_to_the_maximum_packet_size(configured: Configured) -> None:
    """A refusal, which may have a Reason String, is not larger than the client's Maximum Packet Size."""
    topic = unique("denied") + "/level" * 20
    address = configured(authorization={"deny_publish": [topic]})
    with connected(address, 5, properties={props.MAXIMUM_PACKET_SIZE: SMALL}) as client:
        for qos, first in ((1, PUBACK), (2, PUBREC)):
            client.send(publish(topic, qos, 1))
            found = answer(client)
            assert found[:3] == (first, 1, 0x87)
            assert found[4] <= SMALL


def test_pubrel_keeps_to_the_maximum_packet_size(address: Address) -> None:
    """No PUBREL is larger than the client's Maximum Packet Size, whichever PUBREC it answers."""
    topic = unique("size")
    with (
        connected(address, 5, properties={props.MAXIMUM_PACKET_SIZE: SMALL}) as client,
        connected(address, 5) as publisher,
    ):
        subscribe(client, Subscription(topic, 2))
        publisher.publish(topic, b"", 2, properties={props.USER_PROPERTY: [("k", "v")]})
        (message,) = take(client, 1)
        client.send(Pubrec(message.packet_id, 0, {props.REASON_STRING: "x" * 200, props.USER_PROPERTY: [("k", "v")]}))
        first, packet_id, _, _, size = answer(client)
        assert (first, packet_id) == (PUBREL, message.packet_id)
        assert size <= SMALL
        client.send(Pubrec(4711), by_hand.PINGREQ)
        while True:
            first, body = by_hand.receive(client)
            if first == by_hand.PINGRESP[0]:
                break
            assert 2 + len(body) <= SMALL


# -- what clients must send


@pytest.mark.parametrize("flags", [flags for flags in range(16) if flags != 2])
def test_wrong_flags_of_pubrel(address: Address, version: int, flags: int) -> None:
    """PUBREL with flags other than 0010 closes the connection."""
    with connected(address, version) as client:
        client.send(Publish(unique("flags").encode(), b"", 2, packet_id=1))
        client.expect(Pubrec)
        client.send(bytes((0x60 | flags, 2, 0, 1)))
        assert not isinstance(client.expect_close(), Pubcomp)


@pytest.mark.parametrize("flags", [1, 2, 4, 8, 15])
@pytest.mark.parametrize("first", [PUBACK, PUBREC, PUBCOMP], ids=NAMES.get)
def test_wrong_flags(address: Address, version: int, first: int, flags: int) -> None:
    """PUBACK, PUBREC and PUBCOMP with flags other than 0000 close the connection [MQTT-2.2.2-2] [MQTT5 2.1.3]."""
    with connected(address, version) as client:
        client.send(bytes((first | flags, 2, 0, 1)))
        assert not isinstance(client.expect_close(), Pubrel)


@pytest.mark.parametrize("body", [b"", b"\1", b"\0\0"], ids=["empty", "half an id", "id 0"])
@pytest.mark.parametrize("first", NAMES, ids=NAMES.get)
def test_bad_packet_identifier(address: Address, version: int, first: int, body: bytes) -> None:
    """An acknowledgement without a packet identifier, or with 0, closes the connection."""
    with connected(address, version) as client:
        client.send(by_hand.packet(first, body))
        last: Packet | None = client.expect_close()
        assert not isinstance(last, (Puback, Pubrec, Pubrel, Pubcomp))


@pytest.mark.parametrize("rest", [b"\0\0", b"\0", b"\x10"])
@pytest.mark.parametrize("first", NAMES, ids=NAMES.get)
def test_longer_than_3_1_1_knows(address: Address, first: int, rest: bytes) -> None:
    """In 3.1.1 the remaining length is two: bytes after the packet identifier are malformed."""
    with connected(address, 4) as client:
        client.send(by_hand.packet(first, b"\0\1" + rest))
        assert not isinstance(client.expect_close(), (Pubrel, Pubcomp))


@pytest.mark.parametrize("rest", [b"", b"\0", b"\0\0", b"\0\5\x1f\0\2ok", b"\0\7\x26\0\1k\0\1v"])
@pytest.mark.parametrize("qos", [1, 2])
def test_every_form_is_taken(address: Address, qos: int, rest: bytes) -> None:
    """MQTT 5 clients may leave out code and properties of a success; such packets are accepted, and those with both."""
    topic = unique("form")
    with connected(address, 5, properties={props.RECEIVE_MAXIMUM: 1}) as client, connected(address, 5) as publisher:
        subscribe(client, Subscription(topic, qos))
        for payload in (b"first", b"second"):  # the second does not come before the first is acknowledged
            publisher.publish(topic, payload, qos)
        (message,) = take(client, 1)
        body = int(message.packet_id).to_bytes(2, "big") + rest
        if qos == 1:
            client.send(by_hand.packet(PUBACK, body))
        else:
            client.send(by_hand.packet(PUBREC, body))
            assert client.expect(Pubrel).packet_id == message.packet_id
            client.send(by_hand.packet(PUBCOMP, body))
        assert client.expect(Publish).payload == b"second"
        publisher.send(Publish(topic.encode(), b"", 2, packet_id=1))
        publisher.expect(Pubrec)
        publisher.send(by_hand.packet(PUBREL, b"\0\1" + rest))
        assert publisher.expect(Pubcomp).reason_code == 0
