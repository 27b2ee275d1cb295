"""Writes the log to systemd's journal with a field for each value, so that `journalctl` finds lines by them.

It speaks the journal's own protocol: a datagram for each line (https://systemd.io/JOURNAL_NATIVE_PROTOCOL/).
"""

import json
import os
import socket
from collections.abc import Mapping
from typing import Final

import structlog

SOCKET: Final = "/run/systemd/journal/socket"

PREFIX: Final = "SLUICE_"
"""Of our own fields: SLUICE_EVENT, SLUICE_CLIENT_ID and so on."""

PRIORITIES: Final = {"debug": 7, "info": 6, "warning": 4, "error": 3, "critical": 2}
"""The level of each line, as syslog has them."""


def reads(descriptor: int, environ: Mapping[str, str] | None = None) -> bool:
    """Whether the journal reads this descriptor: systemd says which file it is, and a redirection is another one."""
    given = (os.environ if environ is None else environ).get("JOURNAL_STREAM", "")
    try:
        status = os.fstat(descriptor)
    except OSError:
        return False
    return given == f"{status.st_dev}:{status.st_ino}"


class Journald:
    """The last processor of a line: what the journal cannot take goes on to the next one, as text."""

    def __init__(self, path: str = "") -> None:
        """Raises OSError if there is no journal."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            self._socket.connect(path or SOCKET)
        except OSError:
            self._socket.close()
            raise

    def __call__(self, _: object, method: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
        """Send a line."""
        try:
            self._socket.send(encoded(event))
        except OSError:  # it starts anew, has no room, or the line is too long
            return event
        raise structlog.DropEvent

    def close(self) -> None:
        """Send nothing more."""
        self._socket.close()


def encoded(event: structlog.types.EventDict) -> bytes:
    """A line as a datagram."""
    values = {key: _text(value) for key, value in event.items() if key not in {"level", "timestamp"}}
    name, trace = values.get("event", ""), values.get("exception", "")
    told = " ".join([name, *(f"{key}={value}" for key, value in values.items() if key not in {"event", "exception"})])
    fields = {
        "MESSAGE": f"{told}\n{trace}" if trace else told,
        "PRIORITY": str(PRIORITIES.get(str(event.get("level")), 6)),
        "SYSLOG_IDENTIFIER": "sluice",
        **{PREFIX + key.upper(): value for key, value in values.items()},
    }
    return b"".join(_field(key, value.encode("utf-8", "backslashreplace")) for key, value in fields.items())


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _field(key: str, value: bytes) -> bytes:
    """A field; with its length if it has several lines, so that no value can be taken for fields."""
    if b"\n" not in value:
        return b"%b=%b\n" % (key.encode(), value)
    return b"%b\n%b%b\n" % (key.encode(), len(value).to_bytes(8, "little"), value)
