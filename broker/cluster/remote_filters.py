"""Filters without wildcards that clients of other cells have: which links a topic goes to.

There may be a million of them, so an entry has nine bytes: eight of the hash of the filter, and one for the cell. Two
filters with one hash cost a message that nobody wants. Filters of kept sessions are not here: links have those as
subscriptions, in the journal, so that they are known before the other cell is.
"""

from typing import Final, final

_BUCKETS: Final = 32_768
_ENTRY: Final = 9
_NOBODY: Final[list[int]] = []


@final
class RemoteFilters:
    """The table of one cell. A tag is a number below 256: a cell, and which of its connections has told the filter."""

    def __init__(self) -> None:
        self._buckets = [b""] * _BUCKETS
        self._count = 0
        self._tagged = [0] * 256
        """How many have each tag."""

    def __len__(self) -> int:
        """How many filters there are."""
        return self._count

    def add(self, topic: bytes, tag: int) -> None:
        """A cell has told a filter."""
        hashed = hash(topic)
        self._buckets[hashed % _BUCKETS] += _entry(hashed, tag)
        self._count += 1
        self._tagged[tag] += 1

    def remove(self, topic: bytes, tag: int) -> bool:
        """It has told that it has it no longer; False = it had not told it."""
        hashed = hash(topic)
        bucket = self._buckets[hashed % _BUCKETS]
        at = _find(bucket, _entry(hashed, tag), 0)
        if at < 0:
            return False
        self._buckets[hashed % _BUCKETS] = bucket[:at] + bucket[at + _ENTRY :]
        self._count -= 1
        self._tagged[tag] -= 1
        return True

    def tags(self, topic: bytes) -> list[int]:
        """The tags of a topic, each once."""
        if self._count == 0:
            return _NOBODY
        hashed = hash(topic)
        bucket = self._buckets[hashed % _BUCKETS]
        if not bucket:
            return _NOBODY
        key = _key(hashed)
        found: list[int] = []
        at = _find(bucket, key, 0)
        while at >= 0:
            tag = bucket[at + _ENTRY - 1]
            if tag not in found:
                found.append(tag)
            at = _find(bucket, key, at + _ENTRY)
        return found

    def drop(self, tag: int) -> None:
        """Remove all filters with this tag; to look at all buckets takes milliseconds."""
        if self._tagged[tag] == 0:
            return
        self._count -= self._tagged[tag]
        self._tagged[tag] = 0
        for number, bucket in enumerate(self._buckets):
            if tag in bucket[_ENTRY - 1 :: _ENTRY]:
                entries = [bucket[at : at + _ENTRY] for at in range(0, len(bucket), _ENTRY)]
                self._buckets[number] = b"".join([each for each in entries if each[-1] != tag])


def _key(hashed: int) -> bytes:
    return (hashed & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "little")


def _entry(hashed: int, tag: int) -> bytes:
    return _key(hashed) + bytes((tag,))


def _find(bucket: bytes, what: bytes, start: int) -> int:
    """Where it is from `start` on, at the beginning of an entry; -1 = nowhere."""
    at = bucket.find(what, start)
    while at >= 0 and at % _ENTRY:
        at = bucket.find(what, at + 1)
    return at
