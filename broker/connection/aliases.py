"""The topic aliases of one connection that its client has set (section 3.3.2.3.4)."""

from typing import Final, final

from protocol import reason_codes
from protocol.errors import MQTTError

MOST_ALIASED: Final = 131_072
"""Bytes of the topics that have an alias on one connection: two of the longest, or many usual ones."""


@final
class ReceivedAliases:
    """The topic aliases that a client has set on its connection."""

    def __init__(self) -> None:
        self.topics: dict[int, bytes] = {}
        self._bytes = 0

    def set(self, alias: int, topic: bytes) -> None:
        """Set an alias, in place of an older one. Raises MQTTError if the topics take too much memory."""
        self._bytes += len(topic) - len(self.topics.get(alias, b""))
        if self._bytes > MOST_ALIASED:
            message = f"the topics of all topic aliases have {self._bytes} bytes; at most {MOST_ALIASED} are accepted"
            raise MQTTError(reason_codes.QUOTA_EXCEEDED, message)
        self.topics[alias] = topic
