"""The admin API of a host with several cells, as its keeper has it, and the configuration that the keeper goes by."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import structlog

from broker.runtime.clock import monotonic_us
from broker.runtime.own_thread import in_own_thread
from broker.server.admin_api import AdminApi
from broker.server.certificate_dates import CertificateDates, Shown
from broker.server.listeners import LISTENERS_STAY
from broker.server.logs import limit, set_level
from broker.server.reload import plan_reload, read_again, sources_after
from config.errors import ConfigError
from config.load import Loaded

if TYPE_CHECKING:
    from broker.server.keeper import KeptCell

StartHostAdmin = Callable[["HostAdmin", bool], Awaitable[AdminApi | None]]
"""Serve the API as the configuration says, and if asked over TCP in any case; None if it is switched off.

Raises OSError if a configured path or address cannot be used.
"""


class HostAdmin:
    """What operators see and change by way of the keeper."""

    def __init__(
        self, loaded: Loaded, start: StartHostAdmin | None = None, show_link: Callable[[str], None] | None = None
    ) -> None:
        """`start`: None = no admin API. `show_link` gets a link to the dashboard, which then is open in any case."""
        self.config = loaded.config
        self.sources: Mapping[str, str] = loaded.sources
        self.started_us = monotonic_us()
        self.reload_failed = False
        self.cells: Sequence[KeptCell] = ()
        self._again = loaded.again
        self._start = start
        self._show_link = show_link
        self._stopping = asyncio.Event()
        self._reloading = asyncio.Lock()
        self._api: AdminApi | None = None
        self._dates = CertificateDates(self._shown)
        self._tasks: set[asyncio.Task[None]] = set()
        self._log = structlog.get_logger("sluice")

    @property
    def stopping(self) -> bool:
        """Whether the broker stops."""
        return self._stopping.is_set()

    async def open(self, cells: "Sequence[KeptCell]", stopping: asyncio.Event) -> None:
        """Serve for these cells, until `close`. Raises OSError."""
        self.cells = cells
        self._stopping = stopping
        if self._start is not None:
            self._api = await self._start(self, self._show_link is not None)
        self._dates.look()
        self._begin(self._dates.run())

    async def show_link(self) -> None:
        """All cells serve: print the link that is asked for. Raises OSError."""
        if self._api is not None and self._show_link is not None:
            self._show_link(await self._api.link())

    def close(self) -> None:
        """Serve no more."""
        for task in self._tasks:
            task.cancel()
        if self._api is not None:
            self._api.stop()

    def reload_soon(self) -> None:
        """SIGHUP has come; it has been passed on to the cells."""
        self._begin(self._reload_for_signal())

    async def _reload_for_signal(self) -> None:
        try:
            await self.reload()
        except (ConfigError, OSError) as error:
            self._log.error("reload_failed", detail=str(error))

    async def reload(self, in_cells: Callable[[], Awaitable[bool]] | None = None) -> None:
        """Read the configuration again: tokens, the certificate of the API, and the log's level change.

        `in_cells` has the cells read it too, once it is known to have no mistake, and returns whether any has taken
        it. Raises ConfigError or OSError, before anything has changed.
        """
        self.reload_failed = True
        followed = [] if self._api is None else self._api.watched
        async with AsyncExitStack() as held:
            await held.enter_async_context(self._reloading)
            if self._again is None:
                raise OSError("there is no configuration to read again")
            loaded = await in_own_thread(self._again, "configuration")
            plan = plan_reload(loaded.config, self.config)
            if plan.listeners.opened or plan.listeners.closed:
                raise OSError(LISTENERS_STAY)
            files = await read_again(followed, loaded.config, held)
            if in_cells is not None and not await in_cells():
                return
            for file, found in files:
                await file.take(found)
            self.sources = sources_after(plan, loaded, self.sources)
            self.config = plan.config
            set_level(plan.config.log.level)
            limit(plan.config.log.max_lines)
        self.reload_failed = False

    def expiry(self) -> list[tuple[str, float]]:
        """Until when the certificate of `admin.tls` is valid."""
        own = [(each.place, each.certificates.own) for each in self._shown()]
        return [(place, certificate.not_after) for place, certificate in own if certificate is not None]

    def _shown(self) -> list[Shown]:
        return [] if self._api is None else self._api.shown

    def _begin(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
