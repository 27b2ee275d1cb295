"""Files that are mounted by themselves, as containers do it: real bind mounts in a mount namespace."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from broker.auth.authenticators import users_file
from config.mounts import is_mounted_alone
from tests.support.broker.admin import request
from tests.support.broker.events import events, wait_for_event
from tests.support.broker.logins import PASSWORDS, code, sections, write_users
from tests.support.brokers import sluice_config, start_sluice
from tests.support.mounts import mounting
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.once

BAD = 0x86


def remove_ben(users: Path) -> None:
    """As `sluice user remove` does it."""
    users_file.change(users, "ben", lambda _: None)


def keep_a_backup(users: Path) -> None:
    """As an editor does it that keeps the file by another name."""
    text = users.read_text().splitlines()[0] + "\n"
    users.rename(users.with_name("users~"))
    users.write_text(text)


def remove_linked(users: Path) -> None:
    """The file that is replaced has another name, so that it is not deleted."""
    users.with_name("another").hardlink_to(users)
    remove_ben(users)


def in_namespace(tmp_path: Path, file: Path, place: Path, settings: dict[str, Any]) -> BrokerProcess:
    """A broker for which a file or folder is mounted at another place."""
    more = {"admin": {"socket": str(tmp_path / "a.sock")}}
    return start_sluice(tmp_path, sections=settings | more, command=mounting({file: place}))


@pytest.mark.parametrize("change", [remove_ben, keep_a_backup, remove_linked])
def test_users_behind_a_mount(tmp_path: Path, change: Any) -> None:
    """A file of users that is mounted by itself is a warning; one that is replaced is an error, and refuses reloads."""
    users = write_users(tmp_path / "users")
    place = tmp_path / "in a container" / "users"
    with in_namespace(tmp_path, users, place, sections(place)) as broker:
        (warned,) = wait_for_event(broker, "file_mounted_alone")
        assert (warned["key"], warned["file"]) == ("authentication.password_file", str(place))
        change(users)
        (said,) = wait_for_event(broker, "file_not_read")
        assert said["key"] == "authentication.password_file"
        assert "has been replaced, moved or removed where it comes from" in said["detail"]
        answer = request(tmp_path / "a.sock", "/api/v1/reload", "POST")
        assert (answer.status, "mounted by itself" in answer.json["detail"]) == (422, True)
        assert events(broker, "file_read") == []


def test_users_in_a_folder(tmp_path: Path) -> None:
    """Where the folder is mounted, a user who is removed is out."""
    folder = tmp_path / "auth"
    folder.mkdir()
    users = write_users(folder / "users")
    place = tmp_path / "mounted"
    place.mkdir()
    with in_namespace(tmp_path, folder, place, sections(place / "users")) as broker:
        assert code(broker.address(), "ben", PASSWORDS["ben"]) == 0
        remove_ben(users)
        wait_for_event(broker, "file_read")
        assert code(broker.address(), "ben", PASSWORDS["ben"]) == BAD
        assert code(broker.address(), "ann", PASSWORDS["ann"]) == 0
        assert events(broker, "file_mounted_alone") == []


def test_another_folder_in_its_place(tmp_path: Path) -> None:
    """A mounted folder whose place another one takes is still the old one: an error, and reloads are refused."""
    folder = tmp_path / "auth"
    folder.mkdir()
    users = write_users(folder / "users")
    place = tmp_path / "mounted"
    place.mkdir()
    with in_namespace(tmp_path, folder, place, sections(place / "users")) as broker:
        folder.rename(tmp_path / "auth.old")
        folder.mkdir()
        users.write_text((tmp_path / "auth.old" / "users").read_text())
        remove_ben(users)
        (said,) = wait_for_event(broker, "file_not_read")
        assert "is in a folder that has been replaced" in said["detail"]
        assert request(tmp_path / "a.sock", "/api/v1/reload", "POST").status == 422


def test_configuration_behind_a_mount(tmp_path: Path) -> None:
    """A configuration that was replaced behind its mount is no configuration to reload: the answer says so."""
    settings: dict[str, Any] = {"admin": {"socket": str(tmp_path / "a.sock")}}
    file = tmp_path / "sources" / "sluice.yaml"
    file.parent.mkdir()
    file.write_text(sluice_config((), settings | {"listeners": [{"bind": "127.0.0.1:0"}]}))
    command = mounting({file: tmp_path / "sluice.yaml"})
    with start_sluice(tmp_path, sections={"listeners": [{"name": "default"}]}, command=command) as broker:
        (warned,) = wait_for_event(broker, "file_mounted_alone")
        assert (warned["key"], warned["file"]) == ("", str(tmp_path / "sluice.yaml"))
        assert request(tmp_path / "a.sock", "/api/v1/reload", "POST").status == 200
        new = file.with_name("new")
        new.write_text(file.read_text())
        new.replace(file)
        answer = request(tmp_path / "a.sock", "/api/v1/reload", "POST")
        assert (answer.status, "mounted by itself, and has been replaced" in answer.json["detail"]) == (422, True)


def test_check(tmp_path: Path) -> None:
    """`config check` in a container warns of files that are mounted by themselves."""
    users, place = write_users(tmp_path / "users"), tmp_path / "mounted"
    file = tmp_path / "own.yaml"
    file.write_text(yaml.safe_dump(sections(place)))
    command = mounting({users: place}, sys.executable, "-m", "broker", "config", "check", str(file))
    ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert f"own.yaml: warning: authentication.password_file: {place} is mounted by itself" in ran.stderr


def test_sluice_user(tmp_path: Path) -> None:
    """`sluice user` says why it cannot change a file that is mounted by itself."""
    users, place = write_users(tmp_path / "users"), tmp_path / "mounted"
    own = ("user", "remove", "ben", "--file", str(place))
    ran = subprocess.run(
        mounting({users: place}, sys.executable, "-m", "broker", *own),
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode != 0
    assert "it is mounted by itself, and cannot be replaced here" in ran.stderr


NAMES = ["plain", "a b", "back\\slash", "new\nline", "tab\t", "ä"]


def test_names(tmp_path: Path) -> None:
    """Whatever a mounted file is called, it is found, and nothing else is; a link to it is the same."""
    (tmp_path / "from").mkdir()
    sources = {tmp_path / "from" / name: tmp_path / name for name in NAMES}
    looked_at: list[Path] = []
    for number, (source, place) in enumerate(sources.items()):
        source.touch()
        (tmp_path / f"link {number}").symlink_to(place)
        looked_at += [place, tmp_path / f"link {number}", source, tmp_path / "absent"]
    code = (
        "import sys; from pathlib import Path; from config.mounts import mount_of;"
        "found = [mount_of(Path(each)) for each in sys.argv[1:]];"
        "print([Path(each.source).name if each.alone else '-' for each in found])"
    )
    command = mounting(sources, sys.executable, "-c", code, *map(str, looked_at))
    ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert ran.stdout == f"{[found for name in NAMES for found in (name, name, '-', '-')]}\n"
    assert not any(map(is_mounted_alone, sources.values()))
