"""The lock file of a store: one compaction at a time."""

import json
import os
import platform
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from spark_jobs.errors import ReportError
from spark_jobs.storage import Storage, StorageError

LOCK: Final = "lock.json"
RENEW_EVERY: Final = 60.0  # seconds
STALE_AFTER: Final = 600.0  # seconds without renewal, for a run on another machine


@contextmanager
def locked(storage: Storage) -> Iterator[None]:
    """Hold the store's lock during the block.

    A lock is stale, and is replaced, if its process on this machine has ended, or if its process on another machine
    has not renewed it for ten minutes.

    Raises:
        ReportError: another run holds the lock; the message says which.
    """
    if not storage.create(LOCK, _mine()):
        _take_over(storage)
    stop = threading.Event()
    renewing = threading.Thread(target=_renew, args=(storage, stop), daemon=True)
    renewing.start()
    try:
        yield
    finally:
        stop.set()
        renewing.join()
        storage.remove(LOCK)


def _renew(storage: Storage, stop: threading.Event) -> None:
    while not stop.wait(RENEW_EVERY):
        try:
            storage.write(LOCK, _mine())
        except StorageError:
            return  # the run itself will report the error


def _take_over(storage: Storage) -> None:
    holder = _holder(storage)
    if holder is not None and not _is_stale(holder):
        age = max(0.0, time.time() - float(holder["renewed"]))
        raise ReportError(
            f"{storage.shown}: another compaction is running: process {holder['pid']} on {holder['host']}, renewed "
            f"{age:.0f} s ago; wait for it, or if it has ended remove {storage.shown}/{LOCK}"
        )
    # Of several runs that find the same stale lock, one can rename it.
    aside = f".{LOCK}.{os.getpid()}.stale"
    try:
        storage.rename(LOCK, aside)
        storage.remove(aside)
    except StorageError:
        pass
    if not storage.create(LOCK, _mine()):
        raise ReportError(f"{storage.shown}: another compaction has just started; wait for it")


def _mine() -> bytes:
    pid = os.getpid()
    own = {"host": platform.node(), "pid": pid, "started": _started(pid), "renewed": time.time()}
    return json.dumps(own).encode()


def _holder(storage: Storage) -> dict[str, str | int | float] | None:
    """The holder of the lock; None if the file is missing or incomplete."""
    try:
        holder = json.loads(storage.read(LOCK))
        whole = isinstance(holder["pid"], int) and isinstance(holder["renewed"], float)
        return holder if whole and {"host", "started"} <= holder.keys() else None
    except (ValueError, TypeError, KeyError, AttributeError, StorageError):
        return None


def _is_stale(holder: dict[str, str | int | float]) -> bool:
    if holder["host"] == platform.node():
        return _started(int(holder["pid"])) != holder["started"]
    return abs(time.time() - float(holder["renewed"])) > STALE_AFTER  # also if it is from the future


def _started(pid: int) -> str:
    """An identifier of a process of this machine: boot id and start time; empty if it does not exist.

    A process id alone is not enough: ids are reused, after a restart of the machine or container even the same ones.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return f"{boot} {stat.rpartition(')')[2].split()[19]}"
    except OSError:
        pass
    if Path("/proc/self/stat").exists():
        return ""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass
    return "there"
