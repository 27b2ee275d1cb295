"""The runner as a command: it measures, writes its files, and explains mistakes in its arguments."""

import json
from pathlib import Path

import pytest

from tests.bench import ruled
from tests.bench.generator import LoadError, drive
from tests.bench.invoked import invoked
from tests.bench.run import main
from tests.support.brokers import TCP_ONLY, start_sluice

pytestmark = pytest.mark.once


@pytest.mark.usefixtures("generator")
def test_one_load(tmp_path: Path) -> None:
    """One quick load of Sluice's sources gives a table, the same as Markdown, and the figures as JSON."""
    data, text, page = tmp_path / "bench.json", tmp_path / "bench.md", tmp_path / "bench.html"
    files = ("--json", str(data), "--markdown", str(text), "--page", str(page))
    result = invoked(main, "--quick", "--loads", "pairs-q1", "--brokers", "sluice-interpreted", *files)
    assert result.exit_code == 0, result.stderr
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
    result = invoked(main, "--loads", "nothing")
    assert result.exit_code == 2
    assert "pairs-q0" in result.stderr


def test_broker_that_is_named_and_missing() -> None:
    """A broker that is named and cannot be measured ends the run before it begins."""
    for option in ("--flashmq", "--before"):
        result = invoked(main, "--brokers", "sluice-interpreted", option, "/none")
        assert result.exit_code == 1
        assert "not measured: " in result.stderr
        assert result.stdout == ""


def test_broker_without_its_option() -> None:
    """A broker that an option has to name says which."""
    result = invoked(main, "--brokers", "sluice-before")
    assert result.exit_code == 2
    assert "sluice-before needs --before" in result.stderr


def test_check_without_mosquitto() -> None:
    """Targets that are ratios to Mosquitto are not taken for held without it."""
    result = invoked(main, "--quick", "--brokers", "sluice-interpreted", "--check")
    assert result.exit_code == 1
    assert "--check needs Sluice and Mosquitto" in result.stderr


@pytest.mark.usefixtures("generator")
def test_nothing_measured() -> None:
    """A run without any result fails."""
    result = invoked(main, "--quick", "--loads", "pairs-q0", "--brokers", "flashmq", "--flashmq", "/bin/true")
    assert result.exit_code == 1
    assert "nothing was measured" in result.stderr


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("a.py", "def gone(port): pass", "has no function go(port)"),
        ("a.py", "def go(port)", "is not Python"),
        ("a-b.py", "def go(port): pass", "cannot be imported"),
    ],
)
def test_file_that_is_no_prototype(tmp_path: Path, name: str, text: str, why: str) -> None:
    """A file that cannot serve as a prototype is refused before anything is measured."""
    (tmp_path / name).write_text(text)
    result = invoked(main, "--quick", "--brokers", "sluice-interpreted", "--prototype", str(tmp_path / name))
    assert result.exit_code == 1
    assert why in result.stderr
    assert result.stdout == ""
