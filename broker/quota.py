"""The quota of one user, and what the user uses of it (FC-31)."""

from collections.abc import Mapping
from typing import Final, final

from session.limits import Limits

OF_SESSIONS: Final = ("max_inflight", "max_mqueue_len", "max_mqueue_bytes", "producer_max_rate")
"""Keys that replace those of `session` with the same name."""


@final
class Quota:
    """How much a user may use. 0 = no limit. Users with equal limits share one."""

    def __init__(self, keys: Mapping[str, int]) -> None:
        """`keys`: those of the configuration, the limits that are set."""
        self.max_connections: int = keys.get("max_connections", 0)
        self.max_kept_sessions: int = keys.get("max_kept_sessions", 0)
        self.max_subscriptions: int = keys.get("max_subscriptions", 0)
        self.max_filter_levels: int = keys.get("max_filter_levels", 0)
        self.max_retained_messages: int = keys.get("max_retained_messages", 0)
        self.max_retained_bytes: int = keys.get("max_retained_bytes", 0)
        self.producer_max_bytes: int = keys.get("producer_max_bytes", 0)
        """Bytes a second."""
        self.of_session = {key: keys[key] for key in OF_SESSIONS if key in keys}
        """What it sets in place of `session`."""
        self.limits: dict[str, Limits] = {}
        """Those of the user's sessions, if it sets any: by the listener, if that has limits of its own; else empty."""


@final
class Usage:
    """What one user uses, with all clients together. It exists while that is anything."""

    def __init__(self, user: str | None) -> None:
        self.user = user
        """None: all clients that have not authenticated."""
        self.connections = 0
        self.sessions = 0
        self.kept_sessions = 0
        """Sessions that outlive their connection."""
        self.retained_messages = 0
        self.retained_bytes = 0

    def idle(self) -> bool:
        """Whether it is nothing."""
        return self.sessions == 0 and self.retained_messages == 0
