"""The admin socket as a client sees it: request lines, and the rows of an answer by column name."""

import json
import socket
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

Row = dict[str, Any]

TIMEOUT = 20.0


class AdminPeer:
    """One connection to an admin socket."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(TIMEOUT)
        try:
            self.socket.connect(str(path))
        except OSError:
            self.socket.close()
            raise
        self._lines = self.socket.makefile("rb")

    def send(self, *lines: object) -> None:
        """Send lines: bytes as they are, anything else as JSON."""
        self.socket.sendall(b"".join(line if isinstance(line, bytes) else as_line(line) for line in lines))

    def answer(self) -> Any:
        """The next answer; ConnectionError if the broker closes instead."""
        line = self._lines.readline()
        if not line:
            raise ConnectionResetError
        return json.loads(line)

    def ask(self, request: object) -> Any:
        """The answer to one request, or what the broker has said when it closed the connection before."""
        with suppress(ConnectionError):
            self.send(request)
        return self.answer()

    def expect_close(self) -> None:
        """The broker closes without another word."""
        try:
            assert self._lines.readline() == b""
        except ConnectionResetError:
            pass

    def close(self) -> None:
        """Close without a word."""
        self._lines.close()
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def as_line(request: object) -> bytes:
    """One line of JSON."""
    return json.dumps(request).encode() + b"\n"


def rows_of(answer: Any) -> list[Row]:
    """The rows of an answer, each by the names of its columns."""
    return [dict(zip(answer["columns"], row, strict=True)) for row in answer["rows"]]


def ask(path: Path, command: str = "sessions", sort: str = "mqueue", limit: int = 20) -> list[Row]:
    """The rows of one answer, over a connection of its own."""
    with AdminPeer(path) as peer:
        return rows_of(peer.ask({"command": command, "sort": sort, "limit": limit}))
