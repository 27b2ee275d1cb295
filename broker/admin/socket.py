"""The admin socket: its path, how it is opened and removed, and the user at the other end."""

import fcntl
import os
import socket
import stat
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from config.admin import CHOSEN, LONGEST_SOCKET
from config.models import Config

PROBE_TIMEOUT: Final = 1.0
"""Seconds for an existing socket to accept a connection. A timeout counts as a broker that is busy, not as stale."""

BACKLOG: Final = 16

FOLDER: Final = "sluice"

_CREDENTIALS: Final = struct.Struct("3i")
"""Linux's `struct ucred`: process, user and group."""


@dataclass(frozen=True)
class SocketPlace:
    """A path, and whether it is a default path."""

    path: Path
    chosen: bool = False


class SocketInUseError(OSError):
    """Another broker listens on this path."""


class OpenSocket:
    """A listening socket and its file."""

    def __init__(self, sock: socket.socket, path: Path) -> None:
        self.sock = sock
        self.path = path
        self._identity = _identity(path)

    def remove(self) -> None:
        """Remove the file, unless it is gone or has been replaced by another."""
        try:
            if _identity(self.path) == self._identity:
                self.path.unlink()
        except OSError:
            pass  # the next broker removes it as stale


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


def listen(path: Path, mode: int, backlog: int) -> OpenSocket:
    """Listen on a path that a killed broker may have left behind; `mode`: who may connect. Raises OSError."""
    remove_stale(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        before = os.umask(0o777 & ~mode)  # the file must never be open to more users, not even for a moment
        try:
            sock.bind(str(path))
        finally:
            os.umask(before)
        sock.listen(backlog)
        sock.setblocking(False)
        return OpenSocket(sock, path)
    except OSError:
        sock.close()
        raise


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
        raise NotADirectoryError(f"{folder} is {_kind(found.st_mode)}, not a directory: remove it")
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


def remove_stale(path: Path) -> None:
    """Remove a socket on which nothing listens. Raises OSError if the path is anything else."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise FileExistsError(f"{path} is {_kind(found.st_mode)}, not a socket: remove it")
    if found.st_uid != os.geteuid() and os.geteuid() != 0:
        raise PermissionError(f"{path} belongs to user {found.st_uid}, not to {os.geteuid()}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(PROBE_TIMEOUT)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
        except (BlockingIOError, TimeoutError):
            raise SocketInUseError(f"another broker listens on {path}") from None
        else:
            raise SocketInUseError(f"another broker listens on {path}")


def _identity(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_dev, found.st_ino


def _kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    return "a directory" if stat.S_ISDIR(mode) else "a file"


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


def check_length(path: Path) -> None:
    """Raise OSError if the path is too long for a Unix socket."""
    size = len(os.fsencode(path))
    if size > LONGEST_SOCKET:
        raise OSError(f"{path} has {size} bytes, a socket's path at most {LONGEST_SOCKET}: set admin.socket")


class _Socket(Protocol):
    def getsockopt(self, level: int, option: int, size: int, /) -> bytes:
        """The same as a socket's; event loops return objects that only resemble sockets."""


def peer_uid(sock: _Socket) -> int | None:
    """The user id of the process that opened the other end; None where the system does not say."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    _, uid, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size))
    return int(uid)


def is_trusted(uid: int | None) -> bool:
    """Whether the user is this process's own or root. If it is unknown (None), the socket's file mode must suffice."""
    return uid is None or uid in (os.geteuid(), 0)
