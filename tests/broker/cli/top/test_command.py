"""The command `sluice top`: what it prints once, where it finds a broker, and how it refuses."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker.events import wait_for_event
from tests.support.broker.top import invoke
from tests.support.brokers import start_sluice
from tests.support.process import BrokerProcess, clean_environment

pytestmark = pytest.mark.once

TITLES = ["client", "listener", "version", "state", "mailbox", "mqueue", "bytes", "window", "full", "drops", "patience"]
OPTIONS = ("--sort KEY", "--limit N", "--interval TIME", "--once", "--out FILE", "--socket PATH", "--config FILE")


# -- once


def test_table(path: Path) -> None:
    """Without a terminal the command prints the whole list once, without colours."""
    status, out, err = invoke("--socket", path)
    assert (status, err) == (0, "")
    head, _, titles, first, *others = out.splitlines()
    assert head.startswith("test  20")
    assert head.endswith("  sessions: 3")
    assert titles.split() == TITLES
    assert first.split()[:8] == ["slow", "tcp", "3.1.1", "online", "0", "8", "800", "32/32"]
    assert len(others) == 2
    assert "\x1b" not in out


def test_limit_and_sort(path: Path) -> None:
    """`--sort` and `--limit` choose the rows, and the head says that there are more."""
    _, out, _ = invoke("--socket", path, "--sort", "bytes", "--limit", 1)
    lines = out.splitlines()
    assert lines[0].endswith("  sessions: 3, the first 1 by bytes")
    assert [line.split()[0] for line in lines[3:]] == ["slow"]


def test_groups(path: Path) -> None:
    """`sluice top groups` lists the groups of shared subscriptions."""
    _, out, _ = invoke("groups", "--socket", path)
    _, _, titles, group = out.splitlines()
    assert titles.split() == ["group", "members", "mqueue", "bytes", "drops", "patience"]
    assert group.split() == ["$share/g/t", "1", "8", "800", "0", "0"]


def test_addresses(path: Path) -> None:
    """`sluice top addresses` lists the addresses."""
    _, out, _ = invoke("addresses", "--socket", path)
    titles = out.splitlines()[2].split()
    assert titles == ["address", "policy", "bytes", "limit", "waiting", "parked", "paged", "refused", "drops"]


def test_hostile_name(path: Path) -> None:
    """The table and the CSV show a client id as text, without control characters, markup or a formula."""
    _, out, _ = invoke("--socket", path)
    assert r"=cmd|'/C calc'!A0\x1b[2J\n\u202e[red]x" in out
    _, out, _ = invoke("--socket", path, "--out", "-")
    (found,) = [row["client_id"] for row in csv.DictReader(out.splitlines()) if "cmd" in row["client_id"]]
    assert found == r"'=cmd|'/C calc'!A0\x1b[2J\n\u202e[red]x"


def test_found_by_configuration(broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--config` takes the path of the socket from the broker's own configuration."""
    monkeypatch.chdir(broker.folder)
    status, out, _ = invoke("-c", broker.folder / "sluice.yaml")
    assert (status, "slow" in out) == (0, True)


@pytest.mark.parametrize("runtime", [True, False])
def test_found_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: bool) -> None:
    """The command finds a broker's default socket, also from a shell with another $XDG_RUNTIME_DIR."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    mine = tmp_path / "mine"
    mine.mkdir()
    env = {"TMPDIR": str(tmp_path), "XDG_RUNTIME_DIR": str(mine) if runtime else ""}
    with start_sluice(tmp_path, sections={"admin": {"socket": "default"}}, env=env) as running:
        wait_for_event(running, "admin_socket")
        status, out, _ = invoke(XDG_RUNTIME_DIR=str(mine), SLUICE_NODE_NAME="test")
        assert (status, "sessions: 0" in out) == (0, True)


def test_help() -> None:
    """`top --help` names every option and fits a terminal."""
    status, out, _ = invoke("--help")
    assert status == 0
    for option in OPTIONS:
        assert option in out
    assert max(map(len, out.splitlines())) <= 80


# -- what goes wrong


def test_no_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a broker the command says where it has looked and what would help, and ends with 1."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    status, out, err = invoke(XDG_RUNTIME_DIR=str(runtime), SLUICE_NODE_NAME="node")
    assert (status, out) == (1, "")
    assert f"{runtime}/sluice/node.sock or {tmp_path}/sluice-{os.geteuid()}/node.sock" in err
    assert "--config FILE" in err
    status, out, err = invoke("--socket", tmp_path / "a.sock")
    assert (status, out) == (1, "")
    assert err.startswith(f"sluice: {tmp_path}/a.sock: there is no such socket")


def test_configuration_without_a_socket(tmp_path: Path) -> None:
    """The command refuses a configuration without an admin socket and ends with 1."""
    file = tmp_path / "sluice.yaml"
    file.write_text("admin: {socket: null}\n")
    status, _, err = invoke("-c", file)
    assert (status, err) == (1, "sluice: a broker with this configuration has no admin socket: admin.socket is null\n")


def test_wrong_configuration(tmp_path: Path) -> None:
    """The command refuses a configuration with mistakes and ends with 2."""
    file = tmp_path / "sluice.yaml"
    file.write_text("admin: {sockte: a}\n")
    status, _, err = invoke("-c", file)
    assert status == 2
    assert "admin.sockte" in err


@pytest.mark.parametrize(
    "arguments",
    ["--sort size", "--limit 0", "--limit 1001", "--interval 0.5", "--interval often", "all"],
)
def test_wrong_arguments(arguments: str) -> None:
    """The command refuses wrong arguments with 2 before it asks a broker."""
    status, out, err = invoke(*arguments.split())
    assert (status, out) == (2, "")
    assert err.startswith("Usage: ")


def test_wrong_key_for_the_list(path: Path) -> None:
    """The command refuses a key that the list does not have, names those that it has, and ends with 1."""
    status, _, err = invoke("groups", "--sort", "mailbox", "--socket", path)
    assert (status, "sort: write mqueue, name, bytes, drops or patience" in err) == (1, True)


@pytest.mark.parametrize("arguments", [(), ("--out", "-")])
def test_full_standard_output(path: Path, arguments: tuple[str, ...]) -> None:
    """The command reports a standard output on a full disk in words, without a traceback."""
    command = [sys.executable, "-m", "broker", "top", "--once", "--socket", str(path), *arguments]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, check=False, stdout=full, stderr=subprocess.PIPE, text=True, env=clean_environment()
        )
    assert done.returncode == 1
    assert done.stderr == "sluice: standard output cannot be written to: No space left on device\n"
