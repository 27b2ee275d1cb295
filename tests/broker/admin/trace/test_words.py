"""Packets in words, however the bytes come: nothing secret, nothing endless, and never an exception."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.admin.trace.framing import KEPT, Framing, decode
from broker.admin.trace.words import in_words, name
from protocol import properties as props
from protocol.acknowledgements import Puback, Pubrel
from protocol.auth import Auth
from protocol.connack import Connack
from protocol.connect import Connect, Will
from protocol.disconnect import Disconnect
from protocol.packet import Packet
from protocol.ping import Pingreq
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from protocol.unsuback import Unsuback
from protocol.unsubscribe import Unsubscribe

pytestmark = pytest.mark.once

SECRET = b"secret"
TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2VjcmV0"
LOGIN: Properties = {props.AUTHENTICATION_METHOD: "X", props.AUTHENTICATION_DATA: SECRET}
PACKETS: list[tuple[Packet, str]] = [
    (
        Connect("a\x1b", True, 5, username="ann", password=SECRET, will=Will(b"w", SECRET), version=5),
        "MQTT 5.0, client id 'a\\x1b', user 'ann', with a password, clean start, keep-alive 5 s, will to 'w'",
    ),
    (Connack(True, 0), "Success (0x00), session present"),
    (Publish(b"t", SECRET, 2, True, packet_id=7, dup=True), "QoS 2, id 7, 6 bytes, retain, DUP"),
    (Puback(7, 0x10), "id 7, No matching subscribers (0x10)"),
    (Pubrel(7), "id 7"),
    (Subscribe(3, [Subscription("a/#", 1)] * 21), ", ".join(["id 3", *["a/# QoS 1"] * 20, "and 1 more"])),
    (Suback(3, [1, 0x87]), "id 3, QoS 1, Not authorized (0x87)"),
    (Unsubscribe(4, ["a/#"]), "id 4, a/#"),
    (Unsuback(4, [0x11]), "id 4, No subscription found (0x11)"),
    (Disconnect(0x8B, {props.REASON_STRING: "soon"}), "Server shutting down (0x8B), soon"),
    (Auth(0x18, LOGIN), "Continue authentication (0x18)"),
    (Pingreq(), ""),
]


@pytest.mark.parametrize(("packet", "words"), PACKETS, ids=[name(packet) for packet, _ in PACKETS])
def test_words(packet: Packet, words: str) -> None:
    """Each packet is shown with what matters, without password, payload and authentication data."""
    ((_, whole),) = Framing().split(packet.encode(5))
    assert whole is not None
    decoded = decode(whole, 5)
    assert not isinstance(decoded, str)
    assert in_words(decoded, False, False) == words


def test_names_that_may_be_tokens() -> None:
    """Where clients send tokens as user names these are not shown; elsewhere not if they look like one."""
    for username, sent_as_name in ((TOKEN, False), (f" {TOKEN}", False), ("ann", True)):
        words = in_words(Connect("a", True, 5, username=username, version=5), False, sent_as_name)
        assert "user (not shown: it may be a token)" in words
        assert username not in words


def test_payload() -> None:
    """Of a payload the first bytes are shown, if that is asked for."""
    assert in_words(Publish(b"t", b"\0hello", 0), True, False).endswith("payload '\\x00hello'")
    assert in_words(Publish(b"t", b"x" * 65, 0), True, False).endswith("x'...")


@given(st.data())
def test_any_split(data: st.DataObject) -> None:
    """Packets are found however their bytes are split; all bytes come out, in order."""
    stream = b"".join(packet.encode(5) for packet, _ in PACKETS)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    framing = Framing()
    parts = [
        part for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True) for part in framing.split(stream[a:b])
    ]
    assert b"".join(part for part, _ in parts) == stream
    assert [whole for _, whole in parts if whole is not None] == [packet.encode(5) for packet, _ in PACKETS]


@given(st.binary(max_size=200))
def test_anything(data: bytes) -> None:
    """Bytes that are no packets raise nothing, and all come out."""
    parts = Framing().split(data)
    assert b"".join(part for part, _ in parts) == data
    for _, whole in parts:
        if whole is not None:
            found = decode(whole, 5)
            assert isinstance(found, str) or in_words(found, True, False) is not None


def test_large() -> None:
    """Of a large packet only the beginning is kept, and topic, packet id and size are still shown."""
    packet = Publish(b"t/1", b"x" * 200_000, 1, packet_id=9).encode(4)
    ((_, whole),) = Framing().split(packet)
    assert whole is not None
    assert len(whole) == KEPT
    found = decode(whole, 4)
    assert isinstance(found, Publish)
    assert (found.topic, in_words(found, True, False)) == (b"t/1", "QoS 1, id 9, 200000 bytes")
