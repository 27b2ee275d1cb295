"""The admin socket: its path, and which user may have it."""

import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker.server.unix_socket import OpenSocket, check_length, kind_of, listen
from config.admin import CHOSEN
from config.models import Config

BACKLOG: Final = 16

FOLDER: Final = "sluice"

@dataclass(frozen=True)
class SocketPlace:
    """A path, and whether it is a default path."""

    path: Path
    chosen: bool = False


def open_socket(place: SocketPlace) -> OpenSocket:
    """Listen on a path. Raises SocketInUseError if another broker does, OSError for any other obstacle."""
    path = place.path.absolute()  # valid even if the process changes its directory
    check_length(path)
    folder = path.parent
    _make_private(folder)
    if not place.chosen:
        return listen(path, 0o600, BACKLOG)
    try:
        check_private(folder)
    except PermissionError as error:
        raise PermissionError(f"{error}, or set admin.socket") from None
    with _alone_in(folder):
        return listen(path, 0o600, BACKLOG)


def _make_private(folder: Path) -> None:
    """Create the directory, private to this user, if it is missing."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        pass


def check_private(folder: Path) -> None:
    """Refuse a directory in which another user could have the socket; its parent may be writable by all users.

    Raises OSError.
    """
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(f"{folder} is {kind_of(found.st_mode)}, not a directory: remove it")
    if found.st_uid != os.geteuid():
        raise PermissionError(f"{folder} belongs to user {found.st_uid}, not to {os.geteuid()}: remove it")
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077:
        raise PermissionError(f"{folder} is open to other users (mode {mode:04o}): chmod 700 {folder}")


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Lock the directory, so that no other broker acts between the check for a stale socket and its replacement."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def place(config: Config) -> SocketPlace | None:
    """Where this configuration puts the socket; None = it has none. Raises OSError if there is no directory for it."""
    wanted = config.admin.socket
    if wanted is None:
        return None
    if wanted != CHOSEN:
        return SocketPlace(Path(wanted))
    return SocketPlace(default_places(config.node_name)[0], chosen=True)


def default_places(node_name: str) -> list[Path]:
    """The default paths of the socket of a broker of this user; the broker's environment decides which it uses."""
    folders = [Path(tempfile.gettempdir(), f"{FOLDER}-{os.geteuid()}")]
    runtime = _runtime_folder()
    if runtime is not None:
        folders.insert(0, runtime / FOLDER)
    return [folder / f"{node_name}.sock" for folder in folders]


def _runtime_folder() -> Path | None:
    """$XDG_RUNTIME_DIR, if it belongs to this user: `su` may keep another user's."""
    path = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    if not path.is_absolute():
        return None
    try:
        found = path.stat()
    except OSError:
        return None
    return path if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() else None


def is_trusted(uid: int | None) -> bool:
    """Whether the user is this process's own or root. If it is unknown (None), the socket's file mode must suffice."""
    return uid is None or uid in (os.geteuid(), 0)
