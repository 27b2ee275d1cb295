"""What a session asks of whoever runs it: the one seam between flow control and the event loop."""

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)  # the hosts of the tests are not compiled
class Host:
    """Runs sessions. The broker's connections are hosts; so is whatever stands in for a client that is away."""

    def wake(self) -> None:
        """The mailbox has got its first delivery: run passes until it is empty. Called once per batch."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def arm(self, at: int) -> None:
        """Call the session's `on_timer` at about `at` (microseconds of the monotonic clock), not earlier."""
        raise NotImplementedError  # abstract

    def report(self, event: str, detail: str = "") -> None:
        """Something that an operator should read once, such as `mqueue_full`; never per message. `detail`: in words."""
        raise NotImplementedError  # abstract

    def report_group(self, event: str, group: str, detail: str) -> None:
        """The same of the queue that a group shares (FC-13); `group` is its name."""
        self.report(event, f"{group}: {detail}")

    def let_in(self, now: int) -> None:
        """Route what `Session.let_in` hands out, until there is no more (FC-22)."""
        raise NotImplementedError  # abstract

    def disconnect(self, reason_code: int, reason: str) -> None:
        """Close the client's connection, with the reason in code and words; the session may outlive it."""
        raise NotImplementedError  # abstract

    def pause_publishing(self) -> None:
        """Handle no PUBLISH of the client from now on (FC-16); its acknowledgements and PINGREQs go on."""
        raise NotImplementedError  # abstract

    def resume_publishing(self) -> None:
        """Handle the client's PUBLISHes again, those first that have come meanwhile."""
        raise NotImplementedError  # abstract


class Nobody(Host):
    """The host of a session that is over: nothing will run it any more."""

    def wake(self) -> None:
        """Nothing is left to do."""

    def arm(self, at: int) -> None:
        """Nothing will come due."""

    def report(self, event: str, detail: str = "") -> None:
        """Nobody is concerned."""

    def let_in(self, now: int) -> None:
        """Nothing waits."""

    def disconnect(self, reason_code: int, reason: str) -> None:
        """Nobody is connected."""

    def pause_publishing(self) -> None:
        """Nobody publishes."""

    def resume_publishing(self) -> None:
        """Nobody publishes."""
