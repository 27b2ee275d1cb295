"""The command line without Spark: each error is one line, with exit code 2."""

import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs import cli, spark
from spark_jobs.job import Options
from spark_jobs.progress import Progress
from tests.support.spark.metrics_files import arrow_schema, row, write_file, write_metrics

pytestmark = pytest.mark.once


@pytest.fixture
def metrics(tmp_path: Path) -> Path:
    """A metrics folder with one valid file."""
    write_metrics(tmp_path / "metrics", [row(offered_qos0=1, sent_qos0=1)])
    return tmp_path / "metrics"


def fails(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The error message of `report`."""
    assert cli.main(["report", "--quiet", *map(str, arguments)]) == cli.WRONG_INPUT
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert "Traceback" not in said
    assert said.count("\n") == 1
    return said


def test_options_are_refused_with_what_would_be_right(
    capsys: pytest.CaptureFixture[str], metrics: Path, tmp_path: Path
) -> None:
    """Invalid times, ranges, windows and labels."""
    good = ("--metrics", metrics, "--out", tmp_path / "out")
    assert "2026-11-21T14:30" in fails(capsys, *good, "--from", "yesterday")
    assert "2026-11-21T14:30" in fails(capsys, *good, "--to", "21.11.2026")
    assert "the range is empty" in fails(capsys, *good, "--from", "2026-11-22", "--to", "2026-11-21")
    assert "2026-11-21T14:30" in fails(capsys, *good, "--from", "0001-01-01T00:00:00+01:00")
    assert "30s or 1m" in fails(capsys, *good, "--window", "soon")
    assert "needs --baseline" in fails(capsys, *good, "--baseline-label", "x")
    assert "short for --baseline" in fails(capsys, *good, "--compare", "x", "--baseline", "broker=x")
    assert "is the run itself" in fails(capsys, *good, "--baseline", f"metrics={metrics}")
    assert "metrics=DIR" in fails(capsys, *good, "--baseline", "yesterday")
    assert "expected a whole number from 1 to 1,000,000" in fails(capsys, *good, "--starved-after", "0")
    assert "expected a whole number from 1 to" in fails(capsys, *good, "--starved-after", "9" * 20)
    assert "expected at most 366d" in fails(capsys, *good, "--window", "9999999d")
    assert "is after 9999-12-31T23:00; leave the end out" in fails(capsys, *good, "--to", "9999-12-31T23:59:59")
    for empty in ("", " "):
        assert f"--from '{empty}': is empty; expected 2026-11-21, " in fails(capsys, *good, "--from", empty)
        assert f"--to '{empty}': is empty; expected" in fails(capsys, *good, "--to", empty)
    for option in ("--client", "--label", "--broker", "--hash-ids"):
        told = fails(capsys, *good, option, os.fsdecode(b"secret\xff"))
        assert told == f"error: {option}: has bytes that are not UTF-8; expected text in UTF-8\n"
    assert "expected a version of --store" in fails(capsys, *good, "--store-version", "1")
    key = tmp_path / "key"
    hashed = (*good, "--hash-ids-file", key)
    assert f"--hash-ids-file {key}: cannot be read: No such file" in fails(capsys, *hashed)
    key.write_text("\n")
    assert f"--hash-ids-file {key}: the key has 0 bytes; expected 1 to 64" in fails(capsys, *hashed)
    assert not (tmp_path / "out").exists()


def test_folders_are_refused_before_spark_starts(
    capsys: pytest.CaptureFixture[str], metrics: Path, tmp_path: Path
) -> None:
    """No folder, no files, none in the range, foreign files only, an output folder that cannot be written."""
    out = ("--out", tmp_path / "out")
    assert "does not exist" in fails(capsys, "--metrics", tmp_path / "nowhere", *out)
    (tmp_path / "empty").mkdir()
    assert "no metrics files; expected" in fails(capsys, "--metrics", tmp_path / "empty", *out)
    assert "no files in the requested range" in fails(capsys, "--metrics", metrics, *out, "--from", "2027-01-01")
    write_file(tmp_path / "old/date=2026-11-21/hour=12/x.parquet", [row()], arrow_schema(version="0"))
    assert "none of the 1 files can be used" in fails(capsys, "--metrics", tmp_path / "old", *out)
    (tmp_path / "file").write_text("")
    below = tmp_path / "file" / "x"
    told = fails(capsys, "--metrics", metrics, "--out", below)
    assert "cannot be written to" in told
    assert told.count(str(below)) == 1
    assert "does not exist" in fails(capsys, "--metrics", metrics, *out, "--compare", tmp_path / "nowhere")


@pytest.mark.parametrize("empty", ["", " "])
def test_a_folder_needs_a_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, metrics: Path, tmp_path: Path, empty: str
) -> None:
    """An empty folder, as from an unset variable, does not mean the current folder."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    good = {"--metrics": str(metrics), "--store": str(tmp_path / "store"), "--out": str(tmp_path / "out")}
    for command, options in {
        "compact": ["--metrics", "--store"],
        "report": ["--metrics", "--out", "--compare"],
        "bundle": ["--out"],
    }.items():
        for option in options:
            values = {name: good[name] for name in options if name in good} | {option: empty}
            assert cli.main([command, *[part for pair in values.items() for part in pair]]) == cli.WRONG_INPUT
            assert capsys.readouterr().err == (
                f"error: {option} '{empty}': is empty; expected a path or URI (. is the current folder)\n"
            )
    assert list((tmp_path / "here").iterdir()) == []


def test_compact_refuses_times_that_are_none(capsys: pytest.CaptureFixture[str], metrics: Path, tmp_path: Path) -> None:
    """Not a date, and a date before the year 1 in UTC."""
    for time in ("soon", "0001-01-01T00:00:00+01:00"):
        arguments = ["compact", "--metrics", str(metrics), "--store", str(tmp_path / "store"), "--from", time]
        assert cli.main(arguments) == cli.WRONG_INPUT
        assert f"--from {time}: is not a date or time in ISO 8601" in capsys.readouterr().err


def test_missing_packages_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, metrics: Path, tmp_path: Path
) -> None:
    """Without pyspark the message says what to install."""
    monkeypatch.setattr(spark, "find_spec", lambda name: None)
    said = fails(capsys, "--metrics", metrics, "--out", tmp_path / "out")
    assert "pip install 'sluice-mqtt[report]'" in said


def taken(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Options:
    """The options that the job gets."""
    seen: list[Options] = []

    def note(options: Options, progress: Progress) -> bool:
        seen.append(options)
        return True

    monkeypatch.setattr(cli, "make_report", note)
    assert cli.main(["report", "--out", "o", *arguments]) == cli.OK
    return seen[0]


def test_times_are_utc_unless_they_say_otherwise(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A date, a time, and a time with an offset."""
    options = taken(capsys, monkeypatch, "--metrics", "m", "--from", "2026-11-21", "--to", "2026-11-21T14:30:00+01:00")
    (source,) = options.sources
    assert source.start is not None
    assert source.end is not None
    assert source.start.isoformat() == "2026-11-21T00:00:00+00:00"
    assert source.end.isoformat() == "2026-11-21T13:30:00+00:00"
    assert source.start_us == 1_795_219_200_000_000


def test_the_key_of_digests_may_be_in_a_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is the text of the file without the line's end, as if it had been given itself."""
    (tmp_path / "key").write_text("secret\n")
    options = taken(capsys, monkeypatch, "--store", "s", "--hash-ids-file", str(tmp_path / "key"))
    assert options.hash_key == taken(capsys, monkeypatch, "--store", "s", "--hash-ids", "secret").hash_key == "secret"


def test_hours_are_reported_on_as_wholes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A range is extended to whole hours, and `is_widened` says so; whole hours stay as they are."""
    hour_us = 3_600_000_000
    options = taken(capsys, monkeypatch, "--store", "s", "--from", "2026-11-21T01:17:30", "--to", "2026-11-21T01:47")
    (source,) = options.sources
    assert source.start_us == 1_795_219_200_000_000 + hour_us
    assert source.end_us == source.start_us + hour_us
    assert source.is_widened
    (whole,) = taken(capsys, monkeypatch, "--store", "s", "--from", "2026-11-21", "--to", "2026-11-22").sources
    assert not whole.is_widened
    assert whole.start_us is not None
    assert whole.end_us == whole.start_us + 24 * hour_us


def test_labels_are_told_apart(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is named after its folder; the baseline comes first and has a different name."""
    options = taken(capsys, monkeypatch, "--metrics", "a/m", "--compare", "b/m", "--window", "1m")
    assert [source.label for source in options.sources] == ["m (baseline)", "m"]
    assert options.window == 60
    named = taken(capsys, monkeypatch, "--metrics", "a", "--label", "on", "--compare", "b", "--compare-label", "off")
    assert [source.label for source in named.sources] == ["off", "on"]


def test_a_baseline_is_as_the_run_but_for_what_it_names(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another range of the same store and broker; another broker in the same range; another store."""
    run = ("--store", "s", "--from", "2026-11-20", "--to", "2026-11-21", "--broker", "eu")
    earlier, own = taken(capsys, monkeypatch, *run, "--baseline", "2026-11-13..2026-11-14").sources
    assert (earlier.store, earlier.broker, own.label) == ("s", "eu", "eu")
    assert earlier.start is not None
    assert earlier.start.isoformat() == "2026-11-13T00:00:00+00:00"
    other, own = taken(capsys, monkeypatch, *run, "--baseline", "broker=us").sources
    assert other == replace(own, broker="us", label="us")
    elsewhere, own = taken(capsys, monkeypatch, *run, "--baseline", "store=/old/t").sources
    assert elsewhere == replace(own, store="/old/t", label="t")


def test_unknown_failures_are_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected error is reported without a traceback, with exit code 1; an interrupt with 130."""

    def fail(options: Options, progress: Progress) -> None:
        raise RuntimeError("first line\n\nsecond line\nthird\nfourth")

    def interrupt(options: Options, progress: Progress) -> None:
        raise KeyboardInterrupt

    def interrupt_and_fail(options: Options, progress: Progress) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            fail(options, progress)

    monkeypatch.delenv(spark.DEBUG, raising=False)
    monkeypatch.setattr(cli, "make_report", fail)
    assert cli.main(["report", "--metrics", "m", "--out", "o"]) == cli.FAILED
    assert "first line; second line; third (" in capsys.readouterr().err
    for interrupted in (interrupt, interrupt_and_fail):
        monkeypatch.setattr(cli, "make_report", interrupted)
        assert cli.main(["report", "--metrics", "m", "--out", "o"]) == cli.INTERRUPTED
        assert capsys.readouterr().err == "interrupted\n"


def test_help_needs_neither_spark_nor_time() -> None:
    """`python -m spark_jobs report --help` imports neither pyspark nor pyarrow."""
    code = (
        "import sys\nfrom spark_jobs.cli import main\n"
        "try:\n    main(['report', '--help'])\nexcept SystemExit:\n    pass\n"
        "sys.exit(bool({'pyspark', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--metrics URI" in done.stdout
    assert "--baseline" in done.stdout


def test_the_bundle_is_the_whole_package(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The archive can be imported, with its data files, and has the same bytes each time."""
    assert cli.main(["bundle", "--out", str(tmp_path / "jobs")]) == cli.OK
    archive = tmp_path / "jobs" / "spark_jobs.zip"
    assert str(archive) in capsys.readouterr().out
    first = archive.read_bytes()
    assert cli.main(["bundle", "--out", str(tmp_path / "jobs")]) == cli.OK
    assert archive.read_bytes() == first
    names = set(zipfile.ZipFile(archive).namelist())
    assert {"spark_jobs/cli.py", "spark_jobs/metrics_schema.json"} <= names
    assert {"spark_jobs/page/style.css", "spark_jobs/page/script.js"} <= names
    code = (
        "import spark_jobs\nfrom importlib import import_module\nfrom pkgutil import walk_packages\n"
        "for module in walk_packages(spark_jobs.__path__, 'spark_jobs.'):\n"
        "    if not module.name.endswith('__main__'):\n"
        "        print(import_module(module.name).__file__)"
    )
    environment = {"PYTHONPATH": str(archive), "PATH": os.environ["PATH"]}
    imported, shown = (
        subprocess.run(
            [sys.executable, *arguments], capture_output=True, text=True, check=True, cwd=tmp_path, env=environment
        )
        for arguments in (["-c", code], [str(tmp_path / "jobs" / "sluice_report.py"), "--help"])
    )
    assert "--metrics URI" in shown.stdout
    files = imported.stdout.splitlines()
    assert len(files) > 50
    assert all(file.startswith(str(archive)) for file in files)


def test_the_bundle_needs_a_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A folder that cannot be created is an error."""
    (tmp_path / "file").write_text("")
    assert cli.main(["bundle", "--out", str(tmp_path / "file" / "x")]) == cli.WRONG_INPUT
    assert "cannot be written to" in capsys.readouterr().err


def test_progress_is_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """A line on stderr, by the command, when a stage begins and when it ends; quiet prints only warnings."""
    progress = Progress(command="compact")
    with progress.stage("reading") as stage:
        stage.note = "3 files"
    Progress(quiet=True).say("not this")
    Progress(quiet=True).warn("but this")
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert [line.split()[0] for line in lines] == ["compact", "compact", "report"]
    assert [line.split("s  ", 1)[1].split("(")[0] for line in lines] == [
        "reading ...",
        "  done: 3 files ",
        "warning: but this",
    ]
