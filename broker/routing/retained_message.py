"""One retained message, without what only the way of a message needs: there may be millions."""

from typing import final

from mypy_extensions import mypyc_attr, u8

from broker.storage.message import Message
from protocol.properties import Properties
from protocol.publish import Publish


@mypyc_attr(acyclic=True)
@final
class RetainedMessage:
    """The message of one topic. It owns its payload: the bytes of the packet that brought it are not kept for it."""

    def __init__(self, publish: Publish, client_id: str, message: Message | None) -> None:
        self.topic = publish.topic
        self.payload = publish.payload
        self.properties: Properties | None = publish.properties
        self.expires_at = publish.expires_at
        """In microseconds; 0 = never."""
        self.client_id = client_id
        """Of its publisher; empty: the broker itself."""
        self.message = message
        """FC-27: its record in the journal; None = it does not survive the process."""
        # A byte each, beside each other: they share eight.
        self.qos: u8 = u8(publish.qos)
        self.current = True
        """Whether it is still the message of its topic."""

    @property
    def size(self) -> int:
        """Bytes of the payload."""
        return len(self.payload)

    def has_expired(self, now: int) -> bool:
        """Whether its Message Expiry Interval has passed."""
        return 0 < self.expires_at <= now
