"""The watermark of the process's memory (FC-32)."""

from typing import Final, final

from session.limits import DROP_ARRIVAL, Limits

MEMORY: Final = "memory_watermark"
"""The key of its limit."""

LARGE_LEN: Final = 100
"""Deliveries in a queue that takes nothing more while memory is above the watermark."""
LARGE_BYTES: Final = 65_536
"""Payload bytes of such a queue."""


@final
class Watermark:
    """Whether the process is above it. It is until the memory is down to nine tenths."""

    def __init__(self, high: int = 0) -> None:
        """`high`: resident bytes; 0 = never."""
        self.high = high
        self.reached = False

    def look(self, resident: int) -> bool:
        """Take note of the process's resident bytes; returns whether `reached` has changed."""
        before = self.reached
        low = self.high - self.high // 10
        self.reached = self.high > 0 and resident >= (low if before else self.high)
        return self.reached != before


@final
class Narrowed:
    """The limits of queues while the memory is above the watermark: large ones take nothing more, and drop nothing."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._max_mqueue_len = limits.max_mqueue_len
        self._max_mqueue_bytes = limits.max_mqueue_bytes
        self._mqueue_overflow = limits.mqueue_overflow
        limits.max_mqueue_len = _lower(limits.max_mqueue_len, LARGE_LEN)
        limits.max_mqueue_bytes = _lower(limits.max_mqueue_bytes, LARGE_BYTES)
        limits.mqueue_overflow = DROP_ARRIVAL

    def end(self) -> None:
        """The limits are those of the configuration again."""
        limits = self._limits
        limits.max_mqueue_len = self._max_mqueue_len
        limits.max_mqueue_bytes = self._max_mqueue_bytes
        limits.mqueue_overflow = self._mqueue_overflow


def _lower(limit: int, other: int) -> int:
    """The lower of two limits, the first of which may be 0, none."""
    return min(limit or other, other)
