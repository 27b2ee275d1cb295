"""The rate of a publisher: PUBLISHes a second (FC-23), and their bytes a second (FC-31)."""

from typing import final

from mypy_extensions import mypyc_attr

from protocol.publish import Publish
from session.parked import rest_of
from session.rate import Rate


@mypyc_attr(acyclic=True)
@final
class PublishRate:
    """What one connection may publish. A limit of 0 = none."""

    def __init__(self, per_second: int, bytes_per_second: int, now: int) -> None:
        self._publishes = Rate(per_second, now) if per_second else None
        self._bytes = Rate(bytes_per_second, now) if bytes_per_second else None
        self.of_bytes = False
        """Whether the bytes were what the last `spend` has used up."""

    def spend(self, publish: Publish, now: int) -> int:
        """Count a PUBLISH that has been read; returns when the next one may be, `now` if at once.

        One that is larger than what is left is paid off later, so that it passes whole: it counts with payload, topic,
        properties and 64 bytes.
        """
        at = now
        publishes = self._publishes
        if publishes is not None:
            publishes.spend(now)
            if not publishes.available(now):
                at = publishes.next_at(now)
        own = self._bytes
        self.of_bytes = False
        if own is not None:
            own.spend(now, publish.size + rest_of(publish))
            if not own.available(now):
                self.of_bytes = own.next_at(now) > at
                at = max(at, own.next_at(now))
        return at
