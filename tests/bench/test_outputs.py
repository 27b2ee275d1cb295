"""What a bench does besides measuring: files that it cannot write, signals, runs in which nothing can be measured."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench import callgrind, memory, page, run
from tests.support.waiting import wait_until

pytestmark = pytest.mark.once


def bench(script: str | None, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the bench on a terminal that is wide enough for its messages."""
    command = [sys.executable, str(script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"COLUMNS": "400"})


@pytest.mark.parametrize(
    ("script", "option"),
    [
        (run.__file__, "--json"),
        (run.__file__, "--page"),
        (run.__file__, "--markdown"),
        (memory.__file__, "--json"),
        (callgrind.__file__, "--json"),
    ],
)
@pytest.mark.parametrize(("file", "why"), [("none/a", "there is no folder"), ("", "is a folder")])
def test_file_that_cannot_be_written(tmp_path: Path, script: str, option: str, file: str, why: str) -> None:
    """A file that cannot be written is refused before anything is measured."""
    result = bench(script, option, str(tmp_path / file))
    assert result.returncode == 2
    assert why in result.stderr
    assert result.stdout == ""


def test_page_that_cannot_be_written(tmp_path: Path) -> None:
    """A page that cannot be written is refused, and nothing is left of trying."""
    data = tmp_path / "data.json"
    data.write_text("{}")
    assert "there is no folder" in bench(page.__file__, str(data), str(tmp_path / "none" / "a.html")).stderr
    assert "is not what run.py" in bench(page.__file__, str(data), str(tmp_path / "a.html")).stderr
    assert list(tmp_path.iterdir()) == [data]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.usefixtures("generator")
def test_signals(tmp_path: Path, number: signal.Signals) -> None:
    """A run that is ended by a signal stops its broker and its generator, and removes its folders."""
    # Children inherit which signals are ignored, and `nohup` ignores SIGHUP: give the run the defaults.
    python = ["env", "--default-signal=HUP,INT", sys.executable]
    command = [*python, str(run.__file__), "--loads", "pairs-q0", "--brokers", "sluice-interpreted"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen([*command, "--seconds", "60"], env=environment, stderr=subprocess.DEVNULL) as running:
        wait_until(lambda: len(_children(running.pid)) == 2, "the broker and the generator run", 30)
        children = _children(running.pid)
        running.send_signal(number)
        assert running.wait(30) == 128 + number
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children), "both have ended")
    assert not list(tmp_path.glob("sluice-bench-*"))


def _children(pid: int) -> list[int]:
    """The processes that it has started and that run."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except OSError:  # it has ended
            continue
        if int(parent) == pid and state != "Z":
            found.append(int(stat.parent.name))
    return found


def test_broker_that_is_named_and_missing() -> None:
    """A broker that is named and cannot be measured ends the run before it begins."""
    for option in ("--flashmq", "--before"):
        result = bench(run.__file__, "--brokers", "sluice-interpreted", option, "/none")
        assert result.returncode == 1
        assert "not measured: " in result.stderr
        assert result.stdout == ""


def test_broker_without_its_option() -> None:
    """A broker that an option has to name says which."""
    result = bench(run.__file__, "--brokers", "sluice-before")
    assert result.returncode == 2
    assert "sluice-before needs --before" in result.stderr


def test_check_without_mosquitto() -> None:
    """Targets that are ratios to Mosquitto are not taken for held without it."""
    result = bench(run.__file__, "--quick", "--brokers", "sluice-interpreted", "--check")
    assert result.returncode == 1
    assert "--check needs Sluice and Mosquitto" in result.stderr


@pytest.mark.usefixtures("generator")
def test_nothing_measured() -> None:
    """A run without any result fails."""
    result = bench(run.__file__, "--quick", "--loads", "pairs-q0", "--brokers", "flashmq", "--flashmq", "/bin/true")
    assert result.returncode == 1
    assert "nothing was measured" in result.stderr
