"""Password files as a target: ours and Mosquitto's."""

import random
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from broker.auth.authenticators import password_hash, users_file
from broker.auth.authenticators.users_file import Contents, User
from tests.fuzz.raw import Raw, check_message

ARGON2: Final = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHRzYWx0c2FsdA$Cd7Wa5ZPIqzTg3wVFsaiWsVZXYKjlNrlUWE4fxQ7tRQ"
PBKDF2: Final = f"$7$1$c2FsdHNhbHQ=${'QUFB' * 21}QQ=="
CHEAP: Final = ("$argon2id$v=19$m=8,t=1,p=1$", "$7$1$", "$6$")
"""Hashes that cost nothing to compute."""
LEAST_SECRET: Final = 12
"""Characters; shorter text may be in a message by chance."""
MEMORY: Final = Path("/dev/shm")
"""Files here wait for no disk: changing one syncs it."""
ADDED: Final = User("added", ARGON2, ("role",))


class PasswordFile(Raw):
    """Users or reported mistakes. Each user can be verified; adding one and removing it changes no other."""

    name = "passwords"
    parts = (
        f"ann:{ARGON2}:role,other\n".encode(),
        f"ben:{PBKDF2}\n".encode(),
        f"old:$6$c2FsdA==${'QUFB' * 21}QQ==\n".encode(),
        b"# comment\n",
        b"\n",
        b"\r\n",
        b"plain:password\n",
        "größer:".encode(),
        b"\xff\xfe:",
        b":role,",
        b"$argon2id$v=19$m=4294967295,t=4294967295,p=1$",
        b"$7$99999999999999999999$",
        b"$",
        b",",
        b":",
    )

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="sluice-fuzz-", dir=MEMORY if MEMORY.is_dir() else None)
        self._path = Path(self._folder.name) / "users"

    def check(self, data: bytes) -> None:
        """Read the file, verify a password of each user, and write the file with one user more."""
        self._path.write_bytes(data)
        contents = users_file.read(self._path)
        lines = data.decode(errors="surrogateescape").split("\n")
        for mistake in contents.mistakes:
            check_message(mistake)
            user_name, _, rest = lines[mistake.line - 1].partition(":")
            quoted = rest.partition(":")[0].strip()
            in_name = quoted in user_name  # which may be quoted
            assert len(quoted) < LEAST_SECRET or in_name or quoted not in mistake.text, "a hash is quoted"
        for name, user in contents.users.items():
            assert name == user.name
            users_file.check_name(name)
            users_file.check_roles(user.roles)
            assert users_file.parse(user.line()).users == {name: user}, "it is read as something else"
            if user.hash.startswith(CHEAP):
                password_hash.verify(user.hash, b"password")
        if random.Random(len(data)).random() < 0.2:  # it may wait for a disk
            self._change(data, contents)

    def _change(self, data: bytes, before: Contents) -> None:
        users_file.change(self._path, ADDED.name, lambda _: ADDED)
        after = users_file.read(self._path).users
        assert after.pop(ADDED.name) == ADDED
        assert after == _others(before.users.values()), "others are changed"
        users_file.change(self._path, ADDED.name, lambda _: None)
        left = self._path.read_bytes()
        if ADDED.name.encode() not in data:
            assert left in (data, data + b"\n"), "other lines are changed"


def _others(users: Iterable[User]) -> dict[str, User]:
    return {user.name: user for user in users if user.name != ADDED.name}
