"""Connections in memory. Bytes wait in them, in order, until the world has them read, in pieces as it likes."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

from tests.simulation.loop import Loop


class Transport(asyncio.Transport):
    """One end of a connection, as event loops give it to a protocol."""

    def __init__(self, loop: Loop, protocol: Any, room: int, name: str) -> None:
        """`room`: bytes that the kernel takes and the other end has not read."""
        super().__init__()
        self.name = name
        self.loop = loop
        self.peer: Transport
        self.incoming = bytearray()
        """What the kernel has for this end."""
        self.reading = True
        self.lost = False
        """Whether `connection_lost` has been or is about to be called."""
        self._protocol = protocol
        self._room = room
        self._buffer = bytearray()
        self._high = 65_536
        self._paused = False
        self._closing = False
        self._ends = False
        """The other end has closed: an end follows what is in `incoming`."""
        self._scheduled = False

    # -- what the world does

    def readable(self) -> bool:
        """Whether there is something to read."""
        own = self.reading and not self.lost and not self._scheduled and not self.loop.dead
        return own and (self._ends or len(self.incoming) > 0)

    def waits(self) -> int:
        """Bytes on their way to this end."""
        return len(self.incoming) + len(self.peer._buffer)

    def read(self, size: int) -> None:
        """The next turn of this end's loop reads so many bytes, or the end."""
        self._scheduled = True
        self.loop.call_soon(self._read, size)

    def _read(self, size: int) -> None:
        self._scheduled = False
        if self.lost or not self.reading:
            return
        if self.incoming:
            data = bytes(self.incoming[:size])
            del self.incoming[:size]
            self.peer._push()
            self._protocol.data_received(data)
        elif self._ends:
            self._ends = False
            if not self._protocol.eof_received():
                self.close()

    def cut(self, rng: Random) -> None:
        """The connection breaks: of what is on its way a part arrives."""
        for end in (self, self.peer):
            del end.incoming[rng.randrange(len(end.incoming) + 1) :]
            end._buffer.clear()
            if not end.lost:
                end.lost = True
                end.loop.call_soon(end._break)

    def _break(self) -> None:
        if self.incoming:
            self._protocol.data_received(bytes(self.incoming))
        self._protocol.connection_lost(ConnectionResetError("cut"))

    def die(self, rng: Random) -> None:
        """The process of this end has ended: what it has not handed to the kernel is lost, perhaps more."""
        if not self.lost:
            self.lost = True
            self._buffer.clear()
            if rng.random() < 0.5:
                del self.peer.incoming[rng.randrange(len(self.peer.incoming) + 1) :]
            self.peer._ends = True

    def _push(self) -> None:
        """The kernel takes what it has room for."""
        if self.peer.lost:
            self._buffer.clear()  # nobody reads it
        count = self._room - len(self.peer.incoming)
        if count > 0 and self._buffer:
            self.peer.incoming += self._buffer[:count]
            del self._buffer[:count]
        if self._paused and len(self._buffer) <= self._high // 4:
            self._paused = False
            self.loop.call_soon(self._resume)
        if self._closing and not self._buffer and not self.lost:
            self._lose()

    def _resume(self) -> None:
        if not self.lost:
            self._protocol.resume_writing()

    def _lose(self) -> None:
        self.lost = True
        self.peer._ends = True
        self.loop.call_soon(self._protocol.connection_lost, None)

    # -- as asyncio has it

    def write(self, data: Any) -> None:
        if self.lost or self._closing:
            return
        self._buffer += data
        self._push()
        if not self._paused and len(self._buffer) > self._high:
            self._paused = True
            self._protocol.pause_writing()

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self.reading = False
            self._push()

    def abort(self) -> None:
        if not self.lost:
            self._closing = True
            self._buffer.clear()
            self._lose()

    def is_closing(self) -> bool:
        return self._closing

    def get_write_buffer_size(self) -> int:
        return len(self._buffer)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 65_536 if high is None else high

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = not self._closing


class _Listening:
    """A socket that listens."""

    def __init__(self, loop: Loop, factory: Callable[[], Any]) -> None:
        self.loop = loop
        self.factory = factory
        self.closed = False

    def close(self) -> None:
        """Accept nothing more."""
        self.closed = True


class Network:
    """All connections of a world, and who accepts them."""

    def __init__(self, rng: Random) -> None:
        self.ends: list[Transport] = []
        self._rng = rng
        self._listening: dict[str, _Listening] = {}

    def listen(self, path: str, loop: Loop, factory: Callable[[], Any]) -> _Listening:
        """Accept connections."""
        listening = self._listening[path] = _Listening(loop, factory)
        return listening

    def connect(self, path: str, loop: Loop, factory: Callable[[], Any]) -> tuple[Transport, Any]:
        """Open a connection. Raises ConnectionRefusedError."""
        there = self._listening.get(path)
        if there is None or there.loop.dead or there.closed:
            raise ConnectionRefusedError(path)
        rooms = [self._rng.choice((200, 4_000, 200_000)) for _ in range(2)]
        protocol = factory()
        own = Transport(loop, protocol, rooms[0], f"to {path}")
        accepted = there.factory()
        other = Transport(there.loop, accepted, rooms[1], f"at {path}")
        own.peer, other.peer = other, own
        self.ends += [own, other]
        loop.call_soon(protocol.connection_made, own)
        there.loop.call_soon(accepted.connection_made, other)
        return own, protocol

    def forget(self) -> None:
        """Connections that have ended need no more turns."""
        self.ends = [end for end in self.ends if not (end.lost or end.loop.dead)]
