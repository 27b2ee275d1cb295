"""UTF-8 strings in packets (section 1.5)."""

import pytest

from protocol.connack import Connack
from protocol.publish import Publish
from protocol.suback import Suback
from tests.conformance import by_hand
from tests.conformance.by_hand import string
from tests.conformance.connecting import CLEAN, USER_NAME, WILL, block, connect, malformed, will
from tests.conformance.delivery import messages, payloads, suback, unique
from tests.support.process import Address
from tests.support.wire import WireClient, connected

ILL_FORMED = (
    b"\xff",
    b"a\x80",  # a continuation byte without a first byte
    b"\xc3",  # a first byte without a continuation byte
    b"\xc0\xaf",  # more bytes than needed
    b"\xe0\x80\xaf",
    b"\xed\xa0\x80",  # U+D800, a surrogate
    b"\xed\xbf\xbf",  # U+DFFF
    b"\xf4\x90\x80\x80",  # beyond U+10FFFF
)
NULL = b"a\0b"

USER_PROPERTY = b"\x26"
CONTENT_TYPE = b"\x03"

bad_strings = pytest.mark.parametrize("bad", [*ILL_FORMED, NULL], ids=[bad.hex() for bad in (*ILL_FORMED, NULL)])


# -- in CONNECT


@bad_strings
def test_client_id(address: Address, version: int, bad: bytes) -> None:
    """A client id that is not valid UTF-8 closes the connection."""
    with WireClient(address, version) as client:
        malformed(client, connect(version, bad))


@bad_strings
def test_will_topic(address: Address, version: int, bad: bytes) -> None:
    """A will topic that is not valid UTF-8 closes the connection."""
    with WireClient(address, version) as client:
        malformed(client, connect(version, unique("c"), will(version, bad), flags=CLEAN | WILL))


@bad_strings
def test_user_name(address: Address, version: int, bad: bytes) -> None:
    """A user name that is not valid UTF-8 closes the connection."""
    with WireClient(address, version) as client:
        malformed(client, connect(version, unique("c"), string(bad), flags=CLEAN | USER_NAME))


# -- in other packets


@bad_strings
def test_topic_name(address: Address, version: int, bad: bytes) -> None:
    """A topic name that is not valid UTF-8 closes the connection."""
    with connected(address, version) as client:
        client.send(by_hand.publish(version, bad))
        client.expect_close()


@bad_strings
def test_topic_filter(address: Address, version: int, bad: bytes) -> None:
    """A topic filter that is not valid UTF-8 closes the connection."""
    with connected(address, version) as client:
        client.send(by_hand.subscribe(version, 1, [(bad, 0)]))
        assert not isinstance(client.expect_close(), Suback)


@bad_strings
@pytest.mark.parametrize("pair", ["key", "value"])
def test_user_property(address: Address, pair: str, bad: bytes) -> None:
    """Name and value of a User Property must both be valid UTF-8."""
    key, value = (bad, b"value") if pair == "key" else (b"key", bad)
    properties = block(USER_PROPERTY + string(key) + string(value))
    with connected(address, 5) as client:
        client.send(by_hand.packet(0x30, string(unique("t")) + properties + b"payload"))
        client.expect_close()


@bad_strings
def test_property(address: Address, bad: bytes) -> None:
    """A property that is a string must be valid UTF-8."""
    with connected(address, 5) as client:
        client.send(by_hand.packet(0x30, string(unique("t")) + block(CONTENT_TYPE + string(bad))))
        client.expect_close()


@pytest.mark.parametrize("text", ["é", "ß", "€", "한", "🌡", "\u07ff\u0800\ud7ff\ue000\U00010000\U0010fffd"])
def test_well_formed(address: Address, version: int, text: str) -> None:
    """Characters of one to four bytes are accepted in every string, and are delivered unaltered."""
    topic = unique(text)
    with WireClient(address, version) as client:
        client.send(connect(version, unique(text)))
        assert client.expect(Connack).reason_code == 0
        client.send(by_hand.subscribe(version, 1, [(topic, 0)]), by_hand.publish(version, topic, text.encode()))
        answer, early = suback(client)
        assert answer.reason_codes == [0]
        assert (early or [client.expect(Publish)])[0].topic == topic.encode()


# -- U+FEFF


def test_byte_order_mark(address: Address, version: int) -> None:
    """EF BB BF is an ordinary character of a topic: it is not removed, and the topic without it is another one."""
    plain = unique("mark")
    marked = f"\ufeff{plain}\ufeff"
    with connected(address, version) as client, connected(address, version) as publisher:
        client.subscribe(marked)
        publisher.publish(plain, b"without")
        publisher.publish(marked, b"with")
        found = messages(client, publisher)
    assert payloads(found) == [b"with"]
    assert found[0].topic == b"\xef\xbb\xbf" + plain.encode() + b"\xef\xbb\xbf"


def test_byte_order_mark_in_a_client_id(address: Address, version: int) -> None:
    """Two client ids that differ only in U+FEFF are two clients."""
    name = unique("c")
    with WireClient(address, version) as one, WireClient(address, version) as other:
        for client, client_id in ((one, name), (other, f"\ufeff{name}")):
            client.send(connect(version, client_id))
            assert client.expect(Connack).reason_code == 0
        one.expect_nothing_more()
