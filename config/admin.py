"""The section `admin`: how this machine's operators reach the running broker."""

from typing import Annotated, Final

from pydantic import BeforeValidator

from config.units import found
from config.value_types import Model

CHOSEN: Final = "default"
"""Written in place of a path: the broker chooses one."""

LONGEST_SOCKET: Final = 107
"""Bytes of a Unix socket's path; the kernel has room for no more."""


def _socket(value: object) -> object:
    """Refuse what cannot be the path of a Unix socket."""
    if value is None:
        return None
    if not isinstance(value, str) or not value or "\0" in value or len(value.encode()) > LONGEST_SOCKET:
        raise ValueError(
            f"found {found(value)}: write the path of a socket, 1 to {LONGEST_SOCKET} bytes, "
            f"or {CHOSEN} for one that the broker chooses, or null for none"
        )
    return value


class Admin(Model):
    """How this machine's operators reach the running broker."""

    socket: Annotated[str | None, BeforeValidator(_socket)] = CHOSEN
    """The path of the Unix socket that `sluice top` reads; `default` = one that the broker chooses, None = none."""
