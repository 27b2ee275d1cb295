"""The frames that a client has sent: a bounded number is parsed at once, and the others are kept until then."""

from collections.abc import Callable
from typing import Final, final

from websockets.frames import Frame, Opcode
from websockets.server import ServerProtocol

try:
    from websockets.speedups import apply_mask
except ImportError:  # `websockets` may be installed without its compiled part
    from websockets.utils import apply_mask

MOST_EARLY: Final = 1_000
"""Frames that a client may send until it has a session: CONNECT and each step of AUTH fit in one."""

_DATA: Final = (Opcode.BINARY, Opcode.CONT)
_UNSUPPORTED: Final = 1003
"""Status code of a close: the data is of a kind that cannot be accepted."""
_POLICY: Final = 1008
"""Status code of a close: there are too many."""
_WHOLE: Final = 0x80 | Opcode.BINARY
"""First byte of a binary message in one frame."""
_MASKED: Final = 0x80
"""Bit of the second byte: a mask of _MASK bytes comes before the payload."""
_MASK: Final = 4


@final
class Frames:
    """What has been received of one client's frames.

    The parser of `websockets` parses all that it is given, so it is given one frame after the other. Most frames are
    binary, whole and received in one piece: of those only the mask has to be removed.
    """

    def __init__(self, protocol: ServerProtocol, most_bytes: int, is_newcomer: Callable[[], bool]) -> None:
        """`most_bytes` of a frame; `is_newcomer`: whether the client has no session yet."""
        self._protocol = protocol
        self._most_bytes = most_bytes
        self._is_newcomer = is_newcomer
        self._data = b""
        self._at = 0
        """Where in `_data` the parser goes on."""
        self._early = 0
        """Frames that have been parsed, up to MOST_EARLY."""
        self._missing = 0
        """Bytes that the parser has not been given of the frame that it has begun."""
        self._inside = False
        """Whether the next frame has to continue a message."""
        self.more = False
        """Whether there is something that may be parsed."""

    @property
    def held(self) -> int:
        """Bytes that wait, and those of an incomplete frame."""
        return len(self._data) - self._at + self.incomplete

    @property
    def incomplete(self) -> int:
        """Bytes of an incomplete frame."""
        return len(self._protocol.reader.buffer)

    def feed(self, data: bytes) -> None:
        """This has been received."""
        self._data = self._data[self._at :] + data
        self._at = 0
        self.more = True

    def read(self, most: int) -> tuple[bytes, int, str]:
        """Parse up to `most` frames.

        Returns the payload of the binary ones, the number of frames, and what has failed, if anything.
        """
        protocol = self._protocol
        if self._early >= MOST_EARLY and self._is_newcomer():
            failure = f"{MOST_EARLY} WebSocket frames and no session"
            protocol.fail(_POLICY, failure)
            self.drop()
            return b"", 0, failure
        data = self._data
        size = len(data)
        pieces: list[bytes] = []
        failure = ""
        count = 0
        at = min(self._at + self._missing, size)
        if at > self._at:
            self._missing -= at - self._at
            failure = self._parse(data[self._at : at], pieces)
        while count < most and at + 2 <= size and not protocol.eof_sent:
            second = data[at + 1]
            start = at + 2
            length = second & 0x7F
            if length > 125:
                start += 2 if length == 126 else 8
                if start > size:
                    break
                length = int.from_bytes(data[at + 2 : start])
            start += _MASK
            end = start + length
            count += 1
            whole = data[at] == _WHOLE and second & _MASKED and end <= size
            if whole and not self._inside and length <= self._most_bytes:
                pieces.append(apply_mask(data[start:end], data[start - _MASK : start]))
            else:
                self._missing = max(0, end - size)
                end = min(end, size)
                failure = self._parse(data[at:end], pieces)
            at = end
        self._at = at
        self._early = min(self._early + count, MOST_EARLY)
        self.more = count == most and at < size
        if protocol.eof_sent or at == size:
            self.drop()
        return b"".join(pieces), count, failure

    def drop(self) -> None:
        """Forget what waits."""
        self._data = b""
        self._at = 0
        self.more = False

    # -- internal

    def _parse(self, data: bytes, pieces: list[bytes]) -> str:
        """Have one frame parsed, or a part of it, and append its payload; returns what has failed, if anything."""
        protocol = self._protocol
        protocol.receive_data(data)
        for event in protocol.events_received():
            if not isinstance(event, Frame):
                continue
            if event.opcode in _DATA:
                pieces.append(bytes(event.data))
                self._inside = not event.fin
            elif event.opcode is Opcode.TEXT:  # [MQTT-6.0.0-1]
                failure = "a text frame, where MQTT has binary ones"
                protocol.fail(_UNSUPPORTED, failure)
                return failure
        return "" if protocol.parser_exc is None else str(protocol.parser_exc)
