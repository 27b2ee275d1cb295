"""What the other cells of this broker have to know (broker/cluster). With one cell nobody asks."""

from collections.abc import Callable

from protocol.publish import Publish
from protocol.subscribe import Subscription
from session.outbound import Outbound


class OtherCells:
    """The other cells, as routing and SUBSCRIBE see them."""

    def subscribes(self, outbound: Outbound, subscription: Subscription, is_first: bool) -> bool:
        """A session subscribes; False = to a group whose home is another cell.

        `is_first`: no session or group of this cell has had the filter.
        """
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def leaves(self, outbound: Outbound, name: str) -> bool:
        """A session leaves a group; False = its home is this cell."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def ended(self, topic_filter: bytes) -> None:
        """No session or group of this cell has this filter any more."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def links_of(self, topic: bytes) -> list[Outbound]:
        """The links to cells that have this topic as a filter, beside those with a subscription to it."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def detached(self, outbound: Outbound) -> None:
        """The client of a session is connected no longer."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def crossed(self) -> int:
        """CL-3: what PUBACK waits for, after a PUBLISH has been routed; 0 = nothing."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def number(self, publish: Publish) -> None:
        """Give a PUBLISH with RETAIN that is about to be routed a time that no other one of this cell has."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def retained(self, publish: Publish, publisher: Outbound | None) -> None:
        """A PUBLISH with RETAIN has been routed."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def unknown(self, topic_filters: list[str]) -> bool:
        """CL-1: whether some of these are not known at each cell that lives."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def when_known(
        self, topic_filters: list[str], then: Callable[[set[bytes]], None], too_late: Callable[[], None]
    ) -> None:
        """CL-1: call `then` once they are, or `too_late` if that takes too long.

        `then` gets the topics of the retained messages that have come meanwhile: FC-6.
        """
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC
