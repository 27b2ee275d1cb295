"""The list of retained messages."""

from base64 import b64encode
from typing import TYPE_CHECKING, Final

from broker.admin.listing import Filter, Key, Listing, decoded, shortened
from broker.admin.rows import LONGEST_PAYLOAD, RetainedRow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.routing.retained import Retained
    from broker.routing.retained_message import RetainedMessage

_KEYS: Final[dict[str, Key["RetainedMessage"]]] = {"bytes": lambda message, _: message.size}

_FILTERS: Final[dict[str, Filter["RetainedMessage"]]] = {
    "topic": lambda message, part: part in decoded(message.topic),
    "sys": lambda message, wanted: message.topic.startswith(b"$SYS/") is wanted,
}


class RetainedListing(Listing["RetainedMessage"]):
    """All retained messages."""

    row_type = RetainedRow
    keys = _KEYS
    filters = _FILTERS
    default = "name"

    def __init__(self, retained: "Retained") -> None:
        self._retained = retained

    def items(self) -> "Iterator[RetainedMessage]":
        """The message of each topic."""
        return self._retained.each()

    def is_there(self, item: "RetainedMessage") -> bool:
        """Whether it is still the message of its topic."""
        return item.current

    def name(self, item: "RetainedMessage") -> str:
        """The topic."""
        return decoded(item.topic)

    def row(self, item: "RetainedMessage", now: int) -> RetainedRow:
        """One message."""
        return RetainedRow(
            topic=shortened(decoded(item.topic)),
            qos=int(item.qos),
            size_bytes=item.size,
            payload=b64encode(item.payload[:LONGEST_PAYLOAD]).decode(),
            publisher=shortened(item.client_id),
        )
