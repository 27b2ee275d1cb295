"""The admin API as the server sees it, which starts and stops it (broker/admin)."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from broker.auth.watched_file import WatchedFile
from broker.server.certificate_dates import Shown

if TYPE_CHECKING:
    from broker.server.server import Server


class AdminApi(Protocol):
    """Serves the API."""

    @property
    def watched(self) -> Sequence[WatchedFile[Any]]:
        """The files that it follows."""

    @property
    def shown(self) -> list[Shown]:
        """The certificates that it shows."""

    async def link(self) -> str:
        """A link to the dashboard."""

    def stop(self) -> None:
        """Close it."""


StartAdmin = Callable[["Server", bool], Awaitable[AdminApi | None]]
"""Serve the API as the configuration says, and if asked over TCP in any case; None if it is switched off.

Raises OSError if a configured path or address cannot be used.
"""
