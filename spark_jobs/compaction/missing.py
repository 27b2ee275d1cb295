"""What a rebuild would lose: rows of compacted hours whose raw files are no longer there."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from spark_jobs.compaction.plan import Hour
from spark_jobs.errors import ReportError
from spark_jobs.formats import counted
from spark_jobs.store.taken import Ledger, hour_name, text

_NAMED: Final = 6  # hours in the message


@dataclass(frozen=True)
class _Missing:
    """The raw files of an hour that cannot be read again, and the number of their compacted rows."""

    hour_us: int
    files: int
    rows: int


def require_all_files(hours: Iterable[Hour], ledgers: Mapping[int, Ledger]) -> None:
    """Check that hours can be built again without a loss.

    Args:
        hours: to be built, with the raw files that exist.
        ledgers: hour -> the raw files that it was built from.

    Raises:
        ReportError: some of these files are no longer there, or can no longer be used.
    """
    lost = [each for hour in hours if (each := _missing(hour, ledgers.get(hour.hour_us))).rows]
    if not lost:
        return
    named = "; ".join(
        f"{hour_name(each.hour_us)} {counted(each.files, 'file')} with {counted(each.rows, 'row')}"
        for each in lost[:_NAMED]
    )
    more = f"; and {counted(len(lost) - _NAMED, 'more hour')}" if len(lost) > _NAMED else ""
    raise ReportError(
        f"--rebuild: raw files of {counted(len(lost), 'hour')} are no longer there or cannot be used, and their rows "
        f"would be lost: {named}{more}; restore them, name other hours with --from and --to, or add --accept-loss"
    )


def _missing(hour: Hour, ledger: Ledger | None) -> _Missing:
    there = {text(file.name) for file in hour.files}
    gone = [file for file in (ledger.files if ledger is not None else ()) if text(file.name) not in there]
    return _Missing(hour.hour_us, len(gone), sum(file.rows_here - file.dropped for file in gone))
