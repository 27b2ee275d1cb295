"""What operators see of one bridge."""

from typing import Final, final

STARTING: Final = "starting"
CONNECTING: Final = "connecting"
CONNECTED: Final = "connected"
WAITING: Final = "waiting"
"""An attempt has failed, or the connection has ended: the next attempt has its time."""
IDLE: Final = "idle"
"""`start: lazy`, and nothing is to be sent."""
ENDED: Final = "ended"
"""`start: once`, and its connection has ended."""


@final
class Status:
    """Its state, and counts since it began."""

    def __init__(self, now: int) -> None:
        self.state = STARTING
        self.since = now
        """When the state began."""
        self.remote = ""
        """The address of the connection, or of the last attempt."""
        self.failure = ""
        """Why the last attempt failed, or the last connection ended; empty once it is connected."""
        self.next_at = 0
        """When the next attempt begins; 0 = none is planned."""
        self.connects = 0
        """Connections that the remote broker has accepted."""
        self.failures = 0
        """Attempts that have failed, since it was connected."""
        self.refused_out = 0
        """Messages that the remote broker has refused for good."""
        self.refused_in = 0
        """Messages of the remote broker that were not let in."""
        self.loops = 0
        """Messages of the remote broker that have been here before."""
        self.filters_refused: list[str] = []
        """Topic filters that the remote broker does not let it subscribe to."""

    def enter(self, state: str, now: int) -> None:
        """Change the state."""
        self.state = state
        self.since = now
