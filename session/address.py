"""Addresses: topics whose deliveries may take up only so much, in all sessions together (FC-24)."""

from typing import Final, final

from mypy_extensions import mypyc_attr

from protocol.publish import Publish
from session.cost import cost
from session.holder import Holder

BLOCK: Final = "block"
PAGE: Final = "page"
DROP: Final = "drop"
FAIL: Final = "fail"

NOT_WATCHED: Final = -1

UNLIMITED: Final = 2**62
"""Bytes: no address has more."""


@final
class AddressRule:
    """An entry of `addresses`. Sizes: bytes as in FC-24a, or on disk; -1 = no limit. Times: microseconds, 0 = never."""

    def __init__(
        self,
        max_size_bytes: int,
        full_policy: str = BLOCK,
        reject_threshold_bytes: int = -1,
        block_timeout: int = 30_000_000,
        page_limit_bytes: int = -1,
        page_full_policy: str = FAIL,
    ) -> None:
        self.max_size_bytes = max_size_bytes
        self.full_policy = full_policy
        self.reject_threshold_bytes = reject_threshold_bytes
        self.block_timeout = block_timeout
        self.page_limit_bytes = page_limit_bytes
        self.page_full_policy = page_full_policy


@mypyc_attr(allow_interpreted_subclasses=True)
class Watcher:
    """Waits until an address has room."""

    def on_room(self) -> None:
        """The address is at or below its mark. Called at each release there, so this only sets a flag."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC


@final
class Address(Holder):
    """One topic with a limit, and what all deliveries of it cost that sessions hold.

    As a holder it refers to no other object, except for a watcher while it is full.
    """

    def __init__(self, topic: bytes, rule: AddressRule) -> None:
        self.topic = topic
        self.rule = rule
        self.size = 0
        """What its deliveries in mailboxes, mqueues, windows and the queues of shared subscriptions cost (FC-24a)."""
        self.waiting = 0
        """PUBLISHes that wait for room: parked, or paged."""
        self.parked = 0
        """This counter and the next three count PUBLISHes since the address was created."""
        self.paged = 0
        self.refused = 0
        self.dropped = 0
        self.watcher: Watcher | None = None
        self.mark: int = NOT_WATCHED
        """At this size or below, each release calls the watcher."""

    def fits(self, size: int) -> bool:
        """Whether deliveries that cost `size` together fit. More than the limit fits only into an empty address."""
        return size == 0 or self.size == 0 or self.size + size <= self.rule.max_size_bytes

    def watch(self, size: int) -> None:
        """Call the watcher as soon as deliveries that cost `size` together fit."""
        self.mark = max(self.rule.max_size_bytes - size, 0)

    def hold(self, publish: Publish) -> None:
        """Add a delivery that a session holds."""
        self.size += cost(publish)

    def release(self, publish: Publish) -> None:
        """Subtract a delivery that a session no longer holds."""
        self.count(-cost(publish))

    def count(self, change: int) -> None:
        """Add a delivery of which only the cost is known; if `change` is negative, subtract one."""
        self.size += change
        if change < 0 and self.size <= self.mark and self.watcher is not None:
            self.watcher.on_room()

    def address(self) -> "Address | None":
        """It counts the bytes itself."""
        return self

    def is_blocking(self) -> bool:
        """Whether PUBLISHes wait for room here (FC-25)."""
        return self.waiting > 0 and self.rule.full_policy == BLOCK
