"""A host and a watcher that record what is asked of them."""

from collections.abc import Callable

from session.address import Watcher
from session.host import Host


class Noting(Watcher):
    """Counts how often there was room."""

    def __init__(self) -> None:
        self.calls = 0

    def on_room(self) -> None:
        """There is."""
        self.calls += 1


class NotingHost(Host):
    """Takes notes of what it was asked for, in order, and does nothing."""

    def __init__(self) -> None:
        self.wakes = 0
        self.arms: list[int] = []
        self.reports: list[str] = []
        self.details: list[str] = []
        self.disconnects: list[int] = []
        self.paused = False
        """Whether the client's PUBLISHes wait (FC-16)."""
        self.on_let_in: Callable[[], None] = lambda: None

    def wake(self) -> None:
        """Note it; passes follow."""
        self.wakes += 1
        self.awake = True

    def arm(self, at: int) -> None:
        """Note for when."""
        self.arms.append(at)

    def report(self, event: str, detail: str = "") -> None:
        """Note the event, and what it says."""
        self.reports.append(event)
        self.details.append(detail)

    def route_parked(self, now: int) -> None:
        """Let whoever has the session do it."""
        self.on_let_in()

    def close(self, reason_code: int, reason: str) -> None:
        """Note the reason code."""
        self.disconnects.append(reason_code)

    def pause_publishing(self) -> None:
        """Note it."""
        assert not self.paused
        self.paused = True

    def resume_publishing(self) -> None:
        """Note it."""
        assert self.paused
        self.paused = False
