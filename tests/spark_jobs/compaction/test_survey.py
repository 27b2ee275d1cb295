"""Which folders of the metrics are listed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_jobs.compaction.known import NOTHING_KNOWN
from spark_jobs.compaction.survey import survey
from spark_jobs.errors import ReportError
from spark_jobs.storage import Entry
from spark_jobs.storage.local import LocalStorage
from spark_jobs.store.schema import HOUR_US
from tests.support.spark.compacted import NOON
from tests.support.spark.compacting import HOUR, NEXT, write_two_hours

pytestmark = pytest.mark.once


class Listed(LocalStorage):
    """A folder that records what is listed."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.asked: list[str] = []

    def files(self, name: str = "") -> Iterator[Entry]:
        """See Storage."""
        self.asked.append(name)
        return super().files(name)


def test_only_the_dates_of_a_range_are_listed(tmp_path: Path) -> None:
    """The range's dates are listed, and the day before if it begins at midnight, because files may be an hour late."""
    write_two_hours(tmp_path)
    for date in ("date=2026-11-19", "date=2026-11-20", "date=2026-11-22", "other"):
        (tmp_path / date / "hour=05").mkdir(parents=True)
    storage = Listed(tmp_path)
    found = survey(storage, NOTHING_KNOWN, NOON, NOON + HOUR_US)
    assert (storage.asked, [file.name for file in found.good]) == (
        ["date=2026-11-21"],
        [f"{HOUR}/a.parquet", f"{NEXT}/b.parquet"],
    )
    storage.asked.clear()
    survey(storage, NOTHING_KNOWN, NOON - 12 * HOUR_US, None)
    assert storage.asked == ["date=2026-11-20", "date=2026-11-21", "date=2026-11-22"]
    with pytest.raises(ReportError, match=r"no files in the requested range, .* 2026-11-19T05:00 to 2026-11-22T06:00"):
        survey(storage, NOTHING_KNOWN, NOON + 100 * HOUR_US, None)
