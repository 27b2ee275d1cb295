"""Notices torn writes at the end of SQLite's write-ahead log, and cuts them off before SQLite reads it (FC-27).

SQLite ends at the first frame of this log whose checksum does not hold, and takes that for the end of the last
transaction, which a power cut has torn. Commits behind it would be lost without a word. But there is one commit at a
time, and it is synced: what a power cut has torn is one transaction, with at most one frame that ends it, the last one.
The format: https://www.sqlite.org/fileformat2.html#walformat
"""

import struct
from pathlib import Path
from typing import BinaryIO, Final

from broker.storage import fsync
from broker.storage.records import DamagedError

_HEAD: Final = struct.Struct(">8I")
_FRAME: Final = struct.Struct(">6I")
_MAGIC: Final = 0x377F0682
_VERSION: Final = 3_007_000
_WORD: Final = 0xFFFFFFFF


def check(path: Path) -> int:
    """Raise DamagedError if commits are lost in the log at `path`, which need not be there. Raises OSError.

    Returns at which byte the last commit ends.
    """
    if not path.exists():
        return 0
    with path.open("rb") as log:
        head = log.read(_HEAD.size)
        size = path.stat().st_size
        if size <= _HEAD.size:
            return size  # nothing has been committed in it
        if not any(head) and not log.read().strip(b"\0"):
            return 0  # it has got its length, and has not been used yet
        magic, version, page, _, salt1, salt2, sum1, sum2 = _HEAD.unpack(head)
        order = ">" if magic & 1 else "<"
        known = magic & ~1 == _MAGIC and version == _VERSION and page >= 512
        if not known or _sum(head[:-8], order, (0, 0)) != (sum1, sum2):
            raise DamagedError("the head of the write-ahead log is damaged")
        committed, ends = _read(log, page, (salt1, salt2), order, (sum1, sum2))
    if True in ends[:-1]:
        raise DamagedError(f"the write-ahead log is damaged after byte {committed}, and commits follow")
    return committed


def cut(path: Path) -> None:
    """Check it, and cut off what is behind the last commit: it must not be found behind a later one.

    Raises as `check`.
    """
    whole = check(path)
    if path.exists() and path.stat().st_size > whole:
        fsync.cut(path, whole)


def _read(
    log: BinaryIO, page: int, salts: tuple[int, int], order: str, check: tuple[int, int]
) -> tuple[int, list[bool]]:
    """Where the last commit ends that SQLite will find, and of each frame behind it whether it ends a commit."""
    committed = position = _HEAD.size
    ends: list[bool] = []
    foreign: list[tuple[int, int, int]] = []
    is_whole = True
    while len(content := log.read(_FRAME.size + page)) == _FRAME.size + page:
        position += len(content)
        _, pages, salt1, salt2, sum1, sum2 = _FRAME.unpack_from(content)
        if (salt1, salt2) != salts:
            is_whole = False  # of an earlier log, which this one has overwritten so far; or damaged
            foreign = [(sum1, sum2, pages)]
            continue
        if foreign:
            sum1_before, sum2_before, pages_before = foreign.pop()
            if _frame_sum(content, order, (sum1_before, sum2_before)) == (sum1, sum2):
                ends.append(pages_before != 0)  # this one goes on with its checksum: it is of this log, and damaged
        if is_whole:
            check = _frame_sum(content, order, check)
            is_whole = check == (sum1, sum2)
        if is_whole and pages:
            committed = position
            ends = []
        else:
            ends.append(pages != 0)
    return committed, ends


def _frame_sum(content: bytes, order: str, before: tuple[int, int]) -> tuple[int, int]:
    """The checksum of a frame, which goes on from that of the one before it."""
    return _sum(content[_FRAME.size :], order, _sum(content[:8], order, before))


def _sum(data: bytes, order: str, start: tuple[int, int]) -> tuple[int, int]:
    """SQLite's checksum, which goes on from `start`."""
    first, second = start
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for index in range(0, len(words), 2):
        first = (first + words[index] + second) & _WORD
        second = (second + words[index + 1] + first) & _WORD
    return first, second
