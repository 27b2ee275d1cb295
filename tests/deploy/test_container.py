"""The image and compose: what can be shown without a container engine."""

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from typer.testing import CliRunner

import config
from broker.cli.main import app
from tests.deploy.conftest import DEPLOY
from tests.support.broker.events import wait_for_event
from tests.support.brokers import start_sluice

pytestmark = pytest.mark.once

ROOT: Final = DEPLOY.parent
COMPOSE: Final = DEPLOY / "compose"


def steps() -> list[list[tuple[str, str]]]:
    """The instructions of each stage of the Containerfile."""
    text = (DEPLOY / "container" / "Containerfile").read_text().replace("\\\n", " ")
    found = [line.partition(" ") for line in text.splitlines() if line and not line.startswith("#")]
    stages: list[list[tuple[str, str]]] = []
    for name, _, rest in found:
        if name == "FROM":
            stages.append([])
        stages[-1].append((name, rest.strip()))
    return stages


def values(stage: list[tuple[str, str]], name: str) -> list[str]:
    """What the instructions of one name say."""
    return [value for found, value in stage if found == name]


def test_the_build_has_all_that_it_needs() -> None:
    """The first stage copies every package, and what the wheel is made of; with a compiler, or it fails."""
    build, _ = steps()
    copied = {name for value in values(build, "COPY") for name in shlex.split(value)[:-1]}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = {pattern.rstrip("*") for pattern in project["tool"]["setuptools"]["packages"]["find"]["include"]}
    assert copied == {*packages, "pyproject.toml", "setup.py", "README.md", "LICENSE"}
    assert all((ROOT / name).exists() for name in copied)
    assert "SLUICE_COMPILE=1" in values(build, "ENV")


def test_the_image_is_careful() -> None:
    """The second stage has no compiler, no root, and its files come from the repository or the first stage."""
    _, image = steps()
    assert values(image, "USER") == ["1883:1883"]
    assert not [value for value in values(image, "RUN") if "apt-get" in value or "pip" in value]
    for value in values(image, "COPY"):
        assert value.startswith("--from=build ") or (ROOT / value.split()[0]).is_file()


def test_the_image_starts(tmp_path: Path) -> None:
    """Its configuration needs users; with them the broker starts, and the health check works, then fails."""
    _, image = steps()
    (command,) = values(image, "CMD")
    assert yaml.safe_load(command) == ["run", "--config", "/etc/sluice/sluice.yaml"]
    file = DEPLOY / "container" / "sluice.yaml"
    assert "allow_anonymous" in str(config.check(file))
    sections = yaml.safe_load(file.read_text().replace("/var/lib/sluice", str(tmp_path)))
    sections["listeners"][0]["bind"] = "127.0.0.1:0"
    sections["admin"]["socket"] = "a.sock"
    (check,) = values(image, "HEALTHCHECK")
    words = yaml.safe_load(check.partition("CMD ")[2])
    words = [str(tmp_path / "a.sock") if word == "/run/sluice/admin.sock" else word for word in words]
    with start_sluice(tmp_path, sections=sections) as broker:
        wait_for_event(broker, "admin_socket")
        assert CliRunner().invoke(app, words[1:]).exit_code == 0
    assert CliRunner().invoke(app, words[1:]).exit_code == 1


def test_compose() -> None:
    """What is mounted exists or is described, Prometheus scrapes where the broker serves, variables are valid."""
    found: dict[str, Any] = yaml.safe_load((COMPOSE / "compose.yaml").read_text())
    readme = (COMPOSE / "README.md").read_text()
    services = found["services"]
    for service in services.values():
        for mount in service["volumes"]:
            source = mount.partition(":")[0]
            made = source.startswith("./") and source[2:] in readme
            assert source in found["volumes"] or (COMPOSE / source).exists() or made
        assert (service["cap_drop"], service["security_opt"]) == (["ALL"], ["no-new-privileges:true"])
    environment = services["broker"]["environment"]
    variables = {key: value.replace("${TOKEN_SHA256:?see README.md}", "0" * 64) for key, value in environment.items()}
    variables["SLUICE_AUTHENTICATION__PASSWORD_FILE"] = str(COMPOSE / "README.md")
    loaded = config.load(DEPLOY / "container" / "sluice.yaml", variables).config
    (scrape,) = yaml.safe_load((COMPOSE / "prometheus.yaml").read_text())["scrape_configs"]
    assert scrape["static_configs"][0]["targets"] == [loaded.admin.listen]
    assert [token.name for token in loaded.admin.tokens] == ["prometheus"]


def test_folders_are_mounted() -> None:
    """No document mounts a single file for the broker: it would stay the old one when another takes its place."""
    found: dict[str, Any] = yaml.safe_load((COMPOSE / "compose.yaml").read_text())
    mounts = found["services"]["broker"]["volumes"]
    for folder in (COMPOSE, DEPLOY / "container"):
        mounts += re.findall(r"-v (\S+)", (folder / "README.md").read_text())
    folders = {"/var/lib/sluice", "/etc/sluice", "/etc/sluice/auth", "/auth"}
    assert {mount.strip("`.,").split(":")[1] for mount in mounts if "FILE" not in mount} == folders
    for made in ("compose", "container"):
        assert "mkdir auth && " in (DEPLOY / made / "README.md").read_text()
