"""Client of the admin socket: one request and one answer per connection."""

import json
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from broker.admin import VERSION
from broker.admin.socket import check_length, is_trusted, peer_uid

TIMEOUT: Final = 60.0
"""Seconds for each step. With very many sessions the broker pauses for a while between two walks."""

LONGEST_ANSWER: Final = 16 * 1024 * 1024
"""Bytes of an answer: a thousand rows with the longest names are far smaller."""

_CHUNK: Final = 65_536


class AdminError(Exception):
    """There is no answer; the message says what was tried, what is wrong and how to correct it."""


class NoBrokerError(AdminError):
    """No broker listens on the socket."""


def find(places: Sequence[Path]) -> Path:
    """The first of these paths that exists. Raises AdminError if none does."""
    for path in places:
        if os.path.lexists(path):
            return path
    tried = " or ".join(map(str, places))
    raise AdminError(
        f"no broker has its admin socket at {tried}: is one running, as this user and with this node_name? "
        "--config FILE takes the path from a broker's configuration, --socket PATH names it"
    )


def ask(path: Path, command: str, sort: str | None, limit: int) -> dict[str, Any]:
    """The answer to one request; `sort` None means the broker's default. Raises AdminError if there is no answer."""
    request = {"command": command, "limit": limit} | ({} if sort is None else {"sort": sort})
    try:
        check_length(path)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(TIMEOUT)
            sock.connect(str(path))
            uid = peer_uid(sock)
            if not is_trusted(uid) and os.geteuid() != 0:
                raise AdminError(f"{path}: user {uid} answers there, not this user: the answer is not accepted")
            with suppress(ConnectionError):  # a refusal is sent, and the connection closed, before any request
                sock.sendall(json.dumps(request).encode() + b"\n")
            line = _read_line(sock)
    except (FileNotFoundError, ConnectionError) as error:
        raise NoBrokerError(f"{path}: {_why(error)}") from None
    except OSError as error:
        raise AdminError(f"{path}: {_why(error)}") from None
    return _checked(line, path)


def _read_line(sock: socket.socket) -> bytes:
    received = bytearray()
    while not received.endswith(b"\n"):
        chunk = sock.recv(_CHUNK)
        if not chunk:
            raise ConnectionResetError
        received += chunk
        if len(received) > LONGEST_ANSWER:
            raise OSError(f"an answer of more than {LONGEST_ANSWER} bytes: a broker of this version sends less")
    return bytes(received)


def _why(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such socket: is the broker running, and is this its admin.socket?"
    if isinstance(error, ConnectionRefusedError):
        return "no broker listens on it: the broker has ended, or the socket belongs to another program"
    if isinstance(error, PermissionError):
        return f"user {os.geteuid()} may not open it: only the user that the broker runs as, and root, may"
    if isinstance(error, TimeoutError):
        return f"the broker has not answered within {TIMEOUT:g} s"
    if isinstance(error, ConnectionError):
        return "the broker has closed the connection"
    return error.strerror or str(error)


def _checked(line: bytes, path: Path) -> dict[str, Any]:
    """The decoded answer. Raises AdminError for an error, and for what is not an answer of this version."""
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        answer = None
    if isinstance(answer, dict) and isinstance(answer.get("error"), str):
        raise AdminError(f"{path}: {answer['error']}")
    if not isinstance(answer, dict) or answer.get("version") != VERSION:
        raise AdminError(f"{path}: the answer is not that of a broker of this version")
    return answer
