"""Requests and answers of the admin socket; the package's docstring describes them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from broker.admin import DEFAULT_LIMIT, MOST_ROWS, VERSION
from broker.admin.listing import Listing
from broker.admin.scan import Top

_KEYS: Final = frozenset({"version", "command", "sort", "limit"})
_QUOTED: Final = 64
"""Characters of a request that an error quotes."""


class RequestError(Exception):
    """A request that cannot be answered; the message says why and how to correct it."""


@dataclass(frozen=True)
class Request:
    """A valid request."""

    command: str
    sort: str
    limit: int


def parse(line: bytes, listings: Mapping[str, Listing[Any]]) -> Request:
    """Parse one line. Raises RequestError if `listings` cannot answer it."""
    try:
        asked = json.loads(line)
    except (ValueError, RecursionError):
        raise RequestError("this is not JSON: write one object a line") from None
    if not isinstance(asked, dict):
        raise RequestError('this is not an object: write one such as {"command": "sessions"}')
    for key in asked:
        if key not in _KEYS:
            raise RequestError(f"{_quoted(key)} is not known: write {_one_of(_KEYS)}")
    if asked.get("version", VERSION) != VERSION:
        raise RequestError(f"version {_quoted(asked['version'])} is not known: write {VERSION}, or leave it out")
    command = asked.get("command")
    listing = listings.get(command) if isinstance(command, str) else None
    if not isinstance(command, str) or listing is None:
        raise RequestError(f"command {_quoted(command)} is not known: write {_one_of(listings)}")
    sort = asked.get("sort", listing.default)
    if not isinstance(sort, str) or sort not in listing.keys:
        raise RequestError(f"sort {_quoted(sort)} is not known for {command}: write {_one_of(listing.keys)}")
    limit = asked.get("limit", DEFAULT_LIMIT)
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MOST_ROWS:
        raise RequestError(f"limit {_quoted(limit)} is not possible: write 1 to {MOST_ROWS}")
    return Request(command, sort, limit)


def answer(request: Request, top: Top, columns: tuple[str, ...], broker: str) -> bytes:
    """The line of an answer. Its rows are JSON already, so this is fast."""
    head = json.dumps(
        {
            "version": VERSION,
            "command": request.command,
            "sort": request.sort,
            "broker": broker,
            "total": top.total,
            "time_us": top.time_us,
            "clock_us": top.clock_us,
            "columns": columns,
        }
    )
    return f'{head[:-1]}, "rows": [{",".join(top.rows[: request.limit])}]}}\n'.encode()


def error(message: str) -> bytes:
    """The line of an error."""
    return json.dumps({"version": VERSION, "error": message}).encode() + b"\n"


def _quoted(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= _QUOTED else text[:_QUOTED] + "..."


def _one_of(names: Mapping[str, Any] | frozenset[str]) -> str:
    *others, last = sorted(names)
    return f"{', '.join(others)} or {last}"
