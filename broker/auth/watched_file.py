"""Files that are read again when they change: of users, and of rules."""

import asyncio
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

import structlog

from broker.runtime.own_thread import in_own_thread

T = TypeVar("T")

INTERVAL: Final = 1.0
"""Seconds between two looks at a file."""
SLOW: Final = 10.0
"""Seconds after which a look that has not ended is reported: file systems of the network may hang."""

_Signature = tuple[int, int, int, int]


class WatchedFile(Generic[T]):
    """One file: `load` reads it, in a thread; `use` takes what it has returned, in the event loop."""

    def __init__(
        self,
        key: str,
        path: Path,
        load: Callable[[Path], T],
        use: Callable[[T], Awaitable[None] | None],
        takes_away: Callable[[T], bool] | None = None,
    ) -> None:
        """`key`: the configuration key that names the file, for the log; `takes_away`: whether what has been loaded
        takes something out of use. Then the file has to be the same at the next look: it may be half written."""
        self._key = key
        self.path = path
        self._load = load
        self._use = use
        self._takes_away = takes_away
        self._seen: _Signature | None = None
        self._doubted: _Signature | None = None
        """The file that is looked at once more before it counts."""
        self._mistake = ""
        """Why the file is not read, as it was logged; empty = it is."""
        self._log = structlog.get_logger("sluice")

    def read(self) -> T:
        """Read the file for the first time. Raises OSError, which names key and file, also for mistakes in it."""
        try:
            loaded = self._changed()
        except (OSError, ValueError) as error:
            raise OSError(f"{self._key}: {self.path}: {_reason(error)}") from error
        assert loaded is not None  # nothing has been seen so far
        return loaded[0]

    async def run(self) -> None:
        """Watch the file until cancelled. What is in use stays in use while the file cannot be read."""
        while True:
            await asyncio.sleep(INTERVAL)
            try:
                loaded = await self._look()
            except (OSError, ValueError) as error:
                self._report(_reason(error))
                continue
            self._mistake = ""
            if loaded is not None:
                await self._take(loaded[0])

    async def _take(self, loaded: T) -> None:
        """Use what has been read. An error in that is reported, and must not end the watching."""
        try:
            used = self._use(loaded)
            if used is not None:
                await used
        except Exception as error:
            message = f"{self._key}: what {self.path} holds by now may not be in use everywhere"
            asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})
        else:
            self._log.info("file_read", key=self._key, file=str(self.path))

    async def _look(self) -> tuple[T] | None:
        """As `_changed`, in a thread. One that hangs is waited for: there is never more than one for each file."""
        look = in_own_thread(self._changed, "watched file")
        try:
            if not (await asyncio.wait((look,), timeout=SLOW))[0]:
                self._report(f"the file system has not answered for {SLOW:g} s")
            return await look
        finally:
            look.cancel()
            del look  # else a cycle: the future refers to its error, the error's traceback to this frame

    def _report(self, mistake: str) -> None:
        """Log a mistake, unless it is the one that was logged last."""
        if mistake != self._mistake:
            self._mistake = mistake
            self._log.error("file_not_read", key=self._key, file=str(self.path), detail=mistake)

    def _changed(self) -> tuple[T] | None:
        """What the file holds if it has changed since the last call. Raises OSError; ValueError for mistakes in it."""
        status = self.path.stat()
        signature = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
        if signature == self._seen:
            return None
        if not stat.S_ISREG(status.st_mode):  # to open a FIFO would wait for its writer
            raise ValueError("is not a regular file")
        loaded = self._load(self.path)
        if status.st_size == 0 and self._seen is not None and self._seen[2]:
            # Editors empty a file before they write it, and a full disk leaves it so.
            raise ValueError("has become empty: write a comment if nothing is to be in it")
        doubtful = self._seen is not None and self._takes_away is not None and self._takes_away(loaded)
        if doubtful and signature != self._doubted:
            self._doubted = signature
            return None
        self._seen = signature
        return (loaded,)


def _reason(error: OSError | ValueError) -> str:
    """Why a file cannot be read, without its name if that is all that the error adds."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
