"""CONNECT: cases that the standard leaves open, and the answers to other versions."""

import pytest

from protocol.connect import Connect, Will, decode_connect, read_protocol_level
from protocol.decoder import Decoder
from protocol.errors import MQTTError, UnsupportedProtocolVersion
from tests.support.protocol.packets import decode_one

MQTT = b"\0\x04MQTT"


def test_bytes_of_the_standard() -> None:
    """The variable header is that of the standard's figure 3-6, followed by a will and credentials."""
    packet = Connect("", True, 10, "u", b"p", Will(b"t", b"w", 1), version=4)
    expected = "1018 00044d515454 04 ce 000a 0000 000174 000177 000175 000170"
    assert packet.encode(4) == bytes.fromhex(expected)


def test_empty_client_identifier_is_for_the_broker_to_judge() -> None:
    """An empty client identifier without Clean Session can be decoded: the broker decides about it."""
    packet = decode_one(Connect("", False, version=4).encode(4), 0)
    assert isinstance(packet, Connect)
    assert (packet.client_id, packet.clean_start) == ("", False)


def test_password_without_user_name_is_allowed_in_5() -> None:
    """MQTT 5 allows a password without a user name; 3.1.1 does not, also when encoding."""
    packet = decode_one(Connect("me", password=b"token").encode(5), 0)
    assert isinstance(packet, Connect)
    assert (packet.username, packet.password) == (None, b"token")
    with pytest.raises(ValueError, match="no password without a user name"):
        Connect("me", password=b"token").encode(4)


@pytest.mark.parametrize(
    ("head", "level", "answer"),
    [
        (b"\0\x06MQIsdp\x04", 4, b"\x20\x02\x00\x01"),
        (b"\0\x06MQIsdp\x84", 0x84, b"\x20\x02\x00\x01"),
        (b"\0\x06MQIsdp\x85", 0x85, b"\x20\x02\x00\x01"),
        (MQTT + b"\x03", 3, b"\x20\x02\x00\x01"),
        (MQTT + b"\x00", 0, b"\x20\x02\x00\x01"),
        (MQTT + b"\x83", 0x83, b"\x20\x02\x00\x01"),
        (MQTT + b"\x06", 6, b"\x20\x03\x00\x84\x00"),
        (MQTT + b"\x85", 0x85, b"\x20\x03\x00\x84\x00"),
        (b"\0\x04HTTP\x04", 0, b""),
    ],
)
def test_answer_to_other_versions(head: bytes, level: int, answer: bytes) -> None:
    """The error has a CONNACK that such a client understands [MQTT-3.1.2-2], and none for other protocols."""
    with pytest.raises(UnsupportedProtocolVersion) as caught:
        read_protocol_level(head, 0, len(head))
    assert caught.value.reason_code == 0x84
    assert (caught.value.level, caught.value.answer) == (level, answer)


def test_decoding_stands_alone() -> None:
    """A CONNECT can be decoded without a decoder, from any position in a buffer."""
    data = b"xx" + Connect("me", version=5).encode(5) + b"yy"
    assert decode_connect(data, 4, len(data) - 2).client_id == "me"


def test_secrets_stay_out_of_logs() -> None:
    """The text form of a CONNECT does not show the password."""
    assert "secret" not in repr(Connect("me", username="u", password=b"secret"))
    assert "client_id='me'" in repr(Connect("me"))


def test_level_of_a_bridge() -> None:
    """Bit 7 of level 4 marks a bridge; the rest of its CONNECT is that of 3.1.1."""
    data = Connect("me", version=4, bridge=True).encode(4)
    assert data[2:9] == MQTT + b"\x84"
    decoder = Decoder()
    decoder.feed(data)
    packet = decoder.next_packet()
    assert isinstance(packet, Connect)
    assert (packet.bridge, packet.version, decoder.version) == (True, 4, 4)
    assert not decode_connect(b"xx" + Connect("me").encode(5)[2:], 2, len(Connect("me").encode(5))).bridge


def test_client_id_of_what_cannot_be_read() -> None:
    """The error of a CONNECT that is malformed after its client id has the client id."""
    for will, expected in ((Will(b"a/+", b""), "me"), (Will(b"", b""), "me")):
        with pytest.raises(MQTTError) as caught:
            decode_one(Connect("me", will=will).encode(5), 0)
        assert caught.value.client_id == expected
    with pytest.raises(MQTTError) as caught:
        decode_one(Connect("me").encode(5).replace(b"\0\x02me", b"\0\x02\xff\xff"), 0)
    assert caught.value.client_id == ""
