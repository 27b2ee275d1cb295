"""The data representations of section 1.5: values at and just beyond their bounds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol import primitives
from protocol.errors import MalformedPacket, MQTTError, ProtocolError
from tests.support.protocol.strategies import texts

# The bounds that table 1-1 of MQTT 5 gives for one to four bytes.
BOUNDS = [
    (0, "00"),
    (127, "7f"),
    (128, "8001"),
    (16_383, "ff7f"),
    (16_384, "808001"),
    (2_097_151, "ffff7f"),
    (2_097_152, "80808001"),
    (268_435_455, "ffffff7f"),
]


@pytest.mark.parametrize(("value", "data"), BOUNDS)
def test_variable_byte_integer_bounds(value: int, data: str) -> None:
    """The smallest and largest value of each length are encoded as in the standard's table."""
    raw = bytes.fromhex(data)
    assert primitives.encode_variable_byte_integer(value) == raw
    assert primitives.read_variable_byte_integer(raw, 0, len(raw), "test") == (value, len(raw))


@given(st.integers(0, primitives.MAXIMUM_VARIABLE_BYTE_INTEGER))
def test_variable_byte_integer(value: int) -> None:
    """Decoding an encoded value gives the value, with other bytes around it."""
    raw = b"\xff" + primitives.encode_variable_byte_integer(value) + b"\xff"
    assert primitives.read_variable_byte_integer(raw, 1, len(raw), "test") == (value, len(raw) - 1)


@pytest.mark.parametrize("data", ["", "80", "ffffff", "8000", "808000", "80808000", "ffffffff", "ffffffff7f"])
def test_variable_byte_integer_refused(data: str) -> None:
    """Incomplete, too long and padded encodings are malformed [MQTT-1.5.5-1]."""
    raw = bytes.fromhex(data)
    with pytest.raises(MalformedPacket, match="test"):
        primitives.read_variable_byte_integer(raw, 0, len(raw), "test")


@given(st.integers(0, 65_535), st.integers(0, 4_294_967_295))
def test_integers(two: int, four: int) -> None:
    """Two and four byte integers are encoded with the most significant byte first."""
    raw = primitives.encode_uint16(two) + primitives.encode_uint32(four)
    assert primitives.read_uint16(raw, 0, 6, "test") == two == int.from_bytes(raw[:2], "big")
    assert primitives.read_uint32(raw, 2, 6, "test") == four == int.from_bytes(raw[2:], "big")


def test_reading_stops_at_the_end_of_the_packet() -> None:
    """No reader uses bytes after `end`, although there are some."""
    raw = b"\x00\x04abcdefgh"
    for read in (primitives.read_uint32, primitives.read_uint16, primitives.read_byte):
        with pytest.raises(MalformedPacket, match=r"test: needs \d bytes, but only 0 are left"):
            read(raw, 3, 3, "test")
    with pytest.raises(MalformedPacket, match="says 4 bytes, but only 3 are left"):
        primitives.read_binary(raw, 0, 5, "test")
    assert primitives.read_binary(raw, 0, 6, "test") == (b"abcd", 6)


@given(texts)
def test_strings(text: str) -> None:
    """Decoding an encoded string gives the string, also with a byte order mark [MQTT-1.5.4-3]."""
    raw = primitives.encode_string("\ufeff" + text)
    assert primitives.read_string(raw, 0, len(raw), "test") == ("\ufeff" + text, len(raw))


@given(st.binary(max_size=12))
def test_utf8_is_strict(raw: bytes) -> None:
    """Exactly those bytes are accepted that Python encodes as UTF-8 text without U+0000."""
    try:
        text = primitives.decode_utf8(raw, "test")
    except MQTTError:
        assert b"\0" in raw or raw.decode("utf-8", "replace").encode() != raw
    else:
        assert text.encode() == raw
        assert "\0" not in text


@pytest.mark.parametrize("raw", [b"\xc0\x80", b"\xe0\x80\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xff", b"\xc3"])
def test_utf8_refused(raw: bytes) -> None:
    """Overlong forms, surrogates, code points above U+10FFFF and incomplete characters are malformed."""
    with pytest.raises(MalformedPacket, match="not well-formed UTF-8"):
        primitives.decode_utf8(raw, "test")


def test_packet_id_0() -> None:
    """Packet identifier 0 is a protocol error when decoded and a ValueError when encoded."""
    with pytest.raises(ProtocolError):
        primitives.read_packet_id(b"\0\0", 0, 2, "test")
    with pytest.raises(ValueError, match="1 to 65535, not 0"):
        primitives.encode_packet_id(0, "test")


def test_what_does_not_fit_is_not_encoded() -> None:
    """Values out of range are refused when they are encoded."""
    for value in (-1, 65_536):
        with pytest.raises(ValueError, match="two byte"):
            primitives.encode_uint16(value)
    for value in (-1, 4_294_967_296):
        with pytest.raises(ValueError, match="four byte"):
            primitives.encode_uint32(value)
    for value in (-1, 268_435_456):
        with pytest.raises(ValueError, match="variable byte"):
            primitives.encode_variable_byte_integer(value)
    with pytest.raises(ValueError, match="65535 bytes"):
        primitives.encode_binary(bytes(65_536))
    with pytest.raises(ValueError, match=r"U\+0000"):
        primitives.encode_string("a\0")
    with pytest.raises(UnicodeEncodeError):
        primitives.encode_string("\ud800")
