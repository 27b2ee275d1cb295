"""TLS handshakes of the admin API: bounded, so that half-open connections take no file descriptors from MQTT."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Final

MOST_HANDSHAKES: Final = 64
"""At the same time. A handshake takes milliseconds: when there are more, the one that has lasted longest is aborted."""

PAUSE: Final = 1.0
"""Seconds after which the next connection is accepted if the system has no file descriptor or memory for this one."""


class BoundedHandshakes:
    """Accepts TCP connections; one of the API begins when its handshake is complete."""

    def __init__(self, context: ssl.SSLContext, timeout: float, new_connection: Callable[[], asyncio.Protocol]) -> None:
        """`timeout`: seconds that a peer has for its handshake."""
        self.context = context
        """For the handshakes that begin from now on."""
        self._timeout = timeout
        self._new_connection = new_connection
        self._accepting: list[asyncio.Task[None]] = []
        self._under_way: dict[asyncio.Task[None], None] = {}
        """In the order in which they began."""

    def serve(self, listening: socket.socket) -> None:
        """Accept connections of this socket until `stop`, which closes it."""
        listening.listen()
        self._accepting.append(asyncio.get_running_loop().create_task(self._accept(listening)))

    def stop(self) -> None:
        """Accept nothing more, and abort all handshakes."""
        for task in (*self._accepting, *self._under_way):
            task.cancel()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with listening:
            while True:
                try:
                    accepted, _ = await loop.sock_accept(listening)
                except ConnectionAbortedError:
                    pass  # the peer has left already
                except OSError as error:
                    message = "the admin API cannot accept a connection"
                    loop.call_exception_handler({"message": message, "exception": error})
                    await asyncio.sleep(PAUSE)
                else:
                    self._begin(accepted)

    def _begin(self, accepted: socket.socket) -> None:
        if len(self._under_way) >= MOST_HANDSHAKES:
            oldest = next(iter(self._under_way))
            del self._under_way[oldest]
            oldest.cancel()
        task = asyncio.get_running_loop().create_task(self._shake_hands(accepted))
        self._under_way[task] = None
        task.add_done_callback(self._end)

    def _end(self, task: "asyncio.Task[None]") -> None:
        self._under_way.pop(task, None)

    async def _shake_hands(self, accepted: socket.socket) -> None:
        """The connection is closed if this is cancelled, also before it begins: nothing else refers to the socket."""
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(
                self._new_connection, accepted, ssl=self.context, ssl_handshake_timeout=self._timeout
            )
        except OSError:
            pass  # not TLS, too late, or gone
