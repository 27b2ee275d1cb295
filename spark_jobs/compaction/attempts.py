"""Repeats what meets commits of other runs."""

from collections.abc import Callable
from typing import Final, TypeVar

from spark_jobs.errors import ReportError
from spark_jobs.progress import Progress
from spark_jobs.storage import Storage
from spark_jobs.store.delta import ConflictError, open_snapshot

ATTEMPTS: Final = 10
Result = TypeVar("Result")


def until_committed(attempt: Callable[[], Result], store: Storage, progress: Progress) -> Result:
    """The result of the first attempt that no commit of another run has met, or that no removal of files has ended.

    Raises:
        ReportError: other runs have met all of them.
    """
    for _ in range(ATTEMPTS):
        began = _version(store)
        try:
            return attempt()
        except ConflictError:
            pass
        except Exception:
            if _version(store) == began:
                raise
        progress.warn("another run has changed the store meanwhile: starting again from its state")
    raise ReportError(f"{store.shown}: {ATTEMPTS} attempts met commits of other runs; run one compaction at a time")


def _version(store: Storage) -> int | None:
    snapshot = open_snapshot(store)
    return snapshot.version if snapshot is not None else None
