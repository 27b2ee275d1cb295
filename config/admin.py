"""The section `admin`: the Unix socket for operators on this machine."""

from typing import Annotated, Final

from pydantic import BeforeValidator

from config.units import found
from config.value_types import Model

CHOSEN: Final = "default"
"""Value that lets the broker choose the path."""

LONGEST_SOCKET: Final = 107
"""Bytes of a Unix socket's path, the kernel's limit."""


def _socket(value: object) -> object:
    """Check the path of a Unix socket."""
    if value is None:
        return None
    if not isinstance(value, str) or not value or "\0" in value or len(value.encode()) > LONGEST_SOCKET:
        raise ValueError(
            f"found {found(value)}: write the path of a socket, 1 to {LONGEST_SOCKET} bytes, "
            f"or {CHOSEN} for one that the broker chooses, or null for none"
        )
    return value


class Admin(Model):
    """The Unix socket for operators on this machine."""

    socket: Annotated[str | None, BeforeValidator(_socket)] = CHOSEN
    """The path of the socket that `sluice top` reads; `default` = the broker chooses, None = no socket."""
