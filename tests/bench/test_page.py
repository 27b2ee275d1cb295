"""The page of a run: every broker and load is on it, and it needs nothing from elsewhere."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench import page, report
from tests.bench.loads import BY_NAME
from tests.bench.machine import description
from tests.bench.rounds import Cell
from tests.bench.test_report import TIMING, comparison, result
from tests.support.process import clean_environment

pytestmark = pytest.mark.once


def run_page(data: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """Run the command, on a terminal in which no path of a file is broken into two lines."""
    command = [sys.executable, str(Path(page.__file__)), str(data), str(out)]
    wide = clean_environment(COLUMNS="1000")
    return subprocess.run(command, env=wide, capture_output=True, text=True, check=False)


def test_page_of_a_run(tmp_path: Path) -> None:
    """Bars are as long as their medians, what has failed or was not measured says why, and text stays text."""
    made = comparison(sluice=[1.0, 3.0], mosquitto=[8.0], aedes=[1.0])
    made.loads = [*made.loads, BY_NAME["idle"]]
    made.cells["idle", "sluice"] = Cell([result(50.0)], "refused")
    made.cells["pairs-q0", "aedes"] = Cell(failure="<b>did not start</b>")
    made.missing["emqx"] = "no emqx on PATH"
    data, out = tmp_path / "bench.json", tmp_path / "bench.html"
    data.write_text(json.dumps(report.as_json(made, description(), TIMING)))
    done = run_page(data, out)
    assert done.returncode == 0, done.stderr
    text = out.read_text()
    assert re.findall(r'class="bar" style="width:([\d.]+)%"', text)[:2] == ["25.0", "100.0"]
    assert "left:12.5%;width:25.0%" in text
    assert "2.00 (0.25× Mosquitto), 667 k/s" in text
    assert "KB for each connection" in text
    assert "&lt;b&gt;did not start&lt;/b&gt;" in text
    assert "; then it failed" in text
    assert "emqx: not measured: no emqx on PATH" in text
    assert not re.search(r"<script|<link|https?:|src=", text)


@pytest.mark.parametrize("content", ["{}", "[]", "no JSON", '{"loads": {"a": {}}, "results": []}'])
def test_other_files_are_refused(tmp_path: Path, content: str) -> None:
    """A file that no run has written is named."""
    data = tmp_path / "other.json"
    data.write_text(content)
    done = run_page(data, tmp_path / "bench.html")
    assert done.returncode == 2
    assert "other.json" in done.stderr
