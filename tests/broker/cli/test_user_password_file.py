"""`sluice user add`, `passwd`, `roles`, `remove` and `list`: a password file from the command line."""

import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from broker.auth.authenticators import password_hash, users_file
from broker.auth.authenticators.users_file import User
from broker.cli.main import app
from tests.support.broker.logins import PASSWORDS, write_users

pytestmark = pytest.mark.once


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of the test's file."""
    return tmp_path / "users"


def user(path: Path, *arguments: str, typed: str | bytes = "") -> tuple[int, str, str]:
    """Run the command on this file: status, standard output, standard error."""
    result = CliRunner().invoke(app, ("user", *arguments, "--file", str(path)), input=typed)
    return result.exit_code, result.stdout, result.stderr


def users(path: Path) -> dict[str, User]:
    """The users in the file, which has no mistakes."""
    found, mistakes = users_file.read(path)
    assert mistakes == []
    return found


def test_a_users_life(path: Path) -> None:
    """A user is added with roles, gets another password, other roles, and is removed; each command says so."""
    added = user(path, "add", "ann", "--role", "ops", "-r", "night", typed="correct horse\n")
    assert added == (0, f"{path}: 'ann' is added\n", "")
    ann = users(path)["ann"]
    assert ann.roles == ("ops", "night")
    assert ann.hash.startswith("$argon2id$")
    assert password_hash.verify(ann.hash, b"correct horse")
    assert user(path, "passwd", "ann", typed="other\n") == (0, f"{path}: 'ann' has another password\n", "")
    changed = users(path)["ann"]
    assert changed.roles == ann.roles
    assert not password_hash.verify(changed.hash, b"correct horse")
    assert password_hash.verify(changed.hash, b"other")
    assert user(path, "roles", "ann", "day") == (0, f"{path}: 'ann' has the roles day\n", "")
    assert users(path)["ann"] == User("ann", changed.hash, ("day",))
    assert user(path, "roles", "ann") == (0, f"{path}: 'ann' has no roles\n", "")
    assert users(path)["ann"].roles == ()
    assert user(path, "remove", "ann") == (0, f"{path}: 'ann' is removed\n", "")
    assert users(path) == {}


@pytest.mark.parametrize(
    ("arguments", "typed", "message"),
    [
        (("add", "ann"), "x\n", "there is a user 'ann' already"),
        (("add", "zoe"), "", "the password is empty"),
        (("add", "zoe"), "\n", "the password is empty"),
        (("add", "zoe"), b"p\xff\n", "the password is not text in UTF-8"),
        (("passwd", "ann"), b"p\xff\n", "the password is not text in UTF-8"),
        (("add", "zoe"), "ä" * 32_768, "the password has 65536 bytes; clients can send 65535 at most"),
        (("passwd", "ann"), "x" * 65_536, "clients can send 65535 at most"),
        (("add", "a:b"), "x\n", "without a colon"),
        (("add", "#a"), "x\n", "not beginning with #"),
        (("add", " a"), "x\n", "printable"),
        (("add", "a\nb"), "x\n", "printable"),
        (("add", ""), "x\n", "printable"),
        (("add", "zoe", "--role", "a b"), "x\n", "role 'a b'"),
        (("passwd", "zoe"), "x\n", "there is no user 'zoe'"),
        (("passwd", "ann"), "\n", "the password is empty"),
        (("roles", "zoe", "ops"), "", "there is no user 'zoe'"),
        (("roles", "ann", "a:b"), "", "role 'a:b'"),
        (("remove", "zoe"), "", "there is no user 'zoe'"),
    ],
)
def test_refused(path: Path, arguments: tuple[str, ...], typed: str | bytes, message: str) -> None:
    """What cannot be done is refused with status 2 and a reason, and the file stays."""
    before = write_users(path).read_bytes()
    status, out, err = user(path, *arguments, typed=typed)
    assert (status, out) == (2, "")
    assert message in err
    assert path.read_bytes() == before


def test_longest_password(path: Path) -> None:
    """A password of as many bytes as CONNECT has room for can be used."""
    assert user(path, "add", "ann", typed="x" * 65_535 + "\n")[0] == 0
    assert password_hash.verify(users(path)["ann"].hash, b"x" * 65_535)


def test_list(path: Path) -> None:
    """Users are listed with the kind of hash and their roles; lines that cannot be used are a failure."""
    write_users(path, PASSWORDS, {"ann": ("ops", "night")})
    assert user(path, "list") == (0, "ann  argon2id       ops,night\nben  argon2id\n", "")
    path.write_text(path.read_text() + "zoe:hunter2\n")
    status, out, err = user(path, "list")
    assert status == 2
    assert out.count("\n") == 2
    assert "line 3" in err
    assert "hunter2" not in out + err


@pytest.mark.parametrize("command", ["passwd", "remove", "list"])
def test_no_file(path: Path, command: str) -> None:
    """Without the file there is nothing to change; only `add` creates it."""
    status, _, err = user(path, command, *(() if command == "list" else ("ann",)), typed="x\n")
    assert status == 2
    assert "No such file" in err
    assert not path.exists()


def test_file_of_the_configuration(path: Path, tmp_path: Path) -> None:
    """Without --file it is the one that the configuration names; without either the command says what it needs."""
    write_users(path)
    config = tmp_path / "sluice.yaml"
    config.write_text(f"authentication: {{password_file: {path}}}\n")
    runner = CliRunner()
    assert runner.invoke(app, ("user", "list", "--config", str(config))).stdout.startswith("ann ")
    environment = {"SLUICE_AUTHENTICATION__PASSWORD_FILE": str(path)}
    assert runner.invoke(app, ("user", "list"), env=environment).stdout.startswith("ann ")
    result = runner.invoke(app, ("user", "list"))
    assert result.exit_code == 2
    assert "--file" in result.stderr


@pytest.mark.skipif(shutil.which("mosquitto_passwd") is None, reason="mosquitto_passwd is not installed")
def test_beside_mosquitto_passwd(path: Path) -> None:
    """Both tools may change one file: neither spoils the other's users."""
    path.touch()
    subprocess.run(["mosquitto_passwd", "-b", str(path), "mia", "secret"], check=True)
    assert user(path, "add", "ann", typed="correct horse\n")[0] == 0
    subprocess.run(["mosquitto_passwd", "-b", str(path), "max", "secret"], check=True)
    found = users(path)
    assert list(found) == ["mia", "ann", "max"]
    assert password_hash.verify(found["ann"].hash, b"correct horse")
    assert all(password_hash.verify(found[name].hash, b"secret") for name in ("mia", "max"))
