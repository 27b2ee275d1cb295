"""What is listed of a metrics folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_jobs.compaction.survey import survey
from spark_jobs.errors import ReportError
from spark_jobs.storage import Entry
from spark_jobs.storage.local import LocalStorage
from spark_jobs.store.schema import HOUR_US
from tests.support.spark.compacted import NOON
from tests.support.spark.compacting import HOUR, NEXT, write_two_hours

pytestmark = pytest.mark.once


class Listed(LocalStorage):
    """A folder that notes what is listed of it."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.asked: list[str] = []

    def files(self, name: str = "") -> Iterator[Entry]:
        """See Storage."""
        self.asked.append(name)
        return super().files(name)


def test_only_the_dates_of_a_range_are_listed(tmp_path: Path) -> None:
    """With the day before where the range begins with a day, because a file may be an hour late."""
    write_two_hours(tmp_path)
    for date in ("date=2026-11-19", "date=2026-11-20", "date=2026-11-22", "other"):
        (tmp_path / date / "hour=05").mkdir(parents=True)
    storage = Listed(tmp_path)
    found = survey(storage, None, NOON, NOON + HOUR_US)
    assert (storage.asked, [file.name for file in found.good]) == (
        ["date=2026-11-21"],
        [f"{HOUR}/a.parquet", f"{NEXT}/b.parquet"],
    )
    storage.asked.clear()
    survey(storage, None, NOON - 12 * HOUR_US, None)
    assert storage.asked == ["date=2026-11-20", "date=2026-11-21", "date=2026-11-22"]
    with pytest.raises(ReportError, match=r"no files in the requested range .* 2026-11-19T05 to 2026-11-22T05"):
        survey(storage, None, NOON + 100 * HOUR_US, None)
