"""Files that are read again when they change: of users, of rules, and of certificates."""

import asyncio
import hashlib
import stat
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, Generic, TypeVar

import structlog

from broker.runtime.own_thread import in_own_thread
from config.file_sizes import too_large
from config.mounts import Mount, mount_of, replaced

T = TypeVar("T")

INTERVAL: Final = 1.0
"""Seconds between two looks at a file."""
SLOW: Final = 10.0
"""Seconds after which a look that has not ended is reported: file systems of the network may hang."""
_LATE: Final = f"it is not read after {SLOW:g} s: its file system hangs, or it is too large for this machine"

_Signature = dict[str, tuple[int, int, int, int, int]]
_SIZE: Final = 2
_Digests = dict[str, bytes]
_Found = tuple[_Signature, _Digests, T]


class WatchedFile(Generic[T]):
    """One file, or some that count together, as a certificate and its key do.

    `load` reads them, in a thread; `use` takes what it has returned, in the event loop.
    """

    def __init__(
        self,
        files: Mapping[str, Path],
        load: Callable[[], T],
        use: Callable[[T], Awaitable[None] | None],
        takes_away: Callable[[T], bool] | None = None,
    ) -> None:
        """`files`: by the configuration keys that name them, for the log; `takes_away`: whether what has been loaded
        takes something out of use. Then the files have to be the same at the next look: one may be half written."""
        self._files = dict(files)
        self._load = load
        self._use = use
        self._takes_away = takes_away
        self._seen: _Signature = {}
        self._doubted: _Signature = {}
        """The files that are looked at once more before they count."""
        self._digests: _Digests = {}
        self._told: _Digests = {}
        """What `renewed` compares with: it has told of everything before."""
        self._mounts: dict[str, Mount | None] = {}
        """How the files were mounted."""
        self.mistake = ""
        """Why the files are not read, as it was logged; empty = they are."""
        self.busy = asyncio.Lock()
        """Whoever has it may call `look` and `take`."""
        self._log = structlog.get_logger("sluice")

    @property
    def files(self) -> dict[str, Path]:
        """Its files, by the configuration keys that name them."""
        return dict(self._files)

    def read(self) -> T:
        """Read the files for the first time. Raises OSError, which names keys and files, also for mistakes in them."""
        try:
            self._mounts = {key: mount_of(path) for key, path in self._files.items()}
            self._seen = self._signature()
            self._digests = self._told = self._digested()
            return self._load()
        except (OSError, ValueError) as error:
            raise self._named(error) from error

    async def run(self) -> None:
        """Watch the files until cancelled. What is in use stays in use while they cannot be read."""
        while True:
            await asyncio.sleep(INTERVAL)
            async with self.busy:
                await self._follow()

    async def _follow(self) -> None:
        """Look once, and use what has changed."""
        try:
            found = await self.look()
        except (OSError, ValueError) as error:
            self._report(_reason(error))
            return
        self.mistake = ""
        if found is not None:
            await self.take(found)

    async def look(self, doubt: bool = True) -> _Found[T] | None:
        """What the files hold by now, for `take`, if they have changed; in a thread.

        A look that hangs is waited for: there is never more than one. Raises OSError; ValueError for mistakes in them.
        `doubt`: what takes something away has to be the same at the next look.
        """
        look = in_own_thread(lambda: self._changed(doubt), "watched file")
        try:
            if not (await asyncio.wait((look,), timeout=SLOW))[0]:
                self._report(_LATE)
            return await look
        finally:
            look.cancel()
            del look  # else a cycle: the future refers to its error, the error's traceback to this frame

    def take(self, found: _Found[T]) -> Awaitable[None]:
        """Use what has been found: it applies to what comes from now on, and everywhere when what is returned ends."""
        keys = [key for key in self._files if self._seen.get(key) != found[0].get(key)]
        self._seen, self._digests, loaded = found
        try:
            return self._finish(self._use(loaded), keys)
        except Exception as error:
            return self._failed(error, keys)

    async def read_again(self, held: AsyncExitStack) -> _Found[T] | None:
        """The same as `look` for a reload, which takes the files as they are. Raises OSError, which names them.

        Until `held` ends nobody else looks at them.
        """
        try:
            async with asyncio.timeout(SLOW):
                await held.enter_async_context(self.busy)
                return await self.look(doubt=False)
        except TimeoutError:
            raise self._named(OSError(_LATE)) from None
        except (OSError, ValueError) as error:
            raise self._named(error) from error

    def renewed(self) -> list[str]:
        """The keys of files that hold something else than when this was asked last, or at first."""
        keys = self.renewed_since(self)
        self._told = self._digests
        return keys

    def renewed_since(self, other: "WatchedFile[T]") -> list[str]:
        """The same since `other` was asked, of the files that it has too."""
        same = [key for key, path in self._files.items() if other._files.get(key) == path]
        return [key for key in same if self._digests[key] != other._told[key]]

    async def _finish(self, used: Awaitable[None] | None, keys: list[str]) -> None:
        """An error in what uses the files is reported, and must not end the watching."""
        try:
            if used is not None:
                await used
        except Exception as error:
            await self._failed(error, keys)
        else:
            self._log.info("file_read", **self._fields(keys))

    async def _failed(self, error: Exception, keys: list[str]) -> None:
        fields = self._fields(keys)
        message = f"{fields['key']}: what {fields['file']} holds by now may not be in use everywhere"
        asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})

    def _fields(self, keys: list[str]) -> dict[str, str]:
        """How the log names the files of these keys."""
        return {"key": ", ".join(keys), "file": ", ".join(str(self._files[key]) for key in keys)}

    def _named(self, error: OSError | ValueError) -> OSError:
        key, *others = self._files
        if others:
            return OSError(f"{key.rpartition('.')[0]}: {_reason(error)}")
        return OSError(f"{key}: {self._files[key]}: {_reason(error)}")

    def _report(self, mistake: str) -> None:
        """Log a mistake, unless it is the one that was logged last."""
        if mistake != self.mistake:
            self.mistake = mistake
            self._log.error("file_not_read", **self._fields(list(self._files)), detail=mistake)

    def _changed(self, doubt: bool) -> _Found[T] | None:
        """What the files hold if they have changed since the last call. Raises OSError, ValueError."""
        signature = self._signature()
        if signature == self._seen:
            return None
        try:
            digests = self._digested()
            loaded = self._load()
        except (OSError, ValueError):
            if self._signature() != signature:
                return None  # they are being replaced: the next look will tell
            raise
        for key, status in signature.items():
            if status[_SIZE] == 0 and self._seen[key][_SIZE]:
                # Editors empty a file before they write it, and a full disk leaves it so.
                raise ValueError(self._of(key, "has become empty: write a comment if nothing is to be in it"))
        if doubt and signature != self._doubted and self._takes_away is not None and self._takes_away(loaded):
            self._doubted = signature
            return None
        return signature, digests, loaded

    def _signature(self) -> _Signature:
        """What shows whether the files have changed. Raises OSError; ValueError if one is not regular, or too large."""
        found: _Signature = {}
        for key, path in self._files.items():
            try:
                status = path.stat()
            except OSError as error:
                raise OSError(self._of(key, _reason(error))) from None
            if why := replaced(path, self._mounts[key]):
                raise ValueError(self._of(key, why))
            if not stat.S_ISREG(status.st_mode):  # to open a FIFO would wait for its writer
                raise ValueError(self._of(key, "is not a regular file"))
            if why := too_large(status.st_size, key):
                raise ValueError(self._of(key, why))
            found[key] = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_dev)
        return found

    def _digested(self) -> _Digests:
        found: _Digests = {}
        for key, path in self._files.items():
            with path.open("rb") as file:
                found[key] = hashlib.file_digest(file, "sha256").digest()
        return found

    def _of(self, key: str, mistake: str) -> str:
        """What is wrong with one of the files; it is named if there are others."""
        return mistake if len(self._files) == 1 else f"{self._files[key]}: {mistake}"


def _reason(error: OSError | ValueError) -> str:
    """Why a file cannot be read, without its name if that is all that the error adds."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
