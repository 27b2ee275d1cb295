"""Unix sockets of the broker: how they are opened and removed, and the user at the other end."""

import os
import socket
import stat
import struct
from pathlib import Path
from typing import Final, Protocol

from config.admin import LONGEST_SOCKET

PROBE_TIMEOUT: Final = 1.0
"""Seconds for an existing socket to accept a connection. A timeout counts as a broker that is busy, not as stale."""

_CREDENTIALS: Final = struct.Struct("3i")
"""Linux's `struct ucred`: process, user and group."""


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


def open_unix(path: Path, mode: int, backlog: int) -> OpenSocket:
    """Listen on a path, which a broker that was killed may have left behind; `mode`: who may connect.

    Raises OSError if something else is there, or another broker listens.
    """
    path = path.absolute()  # valid even if the process changes its directory
    check_length(path)
    return listen(path, mode, backlog)


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


def remove_stale(path: Path) -> None:
    """Remove a socket on which nothing listens. Raises OSError if the path is anything else."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise FileExistsError(f"{path} is {kind_of(found.st_mode)}, not a socket: remove it")
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


def kind_of(mode: int) -> str:
    """What a file of this mode is, in words."""
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    return "a directory" if stat.S_ISDIR(mode) else "a file"


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
