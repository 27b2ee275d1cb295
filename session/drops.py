"""FC-35: who is told of each delivery that is dropped."""

from typing import Final

from mypy_extensions import mypyc_attr

from protocol.publish import Publish

PUBLISHER_REASONS: Final = ("address_full", "will_refused")
"""Why messages of a session's client are lost before they are routed to anybody."""
LOST_REASONS: Final = ("unacknowledged", "refused", *PUBLISHER_REASONS)
"""What is told beside the reasons of drops, and counts elsewhere: as sent, discarded or refused."""


@mypyc_attr(allow_interpreted_subclasses=True)
class DropLog:
    """Told of what one session, or the queue of one group, loses."""

    def tell(self, reason: str, publish: Publish) -> None:
        """A delivery is lost. It is called in the middle of a pass, so it may only take a note.

        If the delivery is on disk only (FC-30), `publish` has its QoS and size, and a holder that can read it.
        """
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC
