"""Which broker a command asks that names none: one of this user, never what another user has put in its place."""

import os
import socket
import subprocess
from pathlib import Path

import pytest

from tests.broker.admin.test_socket import DEFAULT, NOBODY, configured, needs_root, open_folder, with_socket
from tests.broker.conftest import Start
from tests.support.brokers import SLUICE
from tests.support.process import clean_environment

__all__ = ["open_folder"]

pytestmark = pytest.mark.once


def run(temporary: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """A command that looks for the broker of the node `test` in this folder for temporary files."""
    env = clean_environment() | {"TMPDIR": str(temporary), "XDG_RUNTIME_DIR": "", "SLUICE_NODE_NAME": "test"}
    command = [*SLUICE, *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)


@needs_root
@pytest.mark.parametrize("command", [["ctl", "status"], ["top", "--once"], ["dashboard"], ["ctl", "trace"]])
def test_root_does_not_ask_a_folder_of_another_user(tmp_path: Path, command: list[str]) -> None:
    """Commands of root refuse a socket at the default path that another user has put there; root may name it."""
    folder = tmp_path / f"sluice-{os.geteuid()}"
    folder.mkdir()
    path = folder / "test.sock"
    with socket.socket(socket.AF_UNIX) as impostor:
        impostor.bind(str(path))
        impostor.listen()
        impostor.settimeout(0.0)
        os.chown(folder, NOBODY, NOBODY)
        ran = run(tmp_path, *command)
        assert ran.returncode == 1
        assert f"{folder} belongs to user {NOBODY}, not to 0" in ran.stderr
        assert "--socket PATH" in ran.stderr
        assert "Traceback" not in ran.stderr
        with pytest.raises(BlockingIOError):  # nobody has connected
            impostor.accept()


@pytest.mark.parametrize("way", ["link", "writable"])
def test_folder_that_others_can_change(tmp_path: Path, way: str) -> None:
    """A link in place of the folder, and one that others may write to, are refused too."""
    folder = tmp_path / f"sluice-{os.geteuid()}"
    if way == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "elsewhere")
    else:
        folder.mkdir()
        folder.chmod(0o777)
    with socket.socket(socket.AF_UNIX) as impostor:
        impostor.bind(str(folder / "test.sock"))
        ran = run(tmp_path, "ctl", "status")
    assert (ran.returncode, str(folder) in ran.stderr) == (1, True)


@needs_root
def test_root_may_name_the_broker_of_another_user(start: Start, open_folder: Path) -> None:
    """A socket that is named is asked whoever owns it, as the service's in /run/sluice."""
    path = open_folder / "a.sock"
    with_socket(start, configured(path))
    os.chown(path, NOBODY, NOBODY)
    os.chown(open_folder, NOBODY, NOBODY)
    assert run(open_folder, "ctl", "status", "--socket", str(path)).returncode == 0


def test_which_of_several_is_asked(start: Start, tmp_path: Path) -> None:
    """With several brokers of a user a command that names none says on standard error which it asks; else nothing."""
    with_socket(start, DEFAULT, TMPDIR=str(tmp_path), XDG_RUNTIME_DIR="")
    assert "is asked" not in run(tmp_path, "ctl", "status").stderr
    with_socket(start, {**DEFAULT, "node_name": "other"}, TMPDIR=str(tmp_path), XDG_RUNTIME_DIR="")
    ran = run(tmp_path, "ctl", "status")
    folder = tmp_path / f"sluice-{os.geteuid()}"
    assert ran.returncode == 0
    assert f"{folder / 'test.sock'} is asked; there are also {folder / 'other.sock'}: --socket PATH" in ran.stderr
    assert '"broker": "test"' in ran.stdout
    assert "is asked" not in run(tmp_path, "ctl", "status", "--socket", str(folder / "other.sock")).stderr
