"""A host that writes down what the session asks of it."""

from session.host import Host


class NotingHost(Host):
    """Takes notes of what it was asked for, in order, and does nothing."""

    def __init__(self) -> None:
        self.wakes = 0
        self.arms: list[int] = []
        self.reports: list[str] = []
        self.disconnects: list[int] = []

    def wake(self) -> None:
        """Note it."""
        self.wakes += 1

    def arm(self, at: int) -> None:
        """Note for when."""
        self.arms.append(at)

    def report(self, event: str, detail: str = "") -> None:
        """Note the event."""
        self.reports.append(event)

    def disconnect(self, reason_code: int, reason: str) -> None:
        """Note the reason code."""
        self.disconnects.append(reason_code)
