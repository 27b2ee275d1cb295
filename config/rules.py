"""Rules between keys: TLS, names and bind addresses of listeners, names of bridges, authentication.

They work on facts, not on models, so that the loader can apply them to the part of a configuration that could be parsed
and report every mistake at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from config.bind_address import BindAddress
from config.layers import Path, dotted

ERROR_TYPE: Final = "config_rules"
"""The type of the error that Config raises for broken rules; the loader reports them one by one instead."""


@dataclass(frozen=True)
class ListenerFacts:
    """What the rules need to know of one listener; None = could not be parsed, no rule applies."""

    index: int
    name: str | None
    address: BindAddress | None
    client_certificate: bool | None
    has_cafile: bool | None
    anonymous: bool | None = None
    """Its own `allow_anonymous`; None = that of the broker."""

    @property
    def path(self) -> Path:
        """The path of this listener."""
        return ("listeners", self.index)

    def __str__(self) -> str:
        return dotted(self.path) + (f" ({self.address.text})" if self.address else "")


@dataclass(frozen=True)
class BrokenRule:
    """One broken rule: the key to change, what was found and what was expected."""

    path: Path
    message: str


def broken(listeners: Sequence[ListenerFacts], allow_anonymous: bool | None, users: bool | None) -> list[BrokenRule]:
    """All rules that these listeners break; `users`: whether any are configured."""
    problems: list[BrokenRule] = []
    for position, listener in enumerate(listeners):
        earlier = listeners[:position]
        problems += _tls(listener)
        problems += _same_name(listener, earlier)
        problems += _same_address(listener, earlier)
        if users is False:
            problems += _authentication(listener, allow_anonymous)
    return problems


def same_bridges(names: Sequence[str | None]) -> list[BrokenRule]:
    """Bridges that have the name of an earlier one; None = could not be parsed."""
    return [
        BrokenRule(
            ("bridges", index, "name"),
            f"found {name!r}, which is the name of bridges[{names.index(name)}] too: give each its own name",
        )
        for index, name in enumerate(names)
        if name is not None and names.index(name) < index
    ]


def _tls(listener: ListenerFacts) -> list[BrokenRule]:
    if listener.client_certificate and listener.has_cafile is False:
        path = (*listener.path, "tls", "require_client_certificate")
        return [
            BrokenRule(
                path,
                "found true without cafile: set cafile to the authorities that client certificates come from",
            )
        ]
    return []


def _same_name(listener: ListenerFacts, earlier: Sequence[ListenerFacts]) -> list[BrokenRule]:
    for other in earlier:
        if listener.name is not None and listener.name == other.name:
            message = f"found {listener.name!r}, which is the name of {other} too: give each its own name"
            return [BrokenRule((*listener.path, "name"), message)]
    return []


def _same_address(listener: ListenerFacts, earlier: Sequence[ListenerFacts]) -> list[BrokenRule]:
    for other in earlier:
        if listener.address and other.address and listener.address.clashes(other.address):
            message = f"found {listener.address.text!r}, which {other} uses too: give each its own port"
            return [BrokenRule((*listener.path, "bind"), message)]
    return []


def _authentication(listener: ListenerFacts, allow_anonymous: bool | None) -> list[BrokenRule]:
    """A listener must not be open to the network by accident, and clients must be able to connect."""
    allowed = allow_anonymous if listener.anonymous is None else listener.anonymous
    if listener.client_certificate is not False or listener.address is None or allowed is True:
        return []
    text = listener.address.text
    if allowed is False:
        message = (
            f"found false, but {listener} has no authentication, so that no client can "
            "connect to it: set tls.require_client_certificate: true on it, or name "
            "an authentication.password_file, or set allow_anonymous: true"
        )
        path: Path = ("allow_anonymous",)
        return [BrokenRule(path if listener.anonymous is None else (*listener.path, *path), message)]
    if listener.address.is_loopback:
        return []
    message = (
        f"{text} can be reached from other machines and has no authentication: set "
        "tls.require_client_certificate: true on this listener, or name an authentication.password_file, "
        "or bind it to 127.0.0.1 or [::1], or set allow_anonymous: true to accept all clients"
    )
    return [BrokenRule((*listener.path, "bind"), message)]
