"""The journal of a simulated cell: commits in memory, which are on disk, and have returned, when the world says so."""

from collections import deque
from collections.abc import Callable
from typing import Any, cast

from broker.storage import frame
from broker.storage.commits import COMMITTED, Commits
from broker.storage.disk_thread import DiskThread
from broker.storage.journal import Journal
from broker.storage.reader import Reader
from broker.storage.saved import Saved
from broker.storage.segments import Segments
from broker.storage.times import Times
from tests.simulation.loop import Loop


class Platter:
    """What a crash leaves: frames by their number, of whole commits. tests/durability is about torn ones."""

    def __init__(self) -> None:
        self.frames: dict[int, bytes] = {}
        self.last = 0

    def read(self, number: int, offset: int, size: int) -> bytes:
        """As Segments.read."""
        return self.frames.get(number, b"")[offset : offset + size]


class SimulatedDisk:
    """In place of the thread for the disk: what it is asked for is done when the world says so."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._jobs: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
        self._returns: tuple[Callable[[Any], None], Any] | None = None

    def do(self, job: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """As DiskThread.do."""
        self._jobs.append((job, done))

    def is_busy(self) -> bool:
        """Whether there is something to do."""
        return len(self._jobs) > 0 or self._returns is not None

    def step(self) -> str:
        """Do the next job, or have it return; says which."""
        if self._returns is not None:
            done, value = self._returns
            self._returns = None
            self._loop.call_soon(done, value)
            return "returns"
        job, done = self._jobs.popleft()
        self._returns = done, job()
        return "is on disk"


class SimulatedStorage:
    """In place of Storage."""

    def __init__(self, platter: Platter, loop: Loop) -> None:
        self._platter = platter
        self.disk = SimulatedDisk(loop)
        self.journal = Journal(Commits(self._append, cast("DiskThread", self.disk)))
        self.journal.times = Times(lambda: 0)
        reader = self.journal.reader = Reader(cast("Segments", platter))
        reader._disk = cast("DiskThread", self.disk)

    def read(self) -> Saved:
        """What the journal holds."""
        saved = Saved(False, False)
        for number, content in self._platter.frames.items():
            saved.read(number, content)
        saved.finish()
        saved.last_frame = self._platter.last
        return saved

    def _append(self, first: int, frames: list[list[bytes]]) -> int:
        platter, last = self._platter, len(frames) - 1
        assert first == platter.last + 1
        for index, pieces in enumerate(frames):
            content = frame.encode(1, 1, first + index, index, last - index, pieces)
            platter.frames[first + index] = content[: frame.HEAD_SIZE + sum(map(len, pieces))]
        platter.last = first + last
        return COMMITTED
