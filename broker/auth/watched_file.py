"""Files that are read again when they change: of users, and of rules."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

import structlog

T = TypeVar("T")

INTERVAL: Final = 1.0
"""Seconds between two looks at a file."""

_Signature = tuple[int, int, int, int]


class WatchedFile(Generic[T]):
    """One file: `load` reads it, in a thread; `use` takes what it has returned, in the event loop."""

    def __init__(
        self, key: str, path: Path, load: Callable[[Path], T], use: Callable[[T], Awaitable[None] | None]
    ) -> None:
        """`key`: the configuration key that names the file, for the log."""
        self._key = key
        self.path = path
        self._load = load
        self._use = use
        self._seen: _Signature | None = None
        self._failing = False
        self._log = structlog.get_logger("sluice")

    def read(self) -> T:
        """Read the file for the first time. Raises OSError; ValueError for mistakes in it."""
        loaded = self._changed()
        assert loaded is not None  # nothing has been seen so far
        return loaded[0]

    async def run(self) -> None:
        """Watch the file until cancelled. What is in use stays in use while the file cannot be read."""
        while True:
            await asyncio.sleep(INTERVAL)
            try:
                loaded = await asyncio.to_thread(self._changed)
            except (OSError, ValueError) as error:
                if not self._failing:
                    self._failing = True
                    self._log.error("file_not_read", key=self._key, file=str(self.path), detail=str(error))
            else:
                self._failing = False
                if loaded is not None:
                    used = self._use(loaded[0])
                    if used is not None:
                        await used
                    self._log.info("file_read", key=self._key, file=str(self.path))

    def _changed(self) -> tuple[T] | None:
        """What the file holds if it has changed since the last call. Raises OSError; ValueError for mistakes in it."""
        status = self.path.stat()
        signature = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
        if signature == self._seen:
            return None
        loaded = self._load(self.path)
        self._seen = signature
        return (loaded,)
