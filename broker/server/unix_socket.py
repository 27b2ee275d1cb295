"""Unix sockets on which clients of this machine connect."""

from pathlib import Path

from broker.admin.socket import OpenSocket, check_length, listen


def open_unix(path: Path, mode: int, backlog: int) -> OpenSocket:
    """Listen on a path, which a broker that was killed may have left behind; `mode`: who may connect.

    Raises OSError if something else is there, or another broker listens.
    """
    path = path.absolute()  # valid even if the process changes its directory
    check_length(path)
    return listen(path, mode, backlog)
