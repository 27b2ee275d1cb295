"""Whom a kept session belongs to: what rules look at, beside the client id (FC-27)."""

from typing import NamedTuple


class Owner(NamedTuple):
    """The client of a session's last connection."""

    user: str | None
    """None: it has not authenticated."""
    roles: frozenset[str]
    host: str
    """Its IP address; empty if it has none."""
    listener: str
