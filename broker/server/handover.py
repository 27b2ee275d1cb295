"""Takes over from the process before: its ports, while it still serves them, and its journal, when it has closed it.

A listener with `reuse_port` is opened (SO_REUSEPORT) before the journal is. While the broker before has the journal,
the connections that come to this one wait in the accept queue: none is refused.
"""

import fcntl
import os
import socket
from collections.abc import Sequence
from pathlib import Path

import structlog

from broker.runtime.os_errors import text_of
from broker.server.listening import open_shared
from broker.storage.directory import LOCK
from config.models import Listener

Opened = dict[str, list[socket.socket]]
"""Listening sockets by listener name."""


def open_ahead(listeners: Sequence[Listener], journal: Path | None) -> Opened:
    """Open the listeners with `reuse_port`, and if there are any wait for the journal. Raises OSError."""
    opened: Opened = {}
    for listener in listeners:
        if listener.reuse_port and listener.address.host:
            try:
                opened[listener.name] = open_shared(listener.host, listener.port)
            except OSError as error:
                why = f"cannot listen on {listener.bind}: {text_of(error)}"
                raise OSError(f"listener {listener.name}: {why}") from error
    if opened and journal is not None:
        _wait_for(journal)
    return opened


def _wait_for(directory: Path) -> None:
    """Wait until no other broker uses this journal."""
    try:
        lock = os.open(directory / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return  # there is none yet, or opening it will say what is wrong
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            structlog.get_logger("sluice").info("journal_in_use", detail="this broker waits until the other one stops")
            fcntl.flock(lock, fcntl.LOCK_EX)
    finally:
        os.close(lock)
