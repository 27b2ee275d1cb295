"""Who a client is, once it has authenticated."""

from typing import Final, NamedTuple

SUPERUSER: Final = "$superuser"
"""The role of users to whom rules do not apply. No token, password file or entry of `scram` can give it."""


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
