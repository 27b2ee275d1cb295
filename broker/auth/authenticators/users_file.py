"""Password files: one line for each user, in Mosquitto's format. `sluice user` writes them, the broker reads them.

    # comment
    ann:$argon2id$v=19$m=19456,t=2,p=1$...$...
    ben:$7$101$...$...:operator,night-shift      with roles, which Mosquitto does not have
"""

import contextlib
import errno
import fcntl
import io
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from broker.auth.authenticators import password_hash
from config.file_sizes import read_bytes
from config.mounts import is_mounted_alone

KEY: Final = "authentication.password_file"

MOST_NAME: Final = 65_535
"""Bytes of the longest user name in CONNECT."""

_NOBODY: Final = "# NAME:HASH, or NAME:HASH:ROLE,ROLE for each user\n"
"""What a file without users has: one that has become empty is a mistake, which takes nobody out of use."""

_ROLE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


class User(NamedTuple):
    """One user."""

    name: str
    hash: str
    roles: tuple[str, ...] = ()

    def line(self) -> str:
        """The line of the file, with its end."""
        roles = ":" + ",".join(self.roles) if self.roles else ""
        return f"{self.name}:{self.hash}{roles}\n"

    def __repr__(self) -> str:
        return f"User({self.name!r})"  # a hash can be guessed at: no log has it


class Mistake(NamedTuple):
    """A line that cannot be used. The text does not quote the hash."""

    line: int
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}"


class Contents(NamedTuple):
    """What a file holds."""

    users: dict[str, User]
    mistakes: list[Mistake]


def parse(text: str) -> Contents:
    """Read the lines of a file; lines that cannot be used are left out, and reported."""
    users: dict[str, User] = {}
    mistakes: list[Mistake] = []
    for number, line in enumerate(text.split("\n"), 1):
        try:
            user = _user(line)
        except ValueError as error:
            mistakes.append(Mistake(number, str(error)))
            continue
        if user is None:
            continue
        if user.name in users:
            mistakes.append(Mistake(number, f"user {user.name!r:.80} has an earlier line, which does not count"))
        users[user.name] = user
    return Contents(users, mistakes)


def read(path: Path) -> Contents:
    """Read a file. Raises OSError."""
    return parse(_text(path))


def check_name(name: str) -> None:
    """Raise ValueError for a user name that a line cannot hold."""
    if not name or name != name.strip() or not name.isprintable() or ":" in name or name.startswith("#"):
        raise ValueError(f"user name {name!r:.80}: write printable characters, without a colon, not beginning with #")
    if len(name.encode()) > MOST_NAME:
        raise ValueError(f"user name of {len(name.encode())} bytes; at most {MOST_NAME} are possible")


def check_roles(roles: Iterable[str]) -> None:
    """Raise ValueError for a name of a role that a line cannot hold."""
    for role in roles:
        if not _ROLE.fullmatch(role):
            raise ValueError(f"role {role!r:.80}: write 1 to 64 of the characters A-Z a-z 0-9 . _ -")


def change(path: Path, name: str, edit: Callable[[User | None], User | None], create: bool = False) -> None:
    """Replace the line of a user by what `edit` makes of it: None = no line.

    `edit` gets the user, or None if there is none; one whose hash or roles cannot be used comes without them. Raises
    OSError, and what `edit` raises; `create`: unless the file exists, it is created.
    """

    def edit_lines(lines: list[str]) -> None:
        found = [index for index, line in enumerate(lines) if _name(line) == name]
        user = edit(_user_or_name(lines[found[-1]]) if found else None)
        for index in reversed(found if user is None else found[:-1]):
            del lines[index]
        if user is None:
            return
        if found:
            lines[found[-1] - len(found) + 1] = user.line()
            return
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += "\n"
        lines.append(user.line())

    _rewrite(path, edit_lines, create)


def _user(line: str) -> User | None:
    """The user of a line; None for comments and empty lines. Raises ValueError."""
    name = _name(line)
    if name is None:
        if line.strip() and not line.startswith("#"):
            raise ValueError("there is no colon behind a user name")
        return None
    check_name(name)
    _, _, rest = line.partition(":")
    encoded, _, names = rest.strip().partition(":")
    password_hash.check(encoded.strip())
    roles = tuple(role.strip() for role in names.split(",")) if names else ()
    check_roles(roles)
    return User(name, encoded.strip(), roles)


def _user_or_name(line: str) -> User:
    try:
        user = _user(line)
    except ValueError:
        user = None
    return User(_name(line) or "", "") if user is None else user


def _name(line: str) -> str | None:
    """The user name of a line; None if it has none."""
    if line.startswith("#") or ":" not in line:
        return None
    return line.partition(":")[0].strip()


def _text(path: Path) -> str:
    # Bytes that are not UTF-8 are in no user name of MQTT, but a file that is written again keeps them.
    return read_bytes(path, KEY).decode(errors="surrogateescape")


def _rewrite(path: Path, edit: Callable[[list[str]], None], create: bool) -> None:
    """Replace the file at once: whoever reads it finds the old or the new one, also after a power cut.

    Raises OSError. Its permissions and owner stay; a new file can be read by its owner only.
    """
    path = path.resolve()  # replace what a symbolic link points to, not the link
    if is_mounted_alone(path):
        why = "it is mounted by itself, and cannot be replaced here: change it where it comes from"
        raise OSError(errno.EBUSY, why)
    with _locked(path.parent) as folder:
        try:
            status: os.stat_result | None = path.stat()
            lines = io.StringIO(_text(path)).readlines()
        except FileNotFoundError:
            if not create:
                raise
            status, lines = None, []
        edit(lines)
        if not lines:
            lines.append(_NOBODY)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
                if status is not None:
                    os.fchmod(file.fileno(), status.st_mode & 0o7777)
                    with contextlib.suppress(PermissionError):  # only root can give files away
                        os.fchown(file.fileno(), status.st_uid, status.st_gid)
                file.writelines(lines)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        os.fsync(folder)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """Hold a lock that other `sluice user` wait for; the file itself is replaced, so that it cannot carry one."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)
