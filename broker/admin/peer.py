"""Who is at the other end of a Unix socket."""

import os
import socket
import struct
from typing import Final, Protocol

_CREDENTIALS: Final = struct.Struct("3i")
"""Linux's `struct ucred`: process, user and group."""


class _Socket(Protocol):
    def getsockopt(self, level: int, option: int, size: int, /) -> bytes:
        """As a socket's; loops hand out what only resembles one."""


def peer_uid(sock: _Socket) -> int | None:
    """The user id of the process that opened the other end; None where the system does not say."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    _, uid, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size))
    return int(uid)


def is_trusted(uid: int | None) -> bool:
    """Whether that is this process's own user, or root. Where the system does not say, the socket's mode has to do."""
    return uid is None or uid in (os.geteuid(), 0)
