"""Which cell is the home of a client id. Each cell, and each start, has the same answer."""

from typing import Final
from uuid import uuid4
from zlib import crc32

SLOTS: Final = 1_024


def slot_of(client_id: str) -> int:
    """The slot of a client id, 0 to SLOTS - 1."""
    return crc32(client_id.encode()) % SLOTS


def home_of(client_id: str, cells: int) -> int:
    """The number of the cell, from 1 on, that serves this client id: each has slots that follow each other."""
    return slot_of(client_id) * cells // SLOTS + 1


def new_client_id(cell: int, cells: int) -> str:
    """A client id for a client that has sent none, whose home is this cell."""
    while True:
        client_id = f"auto-{uuid4().hex}"
        if home_of(client_id, cells) == cell:
            return client_id
