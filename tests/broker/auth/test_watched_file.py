"""Files that are read again when they change."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from broker.auth import watched_file
from broker.auth.watched_file import WatchedFile

SECONDS = 10.0


class Reader:
    """Takes what the file holds; a file with `wrong` in it has a mistake."""

    def __init__(self, path: Path) -> None:
        self.used: list[str] = []
        self.loads = 0
        self.file = WatchedFile("section.key", path, self._load, self.used.append)

    def _load(self, path: Path) -> str:
        self.loads += 1
        text = path.read_text()
        if "wrong" in text:
            raise ValueError("line 1: wrong")
        return text

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        task = asyncio.ensure_future(self.file.run())
        try:
            yield
        finally:
            task.cancel()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(SECONDS):
            while not condition():  # noqa: ASYNC110 - what happens in a thread sets no event
                await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look more often than a broker does."""
    if not watched_file.__file__.endswith(".py"):
        return  # what is compiled has constants
    monkeypatch.setattr(watched_file, "INTERVAL", 0.01)


async def test_changes_are_used(tmp_path: Path) -> None:
    """A change is used, however the file is written: replaced, or in place with the same length."""
    path = tmp_path / "file"
    path.write_text("one")
    reader = Reader(path)
    assert reader.file.read() == "one"
    async with reader.watching():
        path.write_text("two")
        await reader.until(lambda: reader.used == ["two"])
        (tmp_path / "new").write_text("six")
        (tmp_path / "new").replace(path)
        await reader.until(lambda: reader.used == ["two", "six"])
    assert reader.loads == 3


async def test_what_cannot_be_read_changes_nothing(tmp_path: Path) -> None:
    """A file that is gone or has a mistake is reported once, and used again when it is right."""
    path = tmp_path / "file"
    path.write_text("one")
    reader = Reader(path)
    reader.file.read()
    with capture_logs() as logged:
        async with reader.watching():
            path.unlink()
            await reader.until(lambda: len(logged) == 1)
            path.write_text("wrong")
            await reader.until(lambda: reader.loads > 3)
            path.write_text("right")
            await reader.until(lambda: reader.used == ["right"])
    assert [event["event"] for event in logged] == ["file_not_read", "file_read"]
    assert logged[0]["key"] == "section.key"


def test_first_time(tmp_path: Path) -> None:
    """What cannot be read at the start is an error."""
    with pytest.raises(FileNotFoundError):
        Reader(tmp_path / "file").file.read()
