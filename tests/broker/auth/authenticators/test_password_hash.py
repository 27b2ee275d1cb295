"""Hashes: ours, those that Mosquitto makes, and what is none."""

import shutil
import subprocess
from base64 import b64encode
from hashlib import pbkdf2_hmac
from pathlib import Path

import pytest
from argon2.low_level import Type, hash_secret

from broker.auth.authenticators import users_file
from broker.auth.authenticators.password_hash import check, kind, make, verify
from tests.support.broker.logins import fast_hash

MOSQUITTO_PASSWD = shutil.which("mosquitto_passwd")
SALT = b64encode(b"s" * 12).decode()
DIGEST = b64encode(b"d" * 64).decode()


@pytest.mark.parametrize("password", [b"", b"x", "pässwörd".encode(), b"\xff\0\xfe", b"x" * 65_535])
def test_our_own(password: bytes) -> None:
    """A hash verifies its password and no other, down to the last byte."""
    encoded = make(password)
    check(encoded)
    assert verify(encoded, password)
    assert not verify(encoded, password + b"\0")
    assert not verify(encoded, password[:-1] or b"y")


def test_salt_is_new_each_time() -> None:
    """Two hashes of one password differ."""
    assert make(b"x") != make(b"x")


@pytest.mark.skipif(MOSQUITTO_PASSWD is None, reason="mosquitto_passwd is not installed (Debian: mosquitto)")
@pytest.mark.parametrize("options", [(), ("-H", "sha512"), ("-H", "sha512-pbkdf2")])
def test_mosquitto_passwd(tmp_path: Path, options: tuple[str, ...]) -> None:
    """A file that Mosquitto's own tool has written is read as it is."""
    path = tmp_path / "passwords"
    path.touch()
    wanted = {"ann": "correct horse", "ben x": "pässwörd", "漢": "x"}
    for name, password in wanted.items():
        subprocess.run([str(MOSQUITTO_PASSWD), *options, "-b", str(path), name, password], check=True)
    users, mistakes = users_file.read(path)
    assert mistakes == []
    assert list(users) == list(wanted)
    for name, password in wanted.items():
        assert verify(users[name].hash, password.encode())
        assert not verify(users[name].hash, password.encode() + b"x")


def test_argon2id_of_mosquitto() -> None:
    """Mosquitto 2.1 hashes with argon2id, one pass, 47,104 KiB, and 64 bytes of salt and hash."""
    encoded = hash_secret(b"secret", b"s" * 64, 1, 47_104, 1, 64, Type.ID).decode()
    check(encoded)
    assert verify(encoded, b"secret")
    assert not verify(encoded, b"Secret")


@pytest.mark.parametrize("salt", [b"s" * 12, b"s" * 64])
def test_pbkdf2_of_any_length(salt: bytes) -> None:
    """Mosquitto 2.0 has 12 bytes of salt and 101 iterations, 2.1 64 bytes and 1000."""
    digest = pbkdf2_hmac("sha512", b"secret", salt, 1000)
    encoded = f"$7$1000${b64encode(salt).decode()}${b64encode(digest).decode()}"
    check(encoded)
    assert verify(encoded, b"secret")
    assert not verify(encoded, b"secre")


@pytest.mark.parametrize(
    "encoded",
    [
        "",
        "hunter2",
        "$",
        "$$",
        "$5$x$y",
        "7$101$x$y",
        "$7$",
        "$7$101",
        f"$7$101${SALT}",
        f"$7$0${SALT}${DIGEST}",
        f"$7$-1${SALT}${DIGEST}",
        f"$7$x${SALT}${DIGEST}",
        f"$7$10000001${SALT}${DIGEST}",
        f"$7$101$${DIGEST}",
        f"$7$101${SALT}${DIGEST}$x",
        f"$7$101${SALT}${DIGEST[:-8]}",
        f"$7$101${SALT}$hunter2",
        f"$6${SALT}",
        f"$6$101${SALT}${DIGEST}",
        "$argon2id$hunter2",
        "$argon2i$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaA",
        "$argon2id$v=19$m=1048577,t=1,p=1$c2FsdHNhbHQ$aGFzaA",
        "$argon2id$v=19$m=8,t=65,p=1$c2FsdHNhbHQ$aGFzaA",
        "$argon2id$v=19$m=8000,t=1,p=65$c2FsdHNhbHQ$aGFzaA",
        "$argon2id$v=19$m=8,t=1,p=2$c2FsdHNhbHQ$aGFzaA",
        "$argon2id$v=19$m=8,t=1,p=1$c2FsdA$aGFzaA",
        "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFza",
        "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaB",
        "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$\udcff",
        "$argon2id$v=19$t=1,m=8,p=1$c2FsdHNhbHQ$aGFzaA",
        "$6$" + "x" * 600,
    ],
)
def test_no_hash(encoded: str) -> None:
    """Whatever cannot be verified is refused before it is tried, and not quoted: it may be a password."""
    with pytest.raises(ValueError, match="hash") as caught:
        check(encoded)
    assert "hunter2" not in str(caught.value)


def test_kinds() -> None:
    """Each kind has a name."""
    assert [kind(fast_hash("x")), kind(f"$7$1${SALT}${DIGEST}"), kind(f"$6${SALT}${DIGEST}")] == [
        "argon2id",
        "pbkdf2-sha512",
        "sha512",
    ]
