"""FC-26 `page`: PUBLISHes that do not fit into an address wait in the journal, in order, until there is room."""

import asyncio
from collections import deque
from typing import Final, final

from broker.storage.errors import StorageError
from broker.storage.kept_address import KeptAddress, Page
from broker.storage.records import DamagedError
from protocol.publish import Publish
from session.address import AddressRule, Watcher

READ_AHEAD: Final = 65_536
LEAST_AHEAD: Final = 4_096
"""Bounds in bytes of what an address reads ahead from its pages: as much as its limit, within these bounds. A larger
message is read alone."""


@final
class Pages:
    """The messages of one address that are in the journal. What is read ahead stays there until it is routed."""

    def __init__(self, kept: KeptAddress, rule: AddressRule, watcher: Watcher) -> None:
        """`watcher.on_room()` is called when `head` was None and is a message now."""
        self._kept = kept
        self._limit = rule.page_limit_bytes
        self._watcher = watcher
        self._ahead: deque[Page] = deque()
        self._read_ahead = max(min(rule.max_size_bytes, READ_AHEAD), LEAST_AHEAD)
        self._reading: asyncio.Task[None] | None = None

    @property
    def length(self) -> int:
        """How many messages there are."""
        return self._kept.pages.length

    def add(self, publish: Publish, client_id: str) -> int | None:
        """Write a message. Returns as `KeptAddress.page`."""
        return self._kept.page(publish, client_id, self._limit)

    def head(self) -> Page | None:
        """The oldest message, without removing it. None if it is still to be read, or there is none."""
        if self._ahead:
            return self._ahead[0]
        if self._reading is None and self.length:
            self._reading = asyncio.get_running_loop().create_task(self._read())
        return None

    def pop(self) -> None:
        """Remove the message of `head`: it is routed in this turn of the loop, so that one commit says both."""
        self._ahead.popleft()
        self._kept.pop()

    def end(self) -> None:
        """The address has room again: nothing may be left."""
        assert not self.length
        self._kept.end()

    async def _read(self) -> None:
        kept = self._kept
        try:
            self._ahead.extend(await kept.read(self._read_ahead))
        except (StorageError, DamagedError) as error:
            kept.journal.commits.fail(error)
            return
        finally:
            self._reading = None
        self._watcher.on_room()
