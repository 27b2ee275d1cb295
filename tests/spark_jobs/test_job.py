"""Options of the report, from the command line to the page."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_jobs import cli
from spark_jobs.store.store import open_store
from tests.spark_jobs.conftest import slow_and_fast
from tests.support.spark.compacting import NEXT, Run, minutes
from tests.support.spark.metrics_files import row, write_file, write_metrics

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("spark")]

Report = Callable[..., int]


@pytest.fixture
def report(small_store: Path, tmp_path: Path) -> Report:
    """Makes a report in `out`, with some options; returns the exit code."""
    arguments = ["--store", str(small_store), "--out", str(tmp_path / "out")]
    return lambda *options: cli.main(["report", "--quiet", *arguments, *options])


def test_everything_about_one_client(report: Report, tmp_path: Path) -> None:
    """`--client` adds a section and a table; a report without it removes the table of the one before."""
    assert report("--client", "slow") == cli.OK
    assert 'id="client"' in (tmp_path / "out" / "report.html").read_text()
    with (tmp_path / "out" / "tables" / "client.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["client_id"], row["offered"], row["sent"]) for row in rows] == [("slow", "180", "156")]
    assert report() == cli.OK
    assert not (tmp_path / "out" / "tables" / "client.csv").exists()


def test_rates_do_not_depend_on_the_way(run: Run, tmp_path: Path) -> None:
    """From metrics and from a store, whose slots are longer, rates and limits are the same.

    Also if nobody had anything to report for most of the time, which the last row is about.
    """
    rows = [*slow_and_fast(gate=True), row("fast", 120, 108, offered_qos0=10, sent_qos0=10)]
    write_metrics(tmp_path / "metrics", rows)
    run(tmp_path / "metrics", tmp_path / "store")
    limits = tmp_path / "limits.toml"
    limits.write_text("dropped_per_second = 0.19\n")
    summaries = []
    for way in ("metrics", "store"):
        out = tmp_path / f"by_{way}"
        arguments = [f"--{way}", str(tmp_path / way), "--thresholds", str(limits), "--out", str(out)]
        assert cli.main(["report", "--quiet", *arguments]) == cli.BEYOND_LIMITS
        summaries.append(json.loads((out / "summary.json").read_text())["runs"][0])
    assert [found["slot_seconds"] for found in summaries] == [1, 60]
    totals, same = (found["totals"] for found in summaries)
    assert totals == same
    sent, dropped, us = (sum(made[name] for made in rows) for name in ("sent_qos0", "dropped_qos0", "sent_qos1"))
    assert totals["all"]["seconds"] == 120
    assert totals["all"]["sent_per_second"] == pytest.approx((sent + us) / 120, abs=1e-9)
    assert totals["all"]["dropped_per_second"] == pytest.approx(dropped / 120, abs=1e-9)
    assert totals["all"]["pressure_share"] == pytest.approx(4 / (12 + 120), abs=1e-9)


def test_a_new_store_keeps_the_slots_of_its_metrics(tmp_path: Path) -> None:
    """Metrics of a second each are not added up to minutes."""
    write_metrics(tmp_path / "metrics", slow_and_fast(gate=True))
    metrics, store = str(tmp_path / "metrics"), str(tmp_path / "new")
    assert cli.main(["compact", "--quiet", "--metrics", metrics, "--store", store]) == cli.OK
    assert open_store(store).slot_us == 1_000_000


def test_a_client_that_is_not_there_is_named(
    report: Report, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mistyped id is told, and there is no report."""
    assert report("--client", "slwo") == cli.WRONG_INPUT
    assert "--client slwo: had no session in the requested range" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_times_are_shown_in_the_time_zone(report: Report, tmp_path: Path) -> None:
    """The page says which one it is; tables and summary keep UTC."""
    assert report() == cli.OK
    utc, table = (tmp_path / "out" / "report.html").read_text(), (tmp_path / "out" / "tables" / "hours.csv").read_text()
    assert report("--timezone", "Asia/Kolkata") == cli.OK
    page = (tmp_path / "out" / "report.html").read_text()
    assert "12:00:12 UTC" in utc
    assert "17:30:12 Asia/Kolkata" in page
    assert "Times are Asia/Kolkata;" in page
    assert (tmp_path / "out" / "tables" / "hours.csv").read_text() == table


def test_a_range_is_read_in_the_time_zone(report: Report, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Noon in UTC is half past five in Kolkata, also in messages; an offset in the option is stronger."""
    zone = ("--timezone", "Asia/Kolkata")
    assert report(*zone, "--from", "2026-11-21T17:30", "--to", "2026-11-21T18:30") == cli.OK
    assert report(*zone, "--from", "2026-11-21T12:00Z", "--to", "9999-12-31") == cli.OK
    assert report(*zone, "--from", "2026-11-21T17:45", "--to", "2026-11-21T18:00") == cli.OK
    hour = "2026-11-21T17:30 to 2026-11-21T18:30 (Asia/Kolkata)"
    assert f"extended to whole hours, {hour}\n" in capsys.readouterr().err
    assert report(*zone, "--from", "2026-11-21T19:30") == cli.WRONG_INPUT
    assert f"/store holds {hour}.\n" in capsys.readouterr().err
    for name in ("Mars/Olympus", "Europe", "../UTC"):
        assert report("--timezone", name) == cli.WRONG_INPUT
        assert f"--timezone {name}: is not known" in capsys.readouterr().err


def test_a_damaged_file_of_the_store_is_named(
    two_hours: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """With the command that builds its hour again."""
    raw, store = two_hours
    [part] = (store / "sessions").rglob("date=2026-11-21/hour=13/*.parquet")
    part.write_bytes(part.read_bytes()[:-9])
    assert cli.main(["report", "--quiet", "--store", str(store), "--out", str(raw.parent / "out")]) == cli.WRONG_INPUT
    told = capsys.readouterr().err
    assert f"{part}: " in told
    assert "sluice compact --rebuild --from 2026-11-21T13:00 --to 2026-11-21T14:00" in told
    assert told.count("\n") == 1


def test_a_version_of_the_store_is_reported_on_again(
    run: Run, two_hours: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """The summary names the version; with it the report is the same after a compaction. Unknown versions are named."""
    raw, store = two_hours
    out = raw.parent / "out"
    asked = ["report", "--quiet", "--store", str(store), "--out", str(out)]

    def summary(*options: str) -> str:
        assert cli.main([*asked, *options]) == cli.OK
        return (out / "summary.json").read_text()

    before = summary()
    write_file(raw / NEXT / "c.parquet", minutes(62))
    run(raw, store)
    version = json.loads(before)["runs"][0]["store_version"]
    assert json.loads(summary())["runs"][0]["rows"] == 4
    assert summary("--store-version", str(version)) == before
    assert cli.main([*asked, "--store-version", "0"]) == cli.WRONG_INPUT
    assert f"{store} holds no hours in version 0." in capsys.readouterr().err
    assert cli.main([*asked, "--store-version", "99"]) == cli.WRONG_INPUT
    assert f"has no version 99; its newest one is {version + 1}" in capsys.readouterr().err
