"""Which messages are on disk, by the record of a broker's calls."""

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

    def follow(self, event: Event, outside: Outside) -> None:
        """Apply an event, which `outside` has followed."""
        self._waiting.update(each for each in outside.arrived if MARK in each)
        if event.kind == "w":
            found = [payload for payload in self._waiting if payload[: len(payload) // 2] in event.data]
            self._written.update(dict.fromkeys(found, event.name))
            self._waiting.difference_update(found)
        elif event.kind == "d":
            found = [payload for payload in self._waiting if payload[: len(payload) // 2] in event.data]
            self._synced.update(found)
            self._waiting.difference_update(found)
        elif event.kind == "s":
            self._synced.update(payload for payload, name in self._written.items() if name == event.name)
