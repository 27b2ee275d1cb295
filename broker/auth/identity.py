"""Who a client is, once it has authenticated."""

from typing import NamedTuple


class Identity(NamedTuple):
    """What is known of an authenticated client."""

    user: str
    roles: frozenset[str] = frozenset()
    """Names that rules may use in place of the user."""
    source: str = ""
    """The configuration key of what has authenticated it, such as `password_file`."""
