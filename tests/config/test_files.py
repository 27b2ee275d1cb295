"""Certificate files: missing, unreadable, or of the wrong kind."""

import os
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

import config
from broker.cli.main import app
from config import files
from config.layers import dotted
from config.units import found

pytestmark = pytest.mark.once

NOBODY = 65_534
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nMII=\n-----END PRIVATE KEY-----\n"
ENCRYPTED = KEY.replace("BEGIN", "BEGIN ENCRYPTED")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with files of each kind."""
    contents = {"cert": CERTIFICATE, "key": KEY, "both": CERTIFICATE + KEY, "encrypted": ENCRYPTED, "text": "x"}
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
    os.mkfifo(tmp_path / "fifo")
    for name, size in (("large", 1024**2 + 1), ("huge", 64 * 1024**2 + 1)):
        (tmp_path / name).touch()
        os.truncate(tmp_path / name, size)
    (tmp_path / "der").write_bytes(b"\x30\x82\x01\x0a")
    return tmp_path


def broken(folder: Path, **names: str) -> dict[str, str]:
    """The problems of one listener's files, by path."""
    tls = {key: str(folder / name) for key, name in names.items()}
    listeners = [{"bind": "127.0.0.1:0"}, {"tls": tls}]
    return {dotted(path): message for path, message in files.broken(listeners)}


def test_valid(folder: Path) -> None:
    """A certificate with its key in the same file or another, and authorities, are valid."""
    assert broken(folder, certfile="both") == {}
    assert broken(folder, certfile="cert", keyfile="key", cafile="cert") == {}


@pytest.mark.parametrize(
    ("names", "key", "message"),
    [
        ({"certfile": "none"}, "certfile", "there is no file"),
        ({"certfile": "."}, "certfile", "is a directory"),
        ({"certfile": "a\0b"}, "certfile", "cannot be read: embedded null"),
        ({"certfile": "x" * 300}, "certfile", "cannot be read: File name too long"),
        ({"certfile": "cert"}, "certfile", "holds no private key in PEM form, and there is no keyfile"),
        ({"certfile": "key"}, "certfile", "holds no certificate in PEM form"),
        ({"certfile": "der", "keyfile": "key"}, "certfile", "holds no certificate"),
        ({"certfile": "cert", "keyfile": "none"}, "keyfile", "there is no file"),
        ({"certfile": "cert", "keyfile": "text"}, "keyfile", "holds no private key"),
        ({"certfile": "cert", "keyfile": "encrypted"}, "keyfile", "is encrypted"),
        ({"certfile": "both", "cafile": "key"}, "cafile", "holds no certificate"),
        ({"certfile": "both", "cafile": "none"}, "cafile", "there is no file"),
        ({"certfile": "fifo"}, "certfile", "is not a regular file"),
        ({"certfile": "large"}, "certfile", "has 1048577 bytes: expected at most 1048576 (1MiB) in such a file"),
        ({"certfile": "both", "crlfile": "huge"}, "crlfile", "huge' has 67108865 bytes: expected at most 67108864"),
    ],
)
def test_invalid(folder: Path, names: dict[str, str], key: str, message: str) -> None:
    """An unusable file is a mistake at its key, with its name and the reason."""
    problems = broken(folder, **names)
    assert list(problems) == [f"listeners[1].tls.{key}"]
    assert message in problems[f"listeners[1].tls.{key}"]


def test_values_that_are_no_names() -> None:
    """Values of the wrong type are reported by other checks."""
    listeners: object
    for listeners in (None, 5, [5], [{}], [{"tls": 5}], [{"tls": None}], [{"tls": {"certfile": 5}}]):
        assert list(files.broken(listeners)) == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none", "`sluice user add --file FILE NAME` creates it"),
        (".", "is a directory"),
        ("a\0b", "cannot be read"),
        ("huge", "has 67108865 bytes: expected at most 67108864 (64MiB)"),
    ],
)
def test_password_file(folder: Path, name: str, message: str) -> None:
    """A password file that cannot be read is a mistake; one that can is not, whatever is in it."""
    key = ("authentication", "password_file")
    assert list(files.unreadable({key: None})) == []
    assert list(files.unreadable({key: str(folder / "text")})) == []
    ((path, problem),) = files.unreadable({key: str(folder / name)})
    assert path == key
    assert message in problem


@pytest.mark.parametrize("key", ["key_file", "jwks_file", "jwks_cafile"])
def test_files_of_tokens(folder: Path, key: str) -> None:
    """A file for tokens that is not there is a mistake at its key."""
    file = folder / "sluice.yaml"
    own = {"algorithms": ["RS256"], "jwks_url": "https://example.com/"} | {key: str(folder / "none")}
    if key != "jwks_cafile":
        del own["jwks_url"]
    file.write_text(yaml.safe_dump({"authentication": {"jwt": own}}))
    (problem,) = config.check(file)
    assert problem.path == f"authentication.jwt.{key}"
    assert problem.message == f"there is no file '{folder}/none'"


def test_password_file_of_a_configuration(folder: Path) -> None:
    """`sluice config check` finds it, and with a file there are users: a listener may be open to the network."""
    file = folder / "sluice.yaml"
    file.write_text(f"authentication: {{password_file: {folder}/none}}\nlisteners: [{{bind: '0.0.0.0:1883'}}]\n")
    (problem,) = config.check(file)
    assert problem.path == "authentication.password_file"
    (folder / "none").touch()
    assert config.check(file) == []


@pytest.mark.parametrize("key", ["jwt.key_file", "http.header_file", "postgres.password_file", "postgres.cafile"])
def test_other_files_that_are_too_large(folder: Path, key: str) -> None:
    """Keys, secrets and authorities have at most 1 MiB."""
    ((_, problem),) = files.unreadable({("authentication", *key.split(".")): str(folder / "large")})
    named = found(str(folder / "large"))
    assert problem == f"{named} has 1048577 bytes: expected at most 1048576 (1MiB) in such a file"


def test_whether_a_file_is_there(folder: Path) -> None:
    """A name that is too long for a file is none."""
    assert [files.is_there(folder / name) for name in ("cert", "none", "x" * 300)] == [True, False, False]


@pytest.mark.parametrize("section", ["persistence", "metrics"])
@pytest.mark.parametrize("name", ["text", "text/below", "text/far/below"])
def test_directory_that_cannot_be(folder: Path, section: str, name: str) -> None:
    """A file in the place of a directory, or of one above it, is a mistake, as it is at the start."""
    file = folder / "sluice.yaml"
    file.write_text(yaml.safe_dump({section: {"directory": str(folder / name)}}))
    (problem,) = config.check(file)
    assert problem.path == f"{section}.directory"
    assert problem.message == f"found '{folder}/text', which is no directory: name another one, or move it away"


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o702])
def test_journal_that_others_could_replace(folder: Path, mode: int) -> None:
    """A directory that all users may write to is a mistake at its key; one that is not there yet is none."""
    file, journal = folder / "sluice.yaml", folder / "journal"
    file.write_text(yaml.safe_dump({"persistence": {"directory": str(journal)}}))
    assert config.check(file) == []
    journal.mkdir()
    journal.chmod(mode)
    (problem,) = config.check(file)
    assert problem.path == "persistence.directory"
    assert problem.message.startswith(f"its mode is {mode:04o}, so other users can replace the journal: `chmod go-w ")
    journal.chmod(0o700)
    assert config.check(file) == []


@pytest.mark.parametrize(
    ("owner", "group", "mode", "said"),
    [
        (NOBODY, 0, 0o755, f"it belongs to user {NOBODY}, who can replace the journal"),
        (0, NOBODY, 0o2775, "its mode is 2775, so other users can replace the journal"),
    ],
)
def test_journal_of_somebody_else(
    folder: Path, owner: int, group: int, mode: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `run` refuses by owner and group is a mistake, and for root, who may check for another user, a warning."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory away")
    file, journal = folder / "sluice.yaml", folder / "journal"
    file.write_text(yaml.safe_dump({"persistence": {"directory": str(journal)}}))
    journal.mkdir()
    os.chown(journal, owner, group)
    journal.chmod(mode)
    result = CliRunner().invoke(app, ["config", "check", str(file)])
    warning = "warning: persistence.directory: unless the broker runs as another user than this one: "
    assert (result.exit_code, warning + said in result.output) == (0, True), result.output
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY - 1)
    (problem,) = config.check(file)
    assert (problem.path, said in problem.message) == ("persistence.directory", True)


def test_half_of_a_surrogate_pair(folder: Path) -> None:
    """Text that is none is a mistake in our words, wherever it is."""
    file = folder / "sluice.yaml"
    file.write_text('mqtt: {redirect_to: "\\ud800"}\nlisteners: [{bind: "unix:\\ud800"}]\n')
    assert {problem.message for problem in config.check(file)} == {
        "write Unicode text: half of a surrogate pair is in it"
    }
