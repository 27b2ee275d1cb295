"""Sockets on their way from the cell that has accepted them to the home of their clients (SCM_RIGHTS).

A frame has the length of its head, that of its data, the head in JSON and the data: what has been read so far. The
descriptor comes with its first byte. Nothing of a connection stays with the cell that has accepted it.
"""

import asyncio
import json
import os
import socket
import struct
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from broker.runtime.origin import Origin

MOST_WAITING: Final = 4_096
"""Sockets that wait for one cell, at most."""
RETRY: Final = 0.05
"""Seconds between two attempts to reach a cell that is not up."""
PATIENCE: Final = 10.0
"""Seconds for which a socket waits for a cell; then its client is told that it is not there."""
_LENGTHS: Final = struct.Struct(">II")
_CHUNK: Final = 262_144


class Passed(NamedTuple):
    """A client's connection that another cell has accepted."""

    listener: str
    origin: Origin | None
    data: bytes
    """What the client has sent so far."""


class _Leaving(NamedTuple):
    frame: bytes
    fd: int
    refusal: bytes
    """What the client gets if the cell does not come up."""
    until: float


class Lengths(NamedTuple):
    """Of one frame."""

    head: int
    data: int

    @property
    def end(self) -> int:
        """Where it ends."""
        return _LENGTHS.size + self.head + self.data


def frame_of(passed: Passed) -> bytes:
    """A connection as another cell reads it."""
    head = json.dumps([passed.listener, passed.origin]).encode()
    return _LENGTHS.pack(len(head), len(passed.data)) + head + passed.data


def lengths_of(received: bytes | bytearray) -> Lengths | None:
    """The lengths of the frame that begins here; None if more bytes are needed."""
    return None if len(received) < _LENGTHS.size else Lengths(*_LENGTHS.unpack_from(received))


def decoded_head(received: bytes, lengths: Lengths) -> Passed:
    """What a frame says, which is there as a whole."""
    data = _LENGTHS.size + lengths.head
    listener, origin = json.loads(received[_LENGTHS.size : data])
    return Passed(listener, None if origin is None else Origin(*origin), received[data : lengths.end])


class Departures:
    """Sockets that go to one other cell, in order."""

    def __init__(self, path: Path, patience: float = PATIENCE) -> None:
        self._path = path
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Leaving] = deque()
        self._sock: socket.socket | None = None
        self._sent = 0
        """Bytes of the first frame that have been sent."""
        self._planned: asyncio.TimerHandle | None = None

    def send(self, passed: Passed, fd: int, refusal: bytes) -> bool:
        """Pass a socket on, now or when the cell is up; the descriptor is closed then. False if too many wait."""
        if len(self._waiting) >= MOST_WAITING:
            return False
        self._waiting.append(_Leaving(frame_of(passed), fd, refusal, self._loop.time() + self._patience))
        if len(self._waiting) == 1:
            self._go_on()
        return True

    def close(self) -> None:
        """Close what waits."""
        self._disconnect()
        while self._waiting:
            os.close(self._waiting.popleft().fd)

    # -- internal

    def _go_on(self) -> None:
        """Send what waits, as far as possible."""
        self._planned = None
        self._refuse_late()
        while self._waiting:
            if self._sock is None and not self._connect():
                self._planned = self._loop.call_later(RETRY, self._go_on)
                return
            assert self._sock is not None  # it is connected
            first = self._waiting[0]
            try:
                if self._sent == 0:
                    self._sent = socket.send_fds(self._sock, [first.frame], [first.fd])
                else:
                    self._sent += self._sock.send(memoryview(first.frame)[self._sent :])
            except BlockingIOError:
                self._loop.add_writer(self._sock.fileno(), self._writable)
                return
            except OSError:
                self._disconnect()  # it gets all of the first frame again: what it had is gone with it
                continue
            if self._sent == len(first.frame):
                self._sent = 0
                os.close(self._waiting.popleft().fd)

    def _writable(self) -> None:
        if self._sock is not None:
            self._loop.remove_writer(self._sock.fileno())
        self._go_on()

    def _connect(self) -> bool:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.setblocking(False)
        try:
            sock.connect(str(self._path))
        except OSError:  # it is not up, or its queue is full
            sock.close()
            return False
        self._sock = sock
        return True

    def _disconnect(self) -> None:
        if self._planned is not None:
            self._planned.cancel()
            self._planned = None
        self._sent = 0
        if self._sock is not None:
            self._loop.remove_writer(self._sock.fileno())
            self._sock.close()
            self._sock = None

    def _refuse_late(self) -> None:
        """Tell the clients that have waited for too long."""
        now = self._loop.time()
        while self._waiting and self._waiting[0].until <= now and self._sent == 0:
            late = self._waiting.popleft()
            with socket.socket(fileno=late.fd) as sock, suppress(OSError):
                sock.setblocking(False)
                sock.send(late.refusal)


class Arrivals:
    """Takes sockets over from the other cells."""

    def __init__(self, begin: Callable[[socket.socket, Passed], None]) -> None:
        self._begin = begin
        self._loop = asyncio.get_running_loop()
        self._listening: socket.socket | None = None
        self._senders: set[_Sender] = set()

    def open(self, path: Path) -> None:
        """Listen. Raises OSError."""
        path.unlink(missing_ok=True)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.bind(str(path))
            sock.listen(128)
            sock.setblocking(False)
        except OSError:
            sock.close()
            raise
        self._listening = sock
        self._loop.add_reader(sock.fileno(), self._accept, sock)

    def close(self) -> None:
        """Take no more."""
        if self._listening is not None:
            self._loop.remove_reader(self._listening.fileno())
            self._listening.close()
            self._listening = None
        for sender in list(self._senders):
            self._end(sender)

    # -- internal

    def _accept(self, listening: socket.socket) -> None:
        with suppress(OSError):
            sock, _ = listening.accept()
            sock.setblocking(False)
            sender = _Sender(sock)
            self._senders.add(sender)
            self._loop.add_reader(sock.fileno(), self._receive, sender)

    def _receive(self, sender: "_Sender") -> None:
        try:
            data, fds, _, _ = socket.recv_fds(sender.sock, _CHUNK, 16)
        except BlockingIOError:
            return
        except OSError:
            data, fds = b"", []
        sender.fds.extend(fds)
        if not data:
            self._end(sender)
            return
        sender.received += data
        while (passed := sender.take()) is not None:
            self._begin(socket.socket(fileno=sender.fds.popleft()), passed)

    def _end(self, sender: "_Sender") -> None:
        self._senders.discard(sender)
        self._loop.remove_reader(sender.sock.fileno())
        sender.close()


class _Sender:
    """Another cell, which sends sockets."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.fds: deque[int] = deque()
        self.received = bytearray()

    def take(self) -> Passed | None:
        """The next connection that has come as a whole."""
        lengths = lengths_of(self.received)
        if lengths is None or len(self.received) < lengths.end or not self.fds:
            return None
        frame = bytes(self.received[: lengths.end])
        del self.received[: lengths.end]
        return decoded_head(frame, lengths)

    def close(self) -> None:
        """Close it, with the sockets that have not come as a whole."""
        self.sock.close()
        for fd in self.fds:
            os.close(fd)


def descriptor_of(transport: Any) -> int:
    """A copy of the descriptor of a transport's socket. Raises OSError."""
    return os.dup(transport.get_extra_info("socket").fileno())
