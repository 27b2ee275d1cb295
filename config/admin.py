"""The section `admin`: where operators reach the broker, and who may."""

import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from config.tls import Tls
from config.units import found
from config.value_types import Model, Name, check_bind

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


_DIGEST: Final = re.compile("[0-9A-Fa-f]{64}")


def _bind(value: object) -> object:
    """Check where the API is served."""
    return None if value is None else check_bind(value)


def _digest(value: object) -> object:
    """Check the SHA-256 digest of a token; the message does not quote it."""
    if isinstance(value, str) and _DIGEST.fullmatch(value):
        return value.lower()
    raise ValueError("expected the SHA-256 digest of a token, 64 hexadecimal digits: `sluice ctl token NAME` prints it")


def _different(tokens: "list[Token]") -> "list[Token]":
    """Refuse a name that occurs twice: the audit log names tokens."""
    names = [token.name for token in tokens]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"found the name {name} twice: give each token its own")
    return tokens


class Token(Model):
    """A token that gives access to the admin API over TCP."""

    name: Name
    """Its name in the audit log."""
    role: Literal["viewer", "operator"] = "viewer"
    """Viewers read; operators also disconnect, end, drain, clear, publish and reload."""
    sha256: Annotated[SecretStr, BeforeValidator(_digest)]
    """The digest of the token, in hexadecimal: the token itself is not in the configuration."""


class Admin(Model):
    """The admin API: a Unix socket for this machine, and if wanted a TCP port."""

    socket: Annotated[str | None, BeforeValidator(_socket)] = CHOSEN
    """The path of the Unix socket; `default` = the broker chooses, None = no socket."""
    listen: Annotated[str | None, BeforeValidator(_bind)] = None
    """`host:port` where the API is served with tokens and links; None = it is not, until somebody asks for a link."""
    tls: Tls | None = None
    """TLS of `listen`; None = plain HTTP, on loopback only."""
    tokens: Annotated[list[Token], AfterValidator(_different)] = Field(default_factory=list)
    """Who may ask on `listen`."""
