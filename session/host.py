"""What a session asks of its host: the only interface between flow control and the event loop."""

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)  # the hosts of the tests are not compiled
class Host:
    """Runs a session: a connection, or its substitute while the session is detached."""

    awake: bool = False
    """Whether the session has been woken and passes follow: `wake` sets it, the last pass clears it."""

    def wake(self) -> None:
        """Run passes until the mailbox is empty. Called when it gets its first delivery."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def arm(self, at: int) -> None:
        """Call the session's `on_timer` at about `at` (microseconds of the monotonic clock), not earlier."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def report(self, event: str, detail: str = "") -> None:
        """Log an event for operators, such as `mqueue_full`; never called per message. `detail` is text."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def route_parked(self, now: int) -> None:
        """Route what `Inbound.take_parked` returns, until it returns None (FC-22)."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def close(self, reason_code: int, reason: str) -> None:
        """Disconnect the client with a reason code and a text; the session may outlive the connection."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def pause_publishing(self) -> None:
        """Stop handling the client's PUBLISHes (FC-16); its acknowledgements and PINGREQs are still handled."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def resume_publishing(self) -> None:
        """Handle the client's PUBLISHes again, first those that arrived during the pause."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def read_acknowledgements(self) -> None:
        """The client's queue needs them (FC-16): read on to find them, even behind PUBLISHes that are held back."""


class NoHost(Host):
    """The host of a session that has ended: does nothing."""

    def wake(self) -> None:
        """No pass is needed."""

    def arm(self, at: int) -> None:
        """No timer is needed."""

    def report(self, event: str, detail: str = "") -> None:
        """No event is logged."""

    def route_parked(self, now: int) -> None:
        """No PUBLISH waits."""

    def close(self, reason_code: int, reason: str) -> None:
        """No client is connected."""

    def pause_publishing(self) -> None:
        """No client publishes."""

    def resume_publishing(self) -> None:
        """No client publishes."""
