"""The DAGs, read by a real Airflow if it is installed."""

import ast
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.deploy.conftest import DEPLOY

pytestmark = pytest.mark.once

DAGS: Final = DEPLOY / "airflow" / "sluice_fairness.py"
PYTHON: Final = "SLUICE_AIRFLOW_PYTHON"
"""A Python with Airflow, if it is not this one: Airflow pins many packages, so it has its own environment."""

INSPECT: Final = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("dags", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
found = {}
for value in vars(module).values():
    if hasattr(value, "task_dict"):
        value.validate() if hasattr(value, "validate") else None
        found[value.dag_id] = {
            "catchup": value.catchup,
            "max_active_runs": value.max_active_runs,
            "timetable": value.timetable.serialize(),
            "tasks": {
                name: {
                    "retries": task.retries,
                    "next": sorted(task.downstream_task_ids),
                    "command": task.bash_command,
                    "env": task.env,
                    "templates": list(task.template_fields),
                }
                for name, task in value.task_dict.items()
            },
        }
print("FOUND " + json.dumps(found, default=str))
"""


@pytest.fixture(scope="module")
def dags(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The DAGs that Airflow reads from the file."""
    python = os.environ.get(PYTHON)
    if python is None and importlib.util.find_spec("airflow") is None:
        pytest.skip(f"Airflow is not installed; {PYTHON} may name a Python that has it")
    home = tmp_path_factory.mktemp("airflow")
    environment = {**os.environ, "AIRFLOW_HOME": str(home), "PYTHONWARNINGS": "ignore"}
    environment.pop("PYTHONPATH", None)
    command = [python or sys.executable, "-c", INSPECT, str(DAGS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("FOUND "))
    found: dict[str, Any] = json.loads(line.removeprefix("FOUND "))
    return found


def test_dags(dags: dict[str, Any]) -> None:
    """One DAG compacts every hour, one compacts and reports every day; runs do not overlap, tasks are retried."""
    assert {name: sorted(dag["tasks"]) for name, dag in dags.items()} == {
        "sluice_compact": ["compact"],
        "sluice_report": ["compact", "report"],
    }
    assert dags["sluice_report"]["tasks"]["compact"]["next"] == ["report"]
    assert [dags[name]["timetable"]["expression"] for name in sorted(dags)] == ["7 * * * *", "0 0 * * *"]
    for dag in dags.values():
        assert (dag["catchup"], dag["max_active_runs"]) == (False, 1)
        assert all(task["retries"] == 3 for task in dag["tasks"].values())
        assert all({"bash_command", "env"} <= set(task["templates"]) for task in dag["tasks"].values())


def test_commands() -> None:
    """The commands are valid for any values: blanks and quotes stay within one argument."""
    values = {
        "SLUICE_METRICS_URI": "a b",
        "SLUICE_STORE_URI": "s'$(id)",
        "SLUICE_OUT_URI": "o",
        "SLUICE_JOB_MASTER": "",
    }
    values |= {"SLUICE_FROM": "2026-11-20", "SLUICE_TO": "2026-11-21"}
    values |= {"SLUICE_BASELINE_FROM": "2026-11-13", "SLUICE_BASELINE_TO": "2026-11-14"}
    written = {name: text for name, text in _constants().items() if name in {"COMPACT", "REPORT"}}
    environment = {"PATH": os.environ["PATH"], "SLUICE_COMMAND": "printf", **values}
    shown = {
        name: subprocess.run(
            ["bash", "-c", text.replace(name.lower(), r"'%s\n'", 1)],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
        ).stdout.splitlines()
        for name, text in written.items()
    }
    assert shown["COMPACT"] == ["--metrics", "a b", "--store", "s'$(id)"]
    assert shown["REPORT"][-4:] == ["--baseline", "2026-11-13..2026-11-14", "--baseline-label", "2026-11-13"]


def test_nothing_is_done_at_import() -> None:
    """Parsing the file only imports, sets names and describes DAGs."""
    tree = ast.parse(DAGS.read_text())
    calls = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert calls <= {"DAG", "BashOperator", "CronDataIntervalTimetable", "datetime", "timedelta"}


def _constants() -> dict[str, str]:
    """The file's constants with text."""
    return {
        node.targets[0].id: node.value.value
        for node in ast.parse(DAGS.read_text()).body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }


def test_airflow_is_looked_for(tmp_path: Path) -> None:
    """The inspection finds no DAGs in an empty file."""
    empty = tmp_path / "empty.py"
    empty.write_text("")
    done = subprocess.run([sys.executable, "-c", INSPECT, str(empty)], capture_output=True, text=True, check=True)
    assert done.stdout == "FOUND {}\n"
