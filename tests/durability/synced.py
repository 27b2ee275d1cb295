"""Which messages are on disk, by the record of a broker's calls."""

from tests.durability.disk import Disk
from tests.durability.outside import Outside
from tests.durability.shim import Event

MARK = b" of "
"""In all payloads that are followed."""


class Synced:
    """Payloads whose write has been synced. Both halves of each are the same: the end of a page may split one."""

    def __init__(self) -> None:
        self._waiting: set[bytes] = set()
        self._written: dict[bytes, str] = {}
        self._synced: set[bytes] = set()

    def __contains__(self, payload: bytes) -> bool:
        return payload in self._synced

    def follow(self, event: Event, outside: Outside, disk: Disk | None = None) -> None:
        """Apply an event, which `outside` has followed, and `disk`.

        With `disk`, what a killed process has written is found too, when a later one syncs it.
        """
        self._waiting.update(each for each in outside.arrived if MARK in each)
        if event.kind == "w":
            self._written.update(dict.fromkeys(self._take(event.data), event.name))
        elif event.kind == "d":
            self._synced.update(self._take(event.data))
        elif event.kind == "s":
            self._synced.update(payload for payload, name in self._written.items() if name == event.name)
            file = disk.files.get(event.name) if disk is not None else None
            if file is not None:
                self._synced.update(self._take(bytes(file.synced)))

    def _take(self, content: bytes) -> list[bytes]:
        """The payloads that are in this content, and were in none before."""
        found = [payload for payload in self._waiting if payload[: len(payload) // 2] in content]
        self._waiting.difference_update(found)
        return found
