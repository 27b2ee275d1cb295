"""What the admin API of a host needs of the keeper."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from config.models import Config


class AskedCell(Protocol):
    """One cell."""

    @property
    def number(self) -> int:
        """From 1 on."""

    @property
    def admin_socket(self) -> Path:
        """Where it answers the keeper."""

    @property
    def pid(self) -> int | None:
        """Its process; None = there is none now."""

    @property
    def restarts(self) -> int:
        """How often another process has become this cell."""

    def trouble(self) -> str:
        """Why it cannot answer now, as the end of a sentence that begins with its name; empty if it can."""

    def hangs(self) -> bool:
        """Whether that is because it gives no sign of life."""


class ManagedHost(Protocol):
    """The cells of a host, as operators see them."""

    config: Config
    """What applies now."""
    sources: Mapping[str, str]
    """Where each value of `config` comes from, by dotted key."""
    started_us: int
    """When the keeper has started, on the monotonic clock."""
    reload_failed: bool
    """Whether the keeper could not use the configuration when it was read last."""

    @property
    def cells(self) -> Sequence[AskedCell]:
        """All cells, by their numbers."""

    @property
    def stopping(self) -> bool:
        """Whether the broker stops."""

    async def reload(self, in_cells: Callable[[], Awaitable[bool]] | None = None) -> None:
        """Read the configuration again; `in_cells` has the cells do it, and returns whether any has taken it.

        Raises ConfigError or OSError, before anything has changed.
        """

    def expiry(self) -> list[tuple[str, float]]:
        """Until when the certificate of `admin.tls` is valid, as a cell tells it of listeners."""
