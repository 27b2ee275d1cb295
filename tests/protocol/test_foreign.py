"""The first bytes of other protocols are reported as that protocol."""

import pytest

from protocol.decoder import Decoder
from protocol.errors import MQTTError

CLIENT_HELLO = bytes.fromhex("16030100c8010000c403036b")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (CLIENT_HELLO, "TLS"),
        (CLIENT_HELLO + bytes(300), "TLS"),
        (b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n", "HTTP"),
        (b"GET /" + b"x" * 500, "HTTP"),
        (b"POST /", "HTTP"),
        (b"PUT /x", "HTTP"),
        (b"HEAD /", "HTTP"),
        (b"OPTIONS *", "HTTP"),
        (b"DELETE /", "HTTP"),
        (b"PATCH /", "HTTP"),
        (b"CONNECT a:443 HTTP/1.1", "HTTP"),
        (b"TRACE /", "HTTP"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP"),
        (b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n", "PROXY.* proxy_protocol"),
        (b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c", "PROXY.* proxy_protocol"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "SSH"),
    ],
)
def test_other_protocols(data: bytes, words: str) -> None:
    """The error names the protocol, and not the MQTT packet whose first byte is the same."""
    decoder = Decoder(1_048_576)
    decoder.feed(data)
    with pytest.raises(MQTTError, match=words) as caught:
        decoder.next_packet()
    assert "fixed header" not in caught.value.message
    assert str(caught.value) == caught.value.message


@pytest.mark.parametrize("data", [b"\x40\x02\0\x01", b"\x50\x02\0\x01", b"\x16\x02\0\x01"])
def test_mqtt_that_is_wrong(data: bytes) -> None:
    """Bytes that are no known protocol are reported as malformed MQTT."""
    decoder = Decoder()
    decoder.feed(data)
    with pytest.raises(MQTTError, match=r"PUBACK|PUBREC|CONNECT fixed header"):
        decoder.next_packet()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (CLIENT_HELLO, "TLS"),
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (b"PROXY TCP4", "PROXY"),
        (b"SSH-2.0", "SSH"),
        (b"PRI * HTTP/2.0", "HTTP"),
    ],
)
def test_byte_by_byte(data: bytes, words: str) -> None:
    """The same if the bytes arrive one by one; a complete request is refused without waiting for more."""
    decoder = Decoder(1_048_576)

    def feed() -> None:
        for byte in data:
            decoder.feed(bytes([byte]))
            assert decoder.next_packet() is None

    with pytest.raises(MQTTError, match=words):
        feed()


@pytest.mark.parametrize("data", [b"GEX", b"\r\n\r\n", b"P\x02"])
def test_not_waited_for(data: bytes) -> None:
    """Bytes that cannot become another protocol's first bytes are refused at once."""
    decoder = Decoder()
    decoder.feed(data)
    with pytest.raises(MQTTError, match=r"fixed header|PUBREC"):
        decoder.next_packet()


def test_only_at_the_beginning() -> None:
    """After a CONNECT the same bytes are malformed MQTT."""
    decoder = Decoder(version=4)
    decoder.feed(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(MQTTError, match="PUBACK fixed header"):
        decoder.next_packet()
