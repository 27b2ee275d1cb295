"""FC-27: what kept sessions and groups write to the journal, so that it survives the process."""

from collections.abc import Callable

from mypy_extensions import mypyc_attr, trait

from protocol.publish import Publish
from session.tail import Tail


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueJournal:
    """The part of the journal for one queue: that of a session, or of a shared subscription.

    A method that writes returns the number of the commit that has to be on disk before the packet that follows may be
    sent, 0 if none. The holders of deliveries refer to it, so it refers to no session and no PUBLISH (see `Holder`).
    """

    def add(self, publish: Publish) -> Publish:
        """Write that the session gets a QoS 1 or 2 message. Returns a delivery of its own, with its holder."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def add_pulled(self, publish: Publish, source: "QueueJournal") -> Publish:
        """The same of a message that the session has pulled from a group (FC-13), whose queue is `source`."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def pull_pause(self) -> int:
        """FC-29: for how many microseconds the session pulls nothing, for want of room to write it; 0 = none."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def add_first(self, publish: Publish) -> Publish:
        """The same of a message that returns to the head of the queue (FC-13): after a restart it is there too."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def owns(self, publish: Publish) -> bool:
        """Whether a delivery is one that `add` has returned."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def evicts(self, length: int, size: int) -> bool:
        """FC-30: whether a delivery joins the queue on disk only, which has so many deliveries and payload bytes."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def tail(self, on_read: Callable[[list[Publish]], None], lane: int) -> Tail:
        """FC-30: the end of a lane, on disk only; `on_read` gets what has been read back, in order.

        `lane`: its number, 0 = the queue has no lanes.
        """
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def lanes(self) -> list[int]:
        """FC-30: the numbers of the lanes of which something is on disk only."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def write_state(self) -> int:
        """Write all state except the deliveries, so that older frames are not needed. Returns the commit."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC


@trait
class ReceivedJournal:
    """The part of the journal for the packet ids of the QoS 2 PUBLISHes that one client sends.

    Both methods return the number of the commit that has to be on disk before the answer may be sent, 0 if none.
    """

    def remember(self, packet_id: int) -> int:
        """Write that a QoS 2 packet id of the client waits for PUBREL (FC-21), before PUBREC."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def forget(self, packet_id: int) -> int:
        """Write that PUBREL has come for it, before PUBCOMP; or that it has not come in time (FC-22)."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC
