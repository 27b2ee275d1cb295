"""Counts the places that hold a delivery, for its address (FC-24) or for the journal of a kept session (FC-27)."""

from typing import cast

from mypy_extensions import mypyc_attr

from protocol.publish import Publish


@mypyc_attr(allow_interpreted_subclasses=True, acyclic=True)
class Holder:
    """Notified when a delivery enters and leaves a mailbox, mqueue, window or shared queue.

    A Publish refers to its holder, and the garbage collector does not find cycles through it. So a holder refers to no
    Publish, and to nothing that holds one.
    """

    def hold(self, publish: Publish) -> None:
        """A delivery has entered one more place."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def release(self, publish: Publish) -> None:
        """It has left one."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def is_blocking(self) -> bool:
        """Whether PUBLISHes wait for room in the address of the delivery (FC-25)."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def address(self) -> "Holder | None":
        """The `Address` that counts the delivery, if it has one (FC-24)."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def sent(self, packet_id: int, qos: int) -> int:
        """It is about to be sent for the first time. Returns which commit has to come first (FC-27); 0 = none."""
        return 0

    def received(self) -> int:
        """PUBREC has come, PUBREL is about to be sent. Returns which commit has to come first; 0 = none."""
        return 0


def hold(publish: Publish) -> None:
    """A delivery that has a holder has entered a mailbox, mqueue, window or shared queue."""
    cast("Holder", publish.holder).hold(publish)


def release(publish: Publish) -> None:
    """It has left. To move a delivery, call `hold` for the new place first: else it counts as gone in between."""
    cast("Holder", publish.holder).release(publish)


def is_blocking(publish: Publish) -> bool:
    """Whether PUBLISHes wait for room in the address of this delivery (FC-25)."""
    return publish.holder is not None and cast("Holder", publish.holder).is_blocking()
