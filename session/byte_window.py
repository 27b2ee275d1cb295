"""The byte window: the limit of payload bytes on their way to one session (FC-10)."""

from typing import final

from mypy_extensions import mypyc_attr

from protocol.publish import Publish


@mypyc_attr(acyclic=True)
@final
class ByteWindow:
    """Counts QoS 1 and 2 deliveries until they are completed, and QoS 0 until all that was sent has been written.

    `size` is in bytes; 0 means one delivery at a time, whatever its size.
    """

    def __init__(self, size: int) -> None:
        self.bytes = 0
        """Payload bytes that count now."""
        self.unwritten = 0
        """QoS 0 deliveries that count now."""
        self.size = size
        self._unwritten_bytes = 0
        self._uncompleted = 0

    def closed(self, publish: Publish) -> bool:
        """Whether a delivery must wait. One that is larger than the window is sent when the window is empty."""
        if not self.unwritten and not self._uncompleted:
            return False
        return self.size == 0 or self.bytes + publish.size > self.size

    def sent(self, publish: Publish) -> None:
        """A delivery has gone to the outbox for the first time; resending it changes nothing."""
        self.bytes += publish.size
        if publish.qos == 0:
            self.unwritten += 1
            self._unwritten_bytes += publish.size
        else:
            self._uncompleted += 1

    def completed(self, publish: Publish) -> None:
        """A QoS 1 or 2 delivery has left the in-flight window."""
        self.bytes -= publish.size
        self._uncompleted -= 1

    def written(self) -> None:
        """Outbox and transport are empty, or gone with their connection: no QoS 0 counts any more."""
        self.bytes -= self._unwritten_bytes
        self._unwritten_bytes = 0
        self.unwritten = 0

    def clear(self) -> None:
        """The session has ended: empty the window."""
        self.written()
        self.bytes = 0
        self._uncompleted = 0
