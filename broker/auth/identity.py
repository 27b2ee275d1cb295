"""Who a client is, once it has authenticated."""

from typing import Final, NamedTuple

SUPERUSER: Final = "$superuser"
"""The role of users to whom rules do not apply. No token, password file or entry of `scram` can give it."""

_NO_ROLES: Final[frozenset[str]] = frozenset()


class Identity(NamedTuple):
    """What is known of an authenticated client."""

    user: str
    """Empty for a client that is let in without a user name: rules and quotas take it as an anonymous one."""
    roles: frozenset[str] = frozenset()
    """Names that rules may use in place of the user."""
    source: str = ""
    """The configuration key of what has authenticated it, such as `password_file`."""
    expires_at: int = 0
    """When it has to authenticate again, in microseconds since 1970 UTC; 0 = never."""
    limits: tuple[tuple[str, int], ...] = ()
    """Keys of `quotas` and their limits, which prevail over those of the configuration."""


def user_and_roles(identity: Identity | None) -> tuple[str | None, frozenset[str]]:
    """What rules and quotas are told of a client; None = it has not authenticated."""
    return (None, _NO_ROLES) if identity is None else (identity.user, identity.roles)
