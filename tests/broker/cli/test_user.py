"""`sluice user scram`: the entry that it prints, and what it refuses."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

import config
from broker.auth.scram import Scram
from broker.cli.main import app
from config import ScramUser
from protocol.errors import MQTTError
from tests.conformance.scram import Scram as Client
from tests.conformance.scram import data_of, with_data
from tests.support.process import clean_environment

pytestmark = pytest.mark.once

SECONDS = 20


def invoke(name: str, *options: str, typed: str) -> tuple[int, str, str]:
    """Run the command with this on its standard input: status, standard output, standard error."""
    result = CliRunner().invoke(app, ("user", "scram", *options, "--", name), input=typed)
    return result.exit_code, result.stdout, result.stderr


def users(printed: str, folder: Path) -> list[ScramUser]:
    """The users of a configuration that has the printed entry in it as it is."""
    file = folder / "sluice.yaml"
    file.write_text("authentication:\n  scram:\n" + printed)
    return config.load(file, {}).config.authentication.scram


def fits(user: ScramUser, password: str) -> bool:
    """Whether a client gets in by this password."""
    client = Client(user.username, password)
    exchange = Scram([user], b"d" * 32).begin()
    challenge = exchange.step(data_of(client.first()).encode())
    try:
        outcome = exchange.step(data_of(client.final(with_data(challenge.data))).encode())
    except MQTTError:
        return False
    client.check(with_data(outcome.data))
    return outcome.user == user.username


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\nanother line\n"])
def test_entry(tmp_path: Path, end: str) -> None:
    """The first line of standard input is the password: its entry accepts that password, and does not contain it."""
    status, out, err = invoke("ann", typed=f"correct horse{end}")
    assert (status, err) == (0, "")
    assert "correct" not in out
    (user,) = users(out, tmp_path)
    assert (user.username, user.iterations) == ("ann", 15_000)
    assert fits(user, "correct horse")
    assert not fits(user, "correct")


@pytest.mark.parametrize(
    "name", ["1e3", "true", "null", 'a"b', "a\\b", "a: b", "#x", "- x", "änn", " a ", "a,b=c", "'", "漢"]
)
def test_names(tmp_path: Path, name: str) -> None:
    """The configuration reads any user name back from the entry, and clients authenticate by it."""
    _, out, _ = invoke(name, "--iterations", "4096", typed="x\n")
    (user,) = users(out, tmp_path)
    assert user.username == name
    assert fits(user, "x")


def test_normal_form(tmp_path: Path) -> None:
    """A name is written in the form in which clients send it (RFC 4013)."""
    _, out, _ = invoke("a\u0308\u00ad", typed="x\n")
    assert users(out, tmp_path)[0].username == "ä"


def test_salt_is_new_each_time() -> None:
    """Two entries for one password have no value in common."""
    entries = [yaml.safe_load(invoke("ann", typed="x\n")[1])[0] for _ in range(2)]
    for key in ("salt", "stored_key", "server_key"):
        assert entries[0][key] != entries[1][key]


@pytest.mark.parametrize(
    ("name", "typed", "options", "message"),
    [
        ("ann", "", (), "the password is empty"),
        ("ann", "\n", (), "the password is empty"),
        ("ann", "a\tb\n", (), "control characters forbidden"),
        ("a\tb", "x\n", (), "control characters forbidden"),
        ("", "x\n", (), "username cannot be empty"),
        ("x" * 256, "x\n", (), "1 to 255 bytes"),
        ("ann", "x\n", ("--iterations", "4095"), "found '4095': write at least 4096"),
        ("ann", "x\n", ("--iterations", "10000001"), "found '10000001': write at most 10000000"),
    ],
)
def test_refused(name: str, typed: str, options: tuple[str, ...], message: str) -> None:
    """A name or password that no client could use is refused with status 2, and nothing is printed."""
    status, out, err = invoke(name, *options, typed=typed)
    assert (status, out) == (2, "")
    assert message in err


def ask(*lines: str) -> tuple[int, str, str]:
    """Run the command as a person does who types these lines: status, standard output, what the terminal shows."""
    ours, terminal = pty.openpty()
    command = [sys.executable, "-m", "broker", "user", "scram", "ann"]
    with subprocess.Popen(
        command,
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=terminal,
        env=clean_environment(),
        start_new_session=True,  # no other terminal is in reach
        text=True,
    ) as process:
        os.close(terminal)
        seen = b""
        for line in lines:
            while not seen.endswith(b": "):
                seen += os.read(ours, 1000)
            os.write(ours, line.encode() + b"\n")
            seen += b"\n"
        out, _ = process.communicate(timeout=SECONDS)
        os.close(ours)
        return process.returncode, out, seen.decode()


def test_password_is_asked_for(tmp_path: Path) -> None:
    """At a terminal the password is asked for twice and not shown."""
    status, out, seen = ask("correct horse", "correct horse")
    assert status == 0
    assert "correct" not in seen
    assert "Password" in seen
    assert fits(users(out, tmp_path)[0], "correct horse")


def test_password_typed_wrong(tmp_path: Path) -> None:
    """Two different passwords at the terminal are asked for again."""
    status, out, seen = ask("correct horse", "correct hose", "correct horse", "correct horse")
    assert status == 0
    assert seen.count("Password") == 2
    assert fits(users(out, tmp_path)[0], "correct horse")
