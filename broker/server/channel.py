"""The channel between the keeper and one cell: the keeper tells the cell which one it is, and gives it its sockets.

Then there are lines. The cell says each second that it lives, and once that it serves, and asks what the keeper counts
for all (broker/server/questions.py). If the channel ends, the other side has ended.
"""

import json
import os
import socket
from pathlib import Path
from typing import Final, NamedTuple

from broker.cluster.cell import Cell

SERVES: Final = b"s"
LIVES: Final = b"."
_MOST_SOCKETS: Final = 250
"""Of one message, by the kernel."""
_LONGEST: Final = 65_536


class Orders(NamedTuple):
    """What a cell is told."""

    cell: Cell
    listeners: dict[str, list[socket.socket]]
    """Listening sockets by the names of their listeners."""


def send_orders(sock: socket.socket, cell: Cell, listeners: dict[str, list[socket.socket]]) -> None:
    """Tell a cell. Raises OSError."""
    fds = [each.fileno() for sockets in listeners.values() for each in sockets]
    names = [[name, len(sockets)] for name, sockets in listeners.items()]
    text = json.dumps([cell.number, cell.cells, str(cell.directory), names]).encode()
    socket.send_fds(sock, [text], fds)


def receive_orders(sock: socket.socket) -> Orders:
    """What this process is told. Raises OSError if the keeper has ended."""
    text, fds, _, _ = socket.recv_fds(sock, _LONGEST, _MOST_SOCKETS)
    if not text:
        raise OSError("the process that starts the cells has ended")
    number, cells, directory, names = json.loads(text)
    rest = iter(fds)
    listeners = {name: [_listening(next(rest)) for _ in range(count)] for name, count in names}
    return Orders(Cell(number, cells, Path(directory)), listeners)


def _listening(fd: int) -> socket.socket:
    os.set_inheritable(fd, False)
    sock = socket.socket(fileno=fd)
    sock.setblocking(False)
    return sock
