"""Client of the admin API, for the command line."""

import http.client
import json
import os
import select
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from broker.admin.socket import check_private, is_trusted
from broker.runtime.os_errors import text_of
from broker.server.unix_socket import check_length, peer_uid

TIMEOUT: Final = 60.0
"""Seconds for each step. With very many sessions the broker pauses for a while between two walks."""

QUICK: Final = 10.0
"""The same for questions that need no walk."""

SILENCE: Final = 3.0
"""Seconds without an answer after which it is said that it is still waited for."""

LONGEST_ANSWER: Final = 16 * 1024 * 1024
"""Bytes of an answer: a thousand rows with the longest names are far smaller."""

PREFIX: Final = "/api/v1"


class AdminError(Exception):
    """There is no answer; the message says what was tried, what is wrong and how to correct it."""


class NoBrokerError(AdminError):
    """No broker listens on the socket."""


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket, whose other end has to be this user's or root's."""

    def __init__(self, path: Path, seconds: float) -> None:
        super().__init__("sluice", timeout=seconds)
        self._path = path
        self._seconds = seconds

    def connect(self) -> None:
        """Connect, and check who is there."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self._seconds)
        self.sock.connect(str(self._path))
        uid = peer_uid(self.sock)
        if not is_trusted(uid) and os.geteuid() != 0:
            raise AdminError(f"{self._path}: user {uid} answers there, not this user: the answer is not accepted")

    def wait(self) -> None:
        """Wait for the answer's beginning for a while, and say if there is none."""
        if not select.select([self.sock], [], [], SILENCE)[0]:
            what = f"the broker does not answer; it is waited for, up to {self._seconds:g} s in all"
            sys.stderr.write(f"sluice: {self._path}: {what}\n")
            self.sock.settimeout(self._seconds - SILENCE)


def find(places: Sequence[Path]) -> Path:
    """The first of these paths that exists; standard error says so if the user has other brokers' sockets there.

    Raises AdminError if none does, or if another user could have made it: also root, who may open all sockets, must not
    ask whoever was first in a folder for all users.
    """
    for path in places:
        if os.path.lexists(path):
            _check_owner(path)
            if others := _others(path, places):
                several = f"{path} is asked; there are also {', '.join(map(str, others))}: --socket PATH names one"
                sys.stderr.write(f"sluice: {several}\n")
            return path
    tried = " or ".join(map(str, places))
    raise AdminError(
        f"no broker has its admin socket at {tried}: is one running, as this user and with this node_name? "
        "--config FILE takes the path from a broker's configuration, --socket PATH names it"
    )


def _check_owner(path: Path) -> None:
    """Raise AdminError unless only this user could have made what is at this default path."""
    try:
        check_private(path.parent)
    except OSError as error:
        hint = "what answers there is not trusted; --socket PATH names a broker's socket, also one of another user"
        raise AdminError(f"{error}; {hint}") from None


def _others(path: Path, places: Sequence[Path]) -> list[Path]:
    """Further sockets in the folders of these paths, as far as they are this user's."""
    found: set[Path] = set()
    for folder in {each.parent for each in places}:
        try:
            check_private(folder)
            found |= {each for each in folder.glob("*.sock") if each.is_socket()}
        except OSError:
            pass  # there is none, or it is not this user's
    return sorted(found - {path})


def ask(
    path: Path,
    target: str,
    query: Mapping[str, object] | None = None,
    *,
    method: str = "GET",
    body: object = None,
    prefix: str = PREFIX,
    seconds: float = TIMEOUT,
) -> dict[str, Any]:
    """The answer to one request, such as `ask(path, "/sessions", {"limit": 3})`; values of None are left out.

    After SILENCE standard error says that it is waited for. Raises AdminError if there is none, or if it is a refusal.
    """
    answer = _asked(path, target, query, method, body, prefix, seconds)
    if not isinstance(answer, dict):
        raise _not_ours(path)
    return answer


def ask_list(path: Path, target: str) -> list[dict[str, Any]]:
    """The same for an answer that is a list."""
    answer = _asked(path, target, None, "GET", None, PREFIX, QUICK)
    if not isinstance(answer, list):
        raise _not_ours(path)
    return answer


def _asked(
    path: Path, target: str, query: Mapping[str, object] | None, method: str, body: object, prefix: str, seconds: float
) -> object:
    url = prefix + target + _query(query or {})
    try:
        check_length(path)
        with closing(_UnixConnection(path, seconds)) as connection:
            encoded = None if body is None else json.dumps(body).encode()
            connection.request(method, url, encoded, {"Content-Type": "application/json"} if encoded else {})
            connection.wait()
            answer = connection.getresponse()
            text = answer.read(LONGEST_ANSWER + 1)
    except (FileNotFoundError, ConnectionError, http.client.RemoteDisconnected) as error:
        raise NoBrokerError(f"{path}: {_why(error)}") from None
    except http.client.HTTPException:
        raise _not_ours(path) from None
    except OSError as error:
        raise AdminError(f"{path}: {_why(error, seconds)}") from None
    return _checked(answer.status, text, path)


def stream(path: Path, target: str, query: Mapping[str, object]) -> Iterator[dict[str, Any]]:
    """The data of each server-sent event of an answer. Raises AdminError if there is none, or if it is a refusal."""
    url = PREFIX + target + _query(query)
    try:
        check_length(path)
        with closing(_UnixConnection(path, TIMEOUT)) as connection:
            connection.request("GET", url)
            connection.wait()
            answer = connection.getresponse()
            if answer.status >= http.HTTPStatus.BAD_REQUEST:
                _checked(answer.status, answer.read(LONGEST_ANSWER + 1), path)
            while line := answer.readline(LONGEST_ANSWER):
                if line.startswith(b"data: "):
                    yield json.loads(line.removeprefix(b"data: "))
    except (FileNotFoundError, ConnectionError, http.client.RemoteDisconnected) as error:
        raise NoBrokerError(f"{path}: {_why(error)}") from None
    except http.client.HTTPException:
        raise AdminError(f"{path}: the broker has ended the answer in its middle") from None
    except OSError as error:
        raise AdminError(f"{path}: {_why(error)}") from None


def _query(values: Mapping[str, object]) -> str:
    """The end of a URL. Raises AdminError for a text that is not UTF-8, as an argument of a command may be."""
    given = {key: _text(value) for key, value in values.items() if value is not None}
    try:
        return f"?{urlencode(given)}" if given else ""
    except UnicodeEncodeError as error:
        wrong = error.object.encode(errors="surrogateescape")
        raise AdminError(f"found {repr(wrong)[1:]}, which is not UTF-8: names and topics of MQTT are") from None


def _text(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value


def _why(error: OSError, seconds: float = TIMEOUT) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such socket: is the broker running, and is this its admin.socket?"
    if isinstance(error, ConnectionRefusedError):
        return "no broker listens on it: the broker has ended, or the socket belongs to another program"
    if isinstance(error, PermissionError):
        return f"user {os.geteuid()} may not open it: only the user that the broker runs as, and root, may"
    if isinstance(error, TimeoutError):
        return f"the broker has not answered within {seconds:g} s: has it been stopped, or is its machine overloaded?"
    if isinstance(error, ConnectionError):
        return "the broker has closed the connection"
    return text_of(error)


def _not_ours(path: Path) -> AdminError:
    return AdminError(f"{path}: the answer is not that of a broker of this version")


def _checked(status: int, text: bytes, path: Path) -> object:
    """The decoded answer. Raises AdminError for a refusal, and for what is not an answer of a broker."""
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        raise _not_ours(path) from None
    if status >= http.HTTPStatus.BAD_REQUEST:
        if not isinstance(answer, dict):
            raise _not_ours(path)
        reasons = "; ".join(answer.get("reasons", ()))
        raise AdminError(f"{path}: {answer.get('detail') or reasons or f'status {status}'}")
    return answer
