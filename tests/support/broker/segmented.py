"""Journals in a directory: small ones, what is in them, and damage to them."""

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from broker.storage import records
from broker.storage.found import find, frames
from broker.storage.frame import HEAD_SIZE
from broker.storage.segments import Segments


def record(number: int, size: int = 100) -> bytes:
    """A record that says which it is."""
    return records.cleared((b"%d " % number).ljust(size, b"x"))


def add(segments: Segments, numbers: Iterable[int], size: int = 100) -> None:
    """Append a commit of one frame for each number."""
    for number in numbers:
        assert segments.append([[record(number, size)]])


def make(directory: Path, count: int, size: int = 100) -> Path:
    """A journal of so many frames, whose broker was stopped."""
    with closing(Segments(directory)) as segments:
        add(segments, range(1, count + 1), size)
    return directory


def numbers(directory: Path, size: int = 100) -> list[int]:
    """The numbers of the frames that a broker would find; each has to have its own record."""
    found = find(directory)
    assert [str(each) for each in found.damage] == []
    there = dict(frames(found))
    assert all(content[HEAD_SIZE:] == record(number, size) for number, content in there.items())
    return list(there)


def kill(segments: Segments) -> None:
    """End without what a broker does when it stops."""
    segments._release()


@contextmanager
def killed(directory: Path) -> Iterator[Segments]:
    """The journal of a broker that is killed at the end."""
    segments = Segments(directory)
    try:
        yield segments
    finally:
        kill(segments)


def overwrite(path: Path, position: int, content: bytes) -> None:
    """Change bytes of a file."""
    with path.open("r+b") as file:
        file.seek(position)
        file.write(content)
