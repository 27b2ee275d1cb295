"""Hours whose raw files are no longer there are not built again unless the loss is accepted."""

import shutil
from pathlib import Path

import pytest

from spark_jobs import cli
from spark_jobs.errors import ReportError
from tests.support.spark.compacting import HOUR, NEXT, Run, minutes, tables
from tests.support.spark.metrics_files import write_file

pytestmark = pytest.mark.once

TwoHours = tuple[Path, Path]


def test_a_rebuild_that_would_lose_rows_is_refused(run: Run, two_hours: TwoHours) -> None:
    """After retention: the message has hour, files and rows, and the store is as before; `accept_loss` goes on."""
    raw, store = two_hours
    write_file(raw / HOUR / "z.parquet", minutes(9))
    run(raw, store)
    (raw / HOUR / "a.parquet").unlink()
    before = tables(store)
    told = r"raw files of 1 hour .*: 2026-11-21T12 1 file with 2 rows; .* --from and --to, or add --accept-loss"
    with pytest.raises(ReportError, match=told):
        run(raw, store, rebuild=True, idle=True)
    assert tables(store) == before
    assert run(raw, store, rebuild=True, accept_loss=True).rows == 2


def test_hours_without_a_loss_are_built_again(run: Run, two_hours: TwoHours) -> None:
    """An hour of which nothing is missing beside one that is gone; also if what is missing was a copy."""
    raw, store = two_hours
    shutil.copy(raw / NEXT / "b.parquet", raw / NEXT / "copy.parquet")
    run(raw, store)
    before = tables(store)
    (raw / NEXT / "copy.parquet").unlink()
    shutil.rmtree(raw / HOUR)
    assert run(raw, store, rebuild=True).hours == 1
    assert tables(store) == before


def test_a_file_that_is_damaged_now_counts_as_missing(run: Run, two_hours: TwoHours) -> None:
    """It is truncated after it was compacted."""
    raw, store = two_hours
    write_file(raw / NEXT / "c.parquet", minutes(62))
    run(raw, store)
    (raw / NEXT / "c.parquet").write_bytes(b"PAR1")
    with pytest.raises(ReportError, match="2026-11-21T13 1 file with 1 row"):
        run(raw, store, rebuild=True, idle=True)


def test_many_hours_are_counted(run: Run, tmp_path: Path) -> None:
    """Six are named."""
    raw, store = tmp_path / "raw", tmp_path / "store"
    for name in ("gone", "kept"):
        write_file(raw / HOUR / f"{name}.parquet", minutes(*range(1, 8 * 60, 60), client=name))
    run(raw, store)
    (raw / HOUR / "gone.parquet").unlink()
    with pytest.raises(ReportError, match=r"of 8 hours .*T17 1 file with 1 row; and 2 more hours; restore"):
        run(raw, store, rebuild=True)


def test_the_loss_is_of_rebuilds_only(two_hours: TwoHours, capsys: pytest.CaptureFixture[str]) -> None:
    """`--accept-loss` alone is a mistake; with `--rebuild` the command accepts it."""
    asked = ["compact", "--quiet", "--metrics", str(two_hours[0]), "--store", str(two_hours[1]), "--accept-loss"]
    assert cli.main(asked) == cli.WRONG_INPUT
    assert "--accept-loss: needs --rebuild" in capsys.readouterr().err
    assert cli.main([*asked, "--rebuild"]) == cli.OK
