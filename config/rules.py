"""What must hold between several keys: TLS, names and addresses of listeners, authentication.

The rules work on facts, not on finished models, so that the loader can apply them to whatever part of a
configuration could be understood, and so report every mistake at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from config.addresses import Address
from config.layers import Path, dotted

ERROR_TYPE: Final = "config_rules"
"""The type of the error that Config raises for broken rules; the loader reports them one by one instead."""


@dataclass(frozen=True)
class ListenerFacts:
    """What the rules need to know of one listener; None = not understood, so no rule speaks about it."""

    index: int
    name: str | None
    address: Address | None
    client_certificate: bool | None
    has_cafile: bool | None

    @property
    def path(self) -> Path:
        """Where this listener stands."""
        return ("listeners", self.index)

    def __str__(self) -> str:
        return dotted(self.path) + (f" ({self.address.text})" if self.address else "")


@dataclass(frozen=True)
class BrokenRule:
    """One broken rule: the key to change and what would be right."""

    path: Path
    message: str


def broken(listeners: Sequence[ListenerFacts], allow_anonymous: bool | None, users: bool | None) -> list[BrokenRule]:
    """All the rules that these listeners break; `users`: whether there are any who can authenticate."""
    problems: list[BrokenRule] = []
    for position, listener in enumerate(listeners):
        earlier = listeners[:position]
        problems += _tls(listener)
        problems += _same_name(listener, earlier)
        problems += _same_address(listener, earlier)
        if users is False:
            problems += _authentication(listener, allow_anonymous)
    return problems


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
            message = f"found {listener.name!r}, which is the name of {other} already: give each its own name"
            return [BrokenRule((*listener.path, "name"), message)]
    return []


def _same_address(listener: ListenerFacts, earlier: Sequence[ListenerFacts]) -> list[BrokenRule]:
    for other in earlier:
        if listener.address and other.address and listener.address.clashes(other.address):
            message = f"found {listener.address.text!r}, which {other} takes already: give each its own port"
            return [BrokenRule((*listener.path, "bind"), message)]
    return []


def _authentication(listener: ListenerFacts, allow_anonymous: bool | None) -> list[BrokenRule]:
    """Never open to a network by accident, never a listener that could let no one in."""
    if listener.client_certificate is not False or listener.address is None or allow_anonymous is True:
        return []
    text = listener.address.text
    if allow_anonymous is False:
        message = (
            f"found false, but {listener} has no authentication, so that no client could ever "
            "connect there: set tls.require_client_certificate: true on it, or list users under "
            "authentication.scram, or set allow_anonymous: true"
        )
        return [BrokenRule(("allow_anonymous",), message)]
    if listener.address.is_loopback:
        return []
    message = (
        f"{text} can be reached from other machines and has no authentication: set "
        "tls.require_client_certificate: true on this listener, or list users under authentication.scram, "
        "or bind it to 127.0.0.1 or [::1], or write out allow_anonymous: true to let everyone in"
    )
    return [BrokenRule((*listener.path, "bind"), message)]
