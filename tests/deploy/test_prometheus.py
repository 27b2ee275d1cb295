"""deploy/prometheus: the alert rules, against what a broker exports and against Prometheus's own check."""

import re
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.support.broker.admin import request
from tests.support.broker.events import wait_for_event
from tests.support.brokers import start_sluice
from tests.support.process import Address
from tests.support.prometheus import alerts, health, prometheus, values
from tests.support.waiting import wait_until

pytestmark = pytest.mark.once

RULES: Final = Path(__file__).parents[2] / "deploy" / "prometheus" / "alerts.yaml"


def test_the_metrics_exist(tmp_path: Path) -> None:
    """Every metric that a rule names is one that a broker with a journal and an export has."""
    sections = {"admin": {"socket": "a.sock"}, "persistence": {"directory": str(tmp_path / "journal")}}
    sections["metrics"] = {"directory": str(tmp_path / "metrics")}
    with start_sluice(tmp_path, sections=sections) as broker:
        wait_for_event(broker, "admin_socket")
        text = request(tmp_path / "a.sock", "/metrics").text
    exported = set(re.findall(r"^# HELP (\w+)", text, re.MULTILINE))
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    named = {name for rule in rules for name in re.findall(r"sluice_\w+", rule["expr"])}
    assert len(named) >= 20
    assert {name.removesuffix("_bucket") for name in named} - exported == set()


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)")
def test_promtool() -> None:
    """Prometheus accepts the rules."""
    checked = subprocess.run(["promtool", "check", "rules", str(RULES)], capture_output=True, text=True, check=False)
    assert (checked.returncode, "SUCCESS" in checked.stdout) == (0, True), checked.stdout + checked.stderr


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="Prometheus is not installed (Debian: prometheus)")
def test_scraped(tmp_path: Path) -> None:
    """Prometheus scrapes a broker with a token, as the README says, knows its metrics, and evaluates the rules."""
    token = "a token of Prometheus"
    (tmp_path / "token").write_text(token)
    entry = {"name": "prometheus", "sha256": sha256(token.encode()).hexdigest()}
    with start_sluice(tmp_path, sections={"admin": {"listen": "127.0.0.1:0", "tokens": [entry]}}) as broker:
        (listening,) = wait_for_event(broker, "admin_listening")
        scrape = {
            "job_name": "sluice",
            "authorization": {"credentials_file": str(tmp_path / "token")},
            "static_configs": [{"targets": [f"127.0.0.1:{listening['port']}"]}],
        }
        file = tmp_path / "prometheus.yml"
        often = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "200ms"}
        file.write_text(yaml.safe_dump({"global": often, "rule_files": [str(RULES)], "scrape_configs": [scrape]}))
        with prometheus(file, tmp_path) as where:
            wait_until(lambda: values(where, "up") == ["1"], "Prometheus has scraped the broker")
            exported = request(Address("127.0.0.1", listening["port"]), "/metrics", token=token).text
            known = request(where, "/api/v1/label/__name__/values").json["data"]
            assert set(re.findall(r"^(\w+)[ {]", exported, re.MULTILINE)) - set(known) == set()
            wait_until(lambda: set(health(where)) == {"ok"}, "each rule has been evaluated")
            assert "SluiceDown" not in alerts(where)
            broker.stop()
            wait_until(lambda: "SluiceDown" in alerts(where), "the alert for a broker that is down waits or fires")
