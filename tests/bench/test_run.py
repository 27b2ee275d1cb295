"""The runner as a command: it measures, writes its files, and explains mistakes in its arguments."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench import ruled, run
from tests.bench.generator import LoadError, drive
from tests.support.brokers import TCP_ONLY, start_sluice

pytestmark = pytest.mark.once


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    command = [sys.executable, str(Path(run.__file__)), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.usefixtures("generator")
def test_one_load(tmp_path: Path) -> None:
    """One quick load of Sluice's sources gives a table, the same as Markdown, and the figures as JSON."""
    data, text, page = tmp_path / "bench.json", tmp_path / "bench.md", tmp_path / "bench.html"
    files = ("--json", str(data), "--markdown", str(text), "--page", str(page))
    result = bench("--quick", "--loads", "pairs-q1", "--brokers", "sluice-interpreted", *files)
    assert result.returncode == 0, result.stderr
    assert "10 pairs, QoS 1, window 200" in result.stdout
    assert "| 10 pairs, QoS 1, window 200 |" in text.read_text()
    assert "10 pairs, QoS 1, window 200" in page.read_text()
    (entry,) = json.loads(data.read_text())["results"]
    (measured,) = entry["rounds"]
    assert measured["received"][1] > 0
    assert measured["lost"] == 0


@pytest.mark.usefixtures("generator")
def test_rules_and_users(tmp_path: Path) -> None:
    """A broker with a thousand rules and a user for each client takes the same load as one without."""
    found = ruled.sections(1_000, tmp_path)
    with start_sluice(tmp_path, TCP_ONLY, found) as broker:
        options = ["--mode", "pair", "--publishers", "3", "--window", "10", "--seconds", "0.2", "--warmup", "0.1"]
        measured = drive(broker, [*options, "--users", ruled.USER])
        assert measured["received"][0] > 0
        assert measured["lost"] == 0
        with pytest.raises(LoadError):  # without a name nobody is let in
            drive(broker, options)


def test_unknown_load() -> None:
    """An unknown load is refused with the list of loads."""
    result = bench("--loads", "nothing")
    assert result.returncode == 2
    assert "pairs-q0" in result.stderr
