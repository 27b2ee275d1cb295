"""Frames are parsed a few at a time, and as if they had been parsed at once."""

import struct

import pytest
from websockets.protocol import OPEN
from websockets.server import ServerProtocol

from broker.server.websocket_frames import MOST_EARLY, Frames

LARGEST = 100_000
MASK = b"\x01\x02\x03\x04"
BINARY, FIRST, LAST, TEXT, CLOSE, PING, PONG = 0x82, 0x02, 0x80, 0x81, 0x88, 0x89, 0x8A


def frame(head: int, payload: bytes = b"") -> bytes:
    """A frame of a client."""
    size = len(payload)
    if size < 126:
        length = bytes((0x80 | size,))
    elif size < 65_536:
        length = struct.pack("!BH", 0xFE, size)
    else:
        length = struct.pack("!BQ", 0xFF, size)
    return bytes((head,)) + length + MASK + bytes(byte ^ MASK[at % 4] for at, byte in enumerate(payload))


def new_frames(newcomer: bool = False) -> Frames:
    """Those of a client whose handshake has been accepted."""
    return Frames(ServerProtocol(state=OPEN, max_size=LARGEST), LARGEST, lambda: newcomer)


def read_all(frames: Frames, most: int) -> tuple[bytes, str]:
    """Read until nothing is left; returns the payload and what has failed."""
    received = b""
    while frames.more:
        payload, count, failure = frames.read(most)
        assert count <= most
        received += payload
        if failure:
            return received, failure
    return received, ""


@pytest.mark.parametrize("most", [1, 2, 100])
@pytest.mark.parametrize("size", [1, 5, 13, 1_000, 1_000_000])
def test_pieces(size: int, most: int) -> None:
    """The payload comes whole and in order, however many frames are parsed at once and wherever the stream is cut."""
    payloads = [b"a", b"", b"b" * 125, b"c" * 126, b"d" * 70_000]
    stream = b"".join(
        frame(BINARY, payload) + frame(PING, b"x") + frame(FIRST, b"1") + frame(PONG) + frame(LAST, b"2")
        for payload in payloads
    )
    frames, received = new_frames(), b""
    for at in range(0, len(stream), size):
        frames.feed(stream[at : at + size])
        payload, failure = read_all(frames, most)
        assert not failure
        received += payload
    assert received == b"".join(payload + b"12" for payload in payloads)
    assert frames.held == 0


def test_rest_is_held() -> None:
    """What may not be parsed yet is counted."""
    frames, one = new_frames(), frame(PONG)
    frames.feed(one * 10)
    assert frames.read(4) == (b"", 4, "")
    assert (frames.more, frames.held) == (True, 6 * len(one))


@pytest.mark.parametrize(
    ("bad", "failure"),
    [
        (frame(TEXT, b"x"), "text frame"),
        (frame(LAST, b"x"), "unexpected continuation"),
        (b"\x82\x01x", "incorrect masking"),
        (b"\xc2\x80" + MASK, "reserved bits"),
        (b"\x82\xff" + struct.pack("!Q", 2**63) + MASK, "9223372036854775808"),
        (frame(BINARY, bytes(LARGEST + 1)), "100001"),
        (frame(FIRST, b"x") + frame(BINARY, b"y"), "expected a continuation frame"),
    ],
    ids=["text", "continuation", "mask", "reserved", "length", "too-large", "not-continued"],
)
def test_failure(bad: bytes, failure: str) -> None:
    """What is in front of a frame that is not valid counts, what is behind it does not."""
    frames = new_frames()
    frames.feed(frame(BINARY, b"before") + bad + frame(BINARY, b"behind"))
    received, found = read_all(frames, 10)
    assert received.removesuffix(b"x") == b"before"
    assert failure in found


def test_nothing_behind_close() -> None:
    """A close frame ends the stream."""
    frames = new_frames()
    frames.feed(frame(BINARY, b"before") + frame(CLOSE) + frame(BINARY, b"behind"))
    assert read_all(frames, 10) == (b"before", "")
    assert not frames.more


@pytest.mark.parametrize("newcomer", [True, False])
def test_frames_without_a_session(newcomer: bool) -> None:
    """A client that gets no session may send a bounded number of frames."""
    frames = new_frames(newcomer)
    frames.feed(frame(PONG) * (2 * MOST_EARLY))
    received, failure = read_all(frames, 100)
    assert received == b""
    assert ("no session" in failure) == newcomer
