"""One PUBLISH that waits because its address is full, from when it comes to when it is answered (FC-25, FC-26)."""

from typing import TYPE_CHECKING, final

from protocol.publish import Publish
from session.parked import weight
from session.session import Session

if TYPE_CHECKING:
    from broker.backlog import Backlog


@final
class Parked:
    """A PUBLISH whose acknowledgement is withheld."""

    def __init__(self, backlog: "Backlog", publish: Publish, session: Session, now: int, will: bool = False) -> None:
        self.backlog = backlog
        self.publish = publish
        self.session = session
        self.client_id = session.client_id
        self.will = will
        """Whether it is a will, which waits in line behind others, but is neither refused nor answered."""
        self.since = now
        self.connection = session.inbound.connection
        """The number of its session's connection on which it came."""
        self.weight = weight(publish)
        """Bytes that it takes up of its session's producer window."""
        self.left_behind = 0
        """The same, of what ended sessions may leave behind; 0 = its session goes on."""

    def written(self, now: int) -> None:
        """FC-26: it is on disk. That is as good as routed: its client is answered."""
        self.backlog.written(self, now)

    def not_written(self, now: int) -> None:
        """FC-26: the disk does not take it after all."""
        self.backlog.not_written(self, now)
