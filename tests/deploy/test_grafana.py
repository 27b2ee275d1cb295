"""deploy/grafana: each panel says what it shows, and asks for metrics that a broker exports, in PromQL."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.deploy.conftest import DEPLOY
from tests.support.broker.admin import request
from tests.support.broker.events import wait_for_event
from tests.support.brokers import start_sluice

pytestmark = pytest.mark.once

DASHBOARD: Final[dict[str, Any]] = json.loads((DEPLOY / "grafana" / "sluice.json").read_text())

PANELS: Final = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def queries() -> list[str]:
    """What the panels ask Prometheus, with values in place of Grafana's variables."""
    found = [target["expr"] for panel in PANELS for target in panel["targets"]]
    return [re.sub(r"\$(instance|listener)", ".*", each.replace("$__rate_interval", "5m")) for each in found]


def test_panels() -> None:
    """Each panel has a title, a text, a unit and its own place; each query has a legend."""
    names = {each["name"] for each in DASHBOARD["templating"]["list"]}
    places: set[tuple[int, int]] = set()
    for panel in PANELS:
        assert panel["title"]
        assert panel["description"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert all(target["legendFormat"] for target in panel["targets"])
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        place = panel["gridPos"]
        columns = range(place["x"], place["x"] + place["w"])
        cells = {(x, y) for x in columns for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & places
        assert max(x for x, _ in cells) < 24
        places |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD["panels"]))) - {"__rate_interval"}
    assert used == names


def test_the_metrics_exist(tmp_path: Path) -> None:
    """Every metric that a panel asks for is one that a broker with a journal exports, with these labels."""
    sections = {"admin": {"socket": "a.sock"}, "persistence": {"directory": str(tmp_path / "journal")}}
    with start_sluice(tmp_path, sections=sections) as broker:
        wait_for_event(broker, "admin_socket")
        text = request(tmp_path / "a.sock", "/metrics").text
    exported = set(re.findall(r"^# HELP (\w+)", text, re.MULTILINE))
    named = {name for query in queries() for name in re.findall(r"(?:sluice|process)_\w+", query)}
    assert len(named) > 20
    assert {name.removesuffix("_bucket") for name in named} - exported == set()


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)")
def test_promtool(tmp_path: Path) -> None:
    """Prometheus parses each query: as a rule, which promtool checks."""
    rules = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(queries())]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    checked = subprocess.run(["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False)
    assert (checked.returncode, f"{len(rules)} rules found" in checked.stdout) == (0, True), checked.stderr
