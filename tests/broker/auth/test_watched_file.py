"""Files that are read again when they change."""

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from broker.auth import watched_file
from broker.auth.watched_file import WatchedFile
from tests.support.waiting import until

SECONDS = 10.0


class Reader:
    """Takes what the file holds; a file with `wrong` in it has a mistake."""

    def __init__(self, path: Path) -> None:
        self.used: list[str] = []
        self.loads = 0
        self.going_on = threading.Event()
        self.going_on.set()
        self.path = path
        self.file = WatchedFile({"section.key": path}, self._load, self.used.append)

    def _load(self) -> str:
        self.loads += 1
        self.going_on.wait(SECONDS)
        text = self.path.read_text()
        if "wrong" in text:
            raise ValueError(f"line 1: {text.split()[-1]}")
        return text

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        task = asyncio.ensure_future(self.file.run())
        try:
            yield
        finally:
            task.cancel()


def put(path: Path, text: str) -> None:
    """Write a file at once, so that nobody finds it empty before."""
    new = path.with_name("new")
    new.write_text(text)
    new.replace(path)


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
        await until(lambda: reader.used == ["two"])
        (tmp_path / "new").write_text("six")
        (tmp_path / "new").replace(path)
        await until(lambda: reader.used == ["two", "six"])
    assert reader.loads == 3


async def test_what_cannot_be_read_changes_nothing(tmp_path: Path) -> None:
    """A file that is gone or has a mistake is reported once for each, and used again when it is right."""
    path = tmp_path / "file"
    path.write_text("one")
    reader = Reader(path)
    reader.file.read()
    with capture_logs() as logged:
        async with reader.watching():
            path.unlink()
            await until(lambda: len(logged) == 1)
            put(path, "wrong")
            await until(lambda: reader.loads > 3)
            put(path, "wrong again")
            await until(lambda: len(logged) == 3)
            put(path, "right")
            await until(lambda: reader.used == ["right"])
    assert [event["event"] for event in logged] == ["file_not_read"] * 3 + ["file_read"]
    assert [event["detail"] for event in logged[:3]] == ["No such file or directory", "line 1: wrong", "line 1: again"]
    assert logged[0]["key"] == "section.key"


async def test_an_error_in_what_uses_it(tmp_path: Path) -> None:
    """If what has been read cannot be put to use, that is reported, and the next change is used."""
    path = tmp_path / "file"
    path.write_text("one")
    used: list[str] = []
    reported: list[dict[str, Any]] = []

    def use(text: str) -> None:
        used.append(text)
        if text == "two":
            raise RuntimeError("no")

    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    reader = Reader(path)
    reader.file = WatchedFile({"section.key": path}, path.read_text, use)
    reader.file.read()
    async with reader.watching():
        put(path, "two")
        await until(lambda: used == ["two"])
        put(path, "three")
        await until(lambda: used == ["two", "three"])
    assert [str(context["exception"]) for context in reported] == ["no"]
    assert "section.key" in reported[0]["message"]


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir], ids=["FIFO", "directory"])
async def test_what_is_no_file(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """A FIFO or a directory in its place is reported, and a file that comes after it is read."""
    path = tmp_path / "file"
    path.write_text("one")
    reader = Reader(path)
    reader.file.read()
    with capture_logs() as logged:
        async with reader.watching():
            path.unlink()
            make(path)
            await until(lambda: any(event.get("detail") == "is not a regular file" for event in logged))
            path.rename(tmp_path / "away")
            put(path, "two")
            await until(lambda: reader.used == ["two"])
    assert reader.loads == 2


@pytest.mark.parametrize(
    ("key", "most"),
    [("a.certfile", 1), ("a.tls.crlfile", 64), ("authentication.password_file", 64), ("authorization.acl_file", 16)],
)
async def test_file_that_becomes_too_large(tmp_path: Path, key: str, most: int) -> None:
    """A file that is larger than its kind is read is not even opened; the message says both sizes."""
    path = tmp_path / "file"
    path.write_text("one")
    loads: list[int] = []
    file = WatchedFile({key: path}, lambda: loads.append(path.stat().st_size), lambda _: None)
    file.read()
    os.truncate(path, most * 1024 * 1024 + 1)
    with pytest.raises(ValueError, match=rf"has {most * 1024 * 1024 + 1} bytes: expected at most .*{most}MiB"):
        await file.look()
    os.truncate(path, most * 1024 * 1024)
    await file.look()
    assert loads == [3, most * 1024 * 1024]


async def test_file_that_becomes_empty(tmp_path: Path) -> None:
    """An editor that has just emptied a file takes nothing out of use; a comment is enough to say that it is meant."""
    path = tmp_path / "file"
    path.write_text("")
    reader = Reader(path)
    assert reader.file.read() == ""
    with capture_logs() as logged:
        async with reader.watching():
            path.write_text("one")
            await until(lambda: reader.used == ["one"])
            path.write_text("")
            await until(lambda: len(logged) == 2)
            put(path, "#")
            await until(lambda: reader.used == ["one", "#"])
    assert "has become empty" in logged[1]["detail"]


async def test_half_written(tmp_path: Path) -> None:
    """What takes something away counts when the file is the same at the next look, and never while it is written."""
    path = tmp_path / "file"
    path.write_text("one two")
    pieces: list[str] = []
    used: list[str] = []

    def load() -> str:
        text = path.read_text()
        if pieces:
            put(path, text + pieces.pop(0))  # the next piece comes when this one has just been read
        return text

    file = WatchedFile({"section.key": path}, load, used.append, lambda text: "two" not in text)
    file.read()
    pieces += [" t", "wo", " three"]
    put(path, "one")
    watching = asyncio.ensure_future(file.run())
    await until(lambda: used[-1:] == ["one two three"])
    assert set(used) == {"one two", "one two three"}
    put(path, "one")
    await until(lambda: used[-1] == "one")
    watching.cancel()


async def test_file_system_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look that hangs is reported once, other files are followed meanwhile, and this one again when it answers."""
    if not watched_file.__file__.endswith(".py"):
        return  # what is compiled has constants
    monkeypatch.setattr(watched_file, "SLOW", 0.05)
    path, other = Reader(tmp_path / "file"), Reader(tmp_path / "other")
    for reader in (path, other):
        reader.path.write_text("one")
        reader.file.read()
    path.going_on.clear()
    with capture_logs() as logged:
        async with path.watching(), other.watching():
            put(path.path, "two")
            await until(lambda: len(logged) == 1)
            put(other.path, "two")
            await until(lambda: other.used == ["two"])
            assert path.loads == 2
            path.going_on.set()
            await until(lambda: path.used == ["two"])
    assert "its file system hangs" in logged[0]["detail"]
    assert [event["event"] for event in logged] == ["file_not_read", "file_read", "file_read"]


def test_first_time(tmp_path: Path) -> None:
    """What cannot be read at the start is an error, which names the key and the file."""
    path = tmp_path / "file"
    with pytest.raises(OSError, match=f"section.key: {path}: No such file"):
        Reader(path).file.read()
    put(path, "wrong")
    with pytest.raises(OSError, match=f"section.key: {path}: line 1: wrong"):
        Reader(path).file.read()


async def test_several(tmp_path: Path) -> None:
    """Files that count together are used when one changes; what is wrong names the file, what changed its key."""
    one, two = tmp_path / "one", tmp_path / "two"
    for path in (one, two):
        path.write_text("a")
    used: list[str] = []
    load = lambda: one.read_text() + two.read_text()  # noqa: E731 - as short as what it tests
    file = WatchedFile({"section.one": one, "section.two": two}, load, used.append)
    assert file.read() == "aa"
    task = asyncio.ensure_future(file.run())
    with capture_logs() as logged:
        put(two, "b")
        await until(lambda: used == ["ab"])
        one.unlink()
        await until(lambda: len(logged) == 2)
        put(one, "c")
        await until(lambda: used == ["ab", "cb"])
    task.cancel()
    assert [event.get("key") for event in logged] == ["section.two", "section.one, section.two", "section.one"]
    assert logged[1]["detail"] == f"{one}: No such file or directory"


async def test_replaced_while_it_is_read(tmp_path: Path) -> None:
    """A mistake in files that change while they are read is none: they are read again before anything is said."""
    path = tmp_path / "file"
    path.write_text("one")
    used: list[str] = []

    def load() -> str:
        text = path.read_text()
        if text == "half":
            put(path, "whole")
            raise ValueError("half of it")
        return text

    file = WatchedFile({"section.key": path}, load, used.append)
    file.read()
    with capture_logs() as logged:
        task = asyncio.ensure_future(file.run())
        put(path, "half")
        await until(lambda: used == ["whole"])
        task.cancel()
    assert [event["event"] for event in logged] == ["file_read"]


async def test_reload_and_a_file_system_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reload does not wait for a look that hangs, but says which file it is about."""
    if not watched_file.__file__.endswith(".py"):
        return  # what is compiled has constants
    monkeypatch.setattr(watched_file, "SLOW", 0.05)
    reader = Reader(tmp_path / "file")
    reader.path.write_text("one")
    reader.file.read()
    reader.going_on.clear()
    async with reader.watching():
        put(reader.path, "two")
        await until(lambda: reader.loads == 2)
        with pytest.raises(OSError, match=f"section.key: {reader.path}: it is not read after"):
            async with contextlib.AsyncExitStack() as held:
                await reader.file.read_again(held)
        reader.going_on.set()
        await until(lambda: reader.used == ["two"])
