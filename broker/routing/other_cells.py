"""What the other cells of this broker have to know (broker/cluster). With one cell nobody asks."""

from collections.abc import Callable

from protocol.publish import Publish
from session.outbound import Outbound


class OtherCells:
    """The other cells, as routing and SUBSCRIBE see them."""

    def began(self, outbound: Outbound, topic_filter: str) -> None:
        """A session has a subscription that it did not have: one that replaces another is not new."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def ended(self, outbound: Outbound, topic_filter: str) -> None:
        """It has it no longer."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def retained(self, publish: Publish, publisher: Outbound | None) -> None:
        """A PUBLISH with RETAIN has been routed."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def unknown(self, topic_filters: list[str]) -> bool:
        """CL-1: whether some of these are not known at each cell that lives."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def when_known(self, topic_filters: list[str], then: Callable[[], None], too_late: Callable[[], None]) -> None:
        """CL-1: call `then` once they are, or `too_late` if that takes too long."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC
