"""The index of many reports."""

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_jobs import cli
from tests.spark_jobs.conftest import slow_and_fast
from tests.support.spark.metrics_files import write_metrics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.once

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def _report(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("index")
    write_metrics(folder / "metrics", slow_and_fast(gate=True))
    assert cli.main(["report", "--quiet", "--metrics", str(folder / "metrics"), "--out", str(folder / "out")]) == cli.OK
    return folder / "out"


@pytest.fixture
def reports(_report: Path, tmp_path: Path) -> Path:
    """Three reports of one day each; the p99 of QoS 1 doubles from one to the next."""
    for day in (1, 2, 3):
        folder = tmp_path / f"2026-11-0{day}"
        folder.mkdir()
        shutil.copy(_report / "report.html", folder)
        summary = json.loads((_report / "summary.json").read_text())
        [run] = summary["runs"]
        run["first_interval_start"] = f"2026-11-0{day}T00:00:00+00:00"
        run["last_interval_end"] = f"2026-11-0{day}T23:59:59+00:00"
        run["percentiles"]["ack_1_all"]["p99"] = 1000 * 2**day
        summary["grade"] = "unfair" if day == 2 else "good"
        (folder / "summary.json").write_text(json.dumps(summary))
    return tmp_path


def index(reports: Path, *options: str) -> str:
    """The page."""
    assert cli.main(["index", "--reports", str(reports), *options]) == cli.OK
    return (reports / "index.html").read_text()


def test_each_report_has_a_row_and_the_figures_a_trend(reports: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The latest comes first; its link has the folder's name; the trend's text has the first and the last value."""
    page = index(reports)
    assert capsys.readouterr().out == f"{reports}/index.html: 3 reports\n"
    links = [f'href="./2026-11-0{day}/report.html">2026-11-0{day}<' for day in (3, 2, 1)]
    assert sorted(links, key=page.index) == links
    assert "1 of 3 reports found clients that were treated unfairly." in page
    assert "QoS 1 acknowledged, 99th percentile, by report: 2 ms to 8 ms" in page.replace("\u202f", " ")
    assert page.count("<circle") == 3 * page.count(", by report: ")


def test_what_is_no_summary_is_named_and_left_out(reports: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Damaged, of an earlier format, of another program: the others are shown. A folder without a report is nothing."""
    good = json.loads((reports / "2026-11-01" / "summary.json").read_text())
    spoiled = {
        "cut": ("{", "is not JSON in UTF-8 (Expecting property name"),
        "old": (json.dumps({**good, "format": 2}), "has format 2; expected 3 or later: make the report again"),
        "other": ("[]", "has values that `sluice report` does not write; make the report again"),
        "empty": (json.dumps({"format": 3}), "has no 'runs'; make the report again"),
    }
    for name, (text, _) in spoiled.items():
        shutil.copytree(reports / "2026-11-01", reports / name)
        (reports / name / "summary.json").write_text(text)
    (reports / "nothing").mkdir()
    page = index(reports)
    assert page.count("report.html") == 3
    told = capsys.readouterr().err
    for name, (_, why) in spoiled.items():
        assert f"left out {reports}/{name}/summary.json: {why}" in told
    assert "nothing" not in told


@pytest.mark.parametrize("missing", ["report.html", "summary.json"])
def test_reports_that_are_not_complete_are_named(
    missing: str, reports: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A report whose page or summary is not there is left out, and that is told."""
    (reports / "2026-11-02" / missing).unlink()
    assert "2026-11-02" not in index(reports)
    assert f"left out {reports}/2026-11-02: has no {missing}; make the report again" in capsys.readouterr().err


@pytest.mark.parametrize(
    "spoiled",
    [
        "[" * 200_000,
        '"clients": Infinity',
        '"clients": NaN',
        f'"clients": 1{"0" * 400}',
        '"sent_per_second": 1e999',
        '"last_interval_end": "9999-12-31T23:59:59+00:00"',
        '"first_interval_start": "0001-01-01T00:00:00+14:00"',
    ],
)
def test_values_that_cannot_be_shown_are_left_out(
    spoiled: str, reports: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One summary with nested lists, a number or a time beyond any: it is named, and the others are shown."""
    file = reports / "2026-11-02" / "summary.json"
    name = spoiled.partition(":")[0]
    value = rf"{name}: (\d[\d.]*|\"[^\"]*\")"
    file.write_text(re.sub(value, spoiled, file.read_text()) if name != spoiled else spoiled)
    page = index(reports, "--timezone", "Asia/Kolkata")
    assert page.count("report.html") == 2
    assert f"left out {file}: " in capsys.readouterr().err


def test_names_are_text(reports: Path) -> None:
    """A folder and a headline that look like markup."""
    folder = reports / 'a"b?c#d'
    shutil.copytree(reports / "2026-11-01", folder)
    summary = json.loads((folder / "summary.json").read_text())
    summary |= {"headline": HOSTILE, "grade": HOSTILE}
    (folder / "summary.json").write_text(json.dumps(summary))
    page = index(reports)
    assert HOSTILE not in page
    assert 'href="./a%22b%3Fc%23d/report.html"' in page


def test_without_reports_there_is_no_index(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message says what was expected; one report has no trend."""
    assert cli.main(["index", "--reports", str(tmp_path)]) == cli.WRONG_INPUT
    assert f"no reports; expected {tmp_path}/NAME/summary.json" in capsys.readouterr().err


def test_times_are_of_the_time_zone(reports: Path) -> None:
    """In a zone before UTC the first day begins in its morning."""
    assert "2026-11-01 05:30:00" in index(reports, "--timezone", "Asia/Kolkata")
