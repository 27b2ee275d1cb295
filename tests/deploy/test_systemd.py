"""The systemd services, and the timer of the report."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import config
from tests.deploy.conftest import Run

pytestmark = pytest.mark.once

PLACES = {"METRICS": "/m", "STORE": "/s", "REPORTS": "/r"}

needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


@pytest.fixture
def units(deploy: Path, tmp_path: Path) -> list[Path]:
    """The units, with an existing command."""
    made = []
    paths = [path for path in (deploy / "systemd").iterdir() if path.suffix in {".service", ".timer"}]
    for path in sorted(paths):
        text = re.sub("^ExecStart=.*", "ExecStart=/bin/true", path.read_text(), flags=re.MULTILINE)
        made.append(tmp_path / path.name)
        made[-1].write_text(text)
    return made


@needs_systemd
def test_units_are_valid(units: list[Path]) -> None:
    """systemd reports no problems."""
    command = ["systemd-analyze", "verify", "--man=no", *map(str, units)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    complaints = [line for line in checked.stderr.splitlines() if "sluice" in line]
    assert (checked.returncode, complaints) == (0, [])


@needs_systemd
def test_services_are_hardened(units: list[Path]) -> None:
    """systemd rates the exposure of the broker at most 1.5 of 10, that of the report, with Java, at most 2."""
    services = [path for path in units if path.suffix == ".service"]
    limits = {"sluice.service": 15, "sluice-report.service": 20}
    assert {service.name for service in services} == set(limits)
    for service in services:
        command = ["systemd-analyze", "security", "--offline=true", "--no-pager", f"--threshold={limits[service.name]}"]
        command.append(str(service))
        checked = subprocess.run(command, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_broker_keeps_what_it_acknowledges(deploy: Path) -> None:
    """FC-27: the service has a journal, in the one directory that it may write to."""
    service = (deploy / "systemd" / "sluice.service").read_text()
    settings = config.load(deploy / "systemd" / "sluice.yaml", {}).config
    assert re.findall("^StateDirectory=(.*)", service, flags=re.MULTILINE) == ["sluice sluice/metrics"]
    for directory in (settings.persistence.directory, settings.metrics.directory):
        assert directory is not None
        assert directory.parent == Path("/var/lib/sluice")
    assert settings.admin.socket == "/run/sluice/admin.sock"


@needs_systemd
def test_timer_fires_every_night(deploy: Path) -> None:
    """The timer runs once a day, in UTC."""
    timer = (deploy / "systemd" / "sluice-report.timer").read_text()
    (calendar,) = re.findall("^OnCalendar=(.*)", timer, flags=re.MULTILINE)
    command = ["systemd-analyze", "calendar", "--iterations=2", calendar]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert re.findall(r"(\d\d:\d\d:\d\d) UTC", told)[:1] == ["00:20:00"]


def test_script_compacts_then_reports(deploy: Path, script: Run) -> None:
    """A day is compacted, and compared with the same day of the week before, also across the end of a month."""
    done = script(deploy / "systemd" / "sluice-report", "2026-11-03", stand_ins={"sluice": 0}, **PLACES)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "sluice compact --metrics /m --store /s",
        (
            "sluice report --store /s --out /r/2026-11-03 --label 2026-11-03 --from 2026-11-03 --to 2026-11-04"
            " --baseline 2026-10-27..2026-10-28 --baseline-label 2026-10-27"
        ),
    ]


def test_script_hands_options_and_failures_on(deploy: Path, script: Run) -> None:
    """OPTIONS go to the jobs; if the compaction fails there is no report, and the service fails with its code."""
    options = {"OPTIONS": "--master local[1] --quiet"}
    done = script(deploy / "systemd" / "sluice-report", stand_ins={"sluice": 2}, **PLACES, **options)
    assert done.returncode == 2
    assert done.stdout == "sluice compact --metrics /m --store /s --master local[1] --quiet\n"


def test_script_needs_places(deploy: Path, script: Run) -> None:
    """If a location is not set nothing runs, and the message has its name."""
    done = script(deploy / "systemd" / "sluice-report", stand_ins={"sluice": 0}, METRICS="/m")
    assert done.returncode != 0
    assert done.stdout == ""
    assert "STORE" in done.stderr


def test_environment_file_has_all_places(deploy: Path) -> None:
    """The environment file has every variable that the script reads."""
    names = re.findall("^([A-Z]+)=", (deploy / "systemd" / "report.env").read_text(), flags=re.MULTILINE)
    assert set(names) == {"METRICS", "STORE", "REPORTS", "SLUICE", "OPTIONS"}
