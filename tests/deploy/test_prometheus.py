"""deploy/prometheus: the alert rules, against what a broker exports and against Prometheus's own check."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.support.broker.admin import request
from tests.support.broker.events import wait_for_event
from tests.support.brokers import start_sluice

pytestmark = pytest.mark.once

RULES: Final = Path(__file__).parents[2] / "deploy" / "prometheus" / "alerts.yaml"


def test_the_metrics_exist(tmp_path: Path) -> None:
    """Every metric that a rule names is one that a broker with a journal exports."""
    sections = {"admin": {"socket": "a.sock"}, "persistence": {"directory": str(tmp_path / "journal")}}
    with start_sluice(tmp_path, sections=sections) as broker:
        wait_for_event(broker, "admin_socket")
        text = request(tmp_path / "a.sock", "/metrics").text
    exported = set(re.findall(r"^# HELP (\w+)", text, re.MULTILINE))
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    named = {name for rule in rules for name in re.findall(r"sluice_\w+", rule["expr"])}
    assert len(named) >= 7
    assert {name.removesuffix("_bucket") for name in named} - exported == set()


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)")
def test_promtool() -> None:
    """Prometheus accepts the rules."""
    checked = subprocess.run(["promtool", "check", "rules", str(RULES)], capture_output=True, text=True, check=False)
    assert (checked.returncode, "SUCCESS" in checked.stdout) == (0, True), checked.stdout + checked.stderr
