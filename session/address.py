"""Addresses: topics whose deliveries may take up only so much, in all sessions together (FC-24)."""

from typing import Final, cast, final

from mypy_extensions import mypyc_attr

from protocol.publish import Publish

BLOCK: Final = "block"
PAGE: Final = "page"
DROP: Final = "drop"
FAIL: Final = "fail"

NOT_WATCHED: Final = -1


@final
class AddressRule:
    """An entry of `addresses`. Sizes are payload bytes (on disk all), -1 = no limit; times microseconds, 0 = never."""

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
    """Somebody who waits until an address has shrunk."""

    def on_room(self) -> None:
        """The address is down to its mark. Called at each release while it is, so this only takes a note."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC


@final
class Address:
    """One topic with a limit, and what the sessions hold of it.

    Messages point to their address, and nothing finds cycles through a message. So it knows nobody, except for a
    watcher while it is full.
    """

    def __init__(self, topic: bytes, rule: AddressRule) -> None:
        self.topic = topic
        self.rule = rule
        self.size = 0
        """Payload bytes of its deliveries in mailboxes, mqueues, windows and the queues of shared subscriptions."""
        self.waiting = 0
        """PUBLISHes that wait for room: parked, or paged."""
        self.parked = 0
        """PUBLISHes that have had to wait, and so on, since the address is known."""
        self.paged = 0
        self.refused = 0
        self.dropped = 0
        self.watcher: Watcher | None = None
        self.mark: int = NOT_WATCHED
        """The size from which downwards the watcher is told of each release."""

    def takes(self, size: int) -> bool:
        """Whether deliveries of `size` bytes together fit. What is larger than the limit goes alone."""
        return size == 0 or self.size == 0 or self.size + size <= self.rule.max_size_bytes

    def watch(self, size: int) -> None:
        """Have the watcher told as soon as deliveries of `size` bytes together fit."""
        self.mark = max(self.rule.max_size_bytes - size, 0)

    def hold(self, size: int) -> None:
        """A session holds a delivery of `size` bytes."""
        self.size += size

    def release(self, size: int) -> None:
        """It holds it no longer."""
        self.size -= size
        if self.size <= self.mark and self.watcher is not None:
            self.watcher.on_room()


def hold(publish: Publish) -> None:
    """A mailbox, mqueue, window or shared queue has taken up a delivery that counts for an address."""
    cast("Address", publish.address).hold(publish.size)


def release(publish: Publish) -> None:
    """It has let go of it. Whoever moves a delivery on takes it up first, or its address looks empty in between."""
    cast("Address", publish.address).release(publish.size)
