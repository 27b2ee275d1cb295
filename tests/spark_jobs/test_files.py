"""Finding metrics files, and telling the good from the bad."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs import files
from spark_jobs.errors import ReportError
from tests.support_spark.metrics_files import (
    NOON,
    arrow_schema,
    at,
    first_schema,
    folder_of,
    row,
    write_file,
    write_metrics,
)

pytestmark = pytest.mark.once

HOUR = "date=2026-11-21/hour=12"


def test_good_files_are_found_with_their_rows_and_bounds(tmp_path: Path) -> None:
    """A footer tells how many rows there are and from when to when."""
    [path] = write_metrics(tmp_path, [row("a", 10), row("b", 30)])
    found = files.survey(tmp_path)
    assert found.good == (files.GoodFile(path, 2, at(10), at(30)),)
    assert found.rows == 2
    assert found.skipped == ()


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _no_parquet(path: Path) -> None:
    path.write_bytes(b"this is a text file, " * 20)


def _other_name(path: Path) -> None:
    write_file(path, [row()], arrow_schema(name="somebody.else"))


def _other_version(path: Path) -> None:
    write_file(path, [row()], arrow_schema(version="3"))


def _no_metadata(path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), path)


def _column_missing(path: Path) -> None:
    schema = arrow_schema()
    write_file(path, [row()], schema.remove(schema.get_field_index("mqueue_max")))


def _added_column_missing(path: Path) -> None:
    schema = arrow_schema()
    write_file(path, [row()], schema.remove(schema.get_field_index("gated_rate")))


def _column_of_other_type(path: Path) -> None:
    schema = arrow_schema()
    index = schema.get_field_index("mqueue_max")
    write_file(path, [row()], schema.set(index, pa.field("mqueue_max", pa.int32())))


@pytest.mark.parametrize(
    ("spoil", "kind", "says"),
    [
        (_truncate, files.TRUNCATED, "has no Parquet footer at its end: truncated at"),
        (_empty, files.EMPTY, "is zero bytes long"),
        (_no_parquet, files.UNREADABLE, "is not a Parquet file"),
        (
            _other_name,
            files.FOREIGN,
            "somebody.else version 2; this report reads sluice.session_metrics versions 1 to 2",
        ),
        (_other_version, files.FOREIGN, "sluice.session_metrics version 3"),
        (_no_metadata, files.FOREIGN, "no schema name version none"),
        (_column_missing, files.FOREIGN, "lacks 1 columns, the first is mqueue_max"),
        (_added_column_missing, files.FOREIGN, "lacks 1 columns, the first is gated_rate"),
        (_column_of_other_type, files.FOREIGN, "column mqueue_max is int32; int64 would be right"),
    ],
)
def test_bad_files_are_named_and_skipped(
    tmp_path: Path, spoil: Callable[[Path], None], kind: str, says: str
) -> None:
    """Each kind of bad file is left out with the reason, and the good one beside it is kept."""
    good, bad = (write_metrics(tmp_path, [row()])[0] for _ in range(2))
    spoil(bad)
    found = files.survey(tmp_path)
    assert [file.path for file in found.good] == [good]
    assert [(file.path, file.kind) for file in found.skipped] == [(bad, kind)]
    assert says in found.skipped[0].reason


def test_large_types_and_more_columns_are_no_fault(tmp_path: Path) -> None:
    """What makes no difference on disk, and columns of later writers, are accepted."""
    schema = arrow_schema()
    schema = schema.set(schema.get_field_index("client_id"), pa.field("client_id", pa.large_string()))
    large = pa.large_list(pa.field("element", pa.int64()))
    schema = schema.set(schema.get_field_index("mailbox_hist"), pa.field("mailbox_hist", large))
    schema = schema.append(pa.field("extra", pa.int64()))
    write_file(tmp_path / HOUR / "x.parquet", [row() | {"extra": 1}], schema)
    assert len(files.survey(tmp_path).good) == 1


def test_files_of_the_first_version_are_good(tmp_path: Path) -> None:
    """They lack the columns that came later; one by such a name is held to the type that it has now."""
    write_file(tmp_path / HOUR / "x.parquet", [row()], first_schema())
    other = first_schema().append(pa.field("gated_rate", pa.string()))
    write_file(tmp_path / HOUR / "y.parquet", [row() | {"gated_rate": "1"}], other)
    found = files.survey(tmp_path)
    assert [file.path.name for file in found.good] == ["x.parquet"]
    assert "column gated_rate is string; int64 would be right" in found.skipped[0].reason


def test_files_being_written_are_left_alone(tmp_path: Path) -> None:
    """Names that start with _ or . are neither read nor called bad."""
    write_metrics(tmp_path, [row()])
    for name in ("_x.parquet", ".x.parquet", ".y.tmp"):
        (tmp_path / HOUR / name).write_bytes(b"half")
    found = files.survey(tmp_path)
    assert (len(found.good), len(found.skipped), found.temporary) == (1, 0, 3)


def test_files_elsewhere_are_named(tmp_path: Path) -> None:
    """A Parquet file that lies in no date and hour folder is not read silently, nor left out silently."""
    write_metrics(tmp_path, [row()])
    stray = write_file(tmp_path / "stray.parquet", [row()])
    wrong = write_file(tmp_path / "date=2026-13-45" / "hour=12" / "x.parquet", [row()])
    found = files.survey(tmp_path)
    assert {(file.path, file.kind) for file in found.skipped} == {
        (stray, files.MISPLACED),
        (wrong, files.MISPLACED),
    }


def test_folders_outside_of_the_range_are_not_opened(tmp_path: Path) -> None:
    """A range needs only its own hours, and one more on both sides."""
    for hour in range(8, 17):
        write_file(folder_of(tmp_path, NOON.replace(hour=hour)) / "x.parquet", [row()])
    found = files.survey(tmp_path, NOON, NOON.replace(minute=30))
    assert [file.path.parent.name for file in found.good] == ["hour=11", "hour=12", "hour=13"]
    assert found.out_of_range == 6


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda root: None, "does not exist"),
        (lambda root: root.write_text(""), "is not a folder"),
        (lambda root: root.mkdir(), "no metrics files; expected"),
        (
            lambda root: _no_metadata(_made(root / HOUR) / "x.parquet"),
            "none of the 1 files is of schema sluice",
        ),
        (lambda root: _empty(_made(root / HOUR) / "x.parquet"), "none of the 1 files can be used"),
    ],
)
def test_nothing_usable_is_an_error(tmp_path: Path, make: Callable[[Path], None], says: str) -> None:
    """The message says what is wrong and where."""
    root = tmp_path / "metrics"
    make(root)
    with pytest.raises(ReportError, match=says) as caught:
        files.survey(root)
    assert str(root) in str(caught.value)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def test_many_bad_files_do_not_make_a_long_error(tmp_path: Path) -> None:
    """Three are named, the others counted."""
    for number in range(9):
        _empty(_made(tmp_path / "date=2026-11-21" / f"hour={number:02}") / "x.parquet")
    with pytest.raises(ReportError, match="none of the 9 files can be used") as caught:
        files.survey(tmp_path)
    assert str(caught.value).count("zero bytes") == 3
    assert str(caught.value).endswith("and 6 more")


def test_an_empty_range_says_what_there_is(tmp_path: Path) -> None:
    """A range without files is an error that names the hours that there are."""
    write_metrics(tmp_path, [row("a", 10), row("a", 7210)])
    day = datetime(2026, 1, 1, tzinfo=UTC)
    with pytest.raises(ReportError, match=r"date=2026-11-21/hour=12 to date=2026-11-21/hour=14"):
        files.survey(tmp_path, None, day)


@pytest.mark.parametrize("address", ["hdfs://host/metrics", "s3a://bucket/x", "file:/tmp"])
def test_addresses_are_refused(address: str) -> None:
    """Only folders of this machine can be read."""
    with pytest.raises(ReportError, match="must be a folder of this machine"):
        files.survey(Path(address))


def test_damage_behind_a_sound_footer_is_found_by_reading(tmp_path: Path) -> None:
    """A file whose pages are overwritten passes the footer check, and is named when it is read through."""
    good, bad = (write_metrics(tmp_path, [row(str(i), i) for i in range(1, 50)])[0] for _ in range(2))
    damage(bad)
    found = files.survey(tmp_path)
    assert len(found.good) == 2
    [named] = files.read_through(found)
    assert named.path == bad
    assert "is damaged" in named.reason
    left = found.without([named])
    assert [file.path for file in left.good] == [good]
    assert left.skipped == (named,)


def damage(path: Path) -> None:
    """Overwrite the pages of a file, and leave its footer."""
    data = bytearray(path.read_bytes())
    data[4:2000] = b"\xff" * 1996
    path.write_bytes(data)
