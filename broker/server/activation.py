"""Sockets that systemd has opened and passes on (socket activation, sd_listen_fds(3))."""

import os
import socket
from collections.abc import MutableMapping
from typing import Final

FIRST: Final = 3
"""The first descriptor; the others follow."""
UNNAMED: Final = "unknown"

_VARIABLES: Final = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")


def passed_on(environ: MutableMapping[str, str] | None = None, first: int = FIRST) -> dict[str, list[int]]:
    """The descriptors by name; empty if there are none, or if they are for another process.

    The variables are removed: processes that this one starts must not take them for theirs.
    """
    found = os.environ if environ is None else environ
    pid, count, names = (found.pop(name, "") for name in _VARIABLES)
    if pid != str(os.getpid()) or not count.isascii() or not count.isdigit():
        return {}
    descriptors: dict[str, list[int]] = {}
    named = names.split(":") if names else []
    for position in range(int(count)):
        name = named[position] if position < len(named) else UNNAMED
        os.set_inheritable(first + position, False)
        descriptors.setdefault(name, []).append(first + position)
    return descriptors


def sockets_named(name: str, descriptors: dict[str, list[int]]) -> list[socket.socket]:
    """The listening sockets of this name. Raises OSError if there are none, or if they are something else."""
    if name not in descriptors:
        known = ", ".join(sorted(descriptors)) or "none"
        raise OSError(f"systemd has passed no socket of this name (FileDescriptorName=); there are: {known}")
    sockets = [socket.socket(fileno=os.dup(number)) for number in descriptors[name]]
    if not all(_listens(sock) for sock in sockets):
        for sock in sockets:
            sock.close()
        raise OSError("what systemd has passed is not a listening stream socket (ListenStream=, Accept=no)")
    for sock in sockets:
        sock.setblocking(False)
    return sockets


def _listens(sock: socket.socket) -> bool:
    return sock.type == socket.SOCK_STREAM and sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
