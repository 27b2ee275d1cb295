"""The connections that are open, with a session or without one."""

import asyncio
from collections.abc import Callable
from typing import final

import structlog

from broker.connection.peer import Peer
from broker.telemetry.slices import Slices
from protocol import reason_codes


@final
class Connections:
    """All open connections."""

    def __init__(self) -> None:
        self.open: set[Peer] = set()
        self.on_opened: Callable[[Peer], None] | None = None
        """Called with each connection that is opened, while a trace runs."""
        self.on_last_gone: Callable[[], None] | None = None
        """Called when the last connection is closed: the server waits for that when it stops."""
        self._tasks: set[asyncio.Task[None]] = set()
        """Nothing else keeps them: the event loop refers to tasks weakly."""
        self._log = structlog.get_logger("sluice")

    def __len__(self) -> int:
        return len(self.open)

    def add(self, connection: Peer) -> None:
        """A client has opened a connection."""
        self.open.add(connection)
        if self.on_opened is not None:
            self.on_opened(connection)

    def remove(self, connection: Peer) -> None:
        """A connection is closed."""
        self.open.discard(connection)
        if not self.open and self.on_last_gone is not None:
            self.on_last_gone()

    def close_users(self, source: str, names: set[str]) -> None:
        """Disconnect the users with these names that this source has authenticated: they have to log in again.

        In slices, after this has returned: there may be 100,000 connections.
        """
        task = asyncio.create_task(self._close_users(source, names))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _close_users(self, source: str, names: set[str]) -> None:
        slices = Slices()
        closed: set[str] = set()
        count = 0
        for connection in list(self.open):
            client = connection.client
            identity = None if client is None or connection.gate.closed else client.identity
            if identity is not None and identity.source == source and identity.user in names:
                _close_user(connection)
                closed.add(identity.user)
                count += 1
            await slices.breathe()
        if count:
            self._log.info("users_disconnected", source=source, users=len(closed), connections=count)


def _close_user(connection: Peer) -> None:
    """Disconnect a user who has to log in again. An error in that is reported: others have to be disconnected too."""
    try:
        connection.close(reason_codes.ADMINISTRATIVE_ACTION, "the user has been removed or changed")
    except Exception as error:
        connection.abort()
        context = {"message": "a user who was removed or changed was not disconnected in order", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)
