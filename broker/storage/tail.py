"""Finds the frames of a segment, and tells a torn write at the end of the journal from damage (FC-27).

There is one commit at a time, and it is synced: a power cut can have torn the last one, of which any sectors may be
there. Whatever follows it has been written later: then it was on disk, and has been damaged since.
"""

from broker.storage.errors import UnreadableError
from broker.storage.frame import HEAD_SIZE, padded
from broker.storage.records import DamagedError
from broker.storage.segment import Segment


def walk(segment: Segment) -> int:
    """Add all frames of a segment that come one after the other, by their heads; a commit is added whole or not at all.

    Returns the oldest frame that the journal needs, as the last head of a whole commit says; 0 = there is none. Raises
    UnreadableError, and OSError.
    """
    with segment.kept_open():
        return _walk(segment)


def _walk(segment: Segment) -> int:
    oldest = 0
    while True:
        commit: list[int] = []
        position, number = segment.end, segment.next
        while (head := segment.head_at(position)) is not None:
            if head.number != number + len(commit) or head.before != len(commit):
                return oldest
            if not head.size and commit:
                return oldest
            size = padded(HEAD_SIZE + head.size)
            position += size
            if not head.size:
                segment.add_mark()
                oldest = head.oldest
                break
            commit.append(size)
            if not head.after:
                segment.add(commit)
                oldest = head.oldest
                break
        else:
            return oldest


def end(segment: Segment) -> list[int]:
    """Take the last commit of the journal from the segment, which has been walked, if it is torn.

    Returns where heads of torn commits are: nothing may be written before they are erased. Raises DamagedError if
    commits follow what cannot be read, and OSError.
    """
    with segment.kept_open():
        return _end(segment)


def _end(segment: Segment) -> list[int]:
    while True:
        _cut_torn(segment)
        number = segment.next
        behind = segment.heads_from(segment.end)
        walk(segment)  # a broker may have written meanwhile
        _cut_torn(segment)
        if segment.next == number:
            break
    later = [head for _, head in behind if head.first > number]
    if later:
        last = max(head.last if head.size else head.number - 1 for head in later)
        raise DamagedError(f"frame {number} is damaged, and frames up to {last} were written")
    return [position for position, _ in behind]


def _cut_torn(segment: Segment) -> None:
    """Cut the last commit off if its records cannot be read. If a mark follows it, it is not torn, but damaged."""
    last = segment.next - 1
    if not segment.has(last):
        return
    start = segment.end - segment.size(last)
    head = segment.head_at(start)
    if head is None or padded(HEAD_SIZE + head.size) != segment.size(last):
        return  # a mark follows
    try:
        for number in range(head.first, last + 1):
            segment.content(number)
    except UnreadableError:
        raise  # what cannot be read may be whole
    except DamagedError:
        segment.cut(head.first)
