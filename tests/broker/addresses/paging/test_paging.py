"""The pages of addresses: written, acknowledged and read ahead by a thread, whatever the disk does."""

import asyncio
import os
import resource
import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from broker.addresses.paging import paging as paging_module
from broker.addresses.paging.paging import READ_AHEAD, Paging
from broker.addresses.paging.queue import Taken
from broker.storage import disk_thread
from tests.support.broker.paging import PagedAddress, paging_in, until

pytestmark = pytest.mark.once


def page_files(directory: Path) -> list[Path]:
    """All page files."""
    return list(directory.rglob("*.page"))


def everything(directory: Path) -> list[Path]:
    """All that lies in it."""
    return list(directory.iterdir())


@contextmanager
def limit(kind: int, value: int) -> Iterator[None]:
    """Lower one of this process's limits."""
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (value, hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))


async def test_there_and_back(tmp_path: Path) -> None:
    """FC-26: messages are acknowledged when they are on disk, and handed over in order; then nothing is left."""
    with capture_logs() as logs:
        async with paging_in(tmp_path) as paging:
            address = PagedAddress(paging)
            pages = address.pages
            assert address.send(100) == [True] * 100
            assert (pages.length, pages.head(), address.sender.answered) == (100, None, 0)
            await until(lambda: address.sender.answered == 100)
            assert address.sender.written == list(range(100))
            assert await address.receive(50) == list(range(50))
            address.send(100)
            assert await address.receive(150) == list(range(50, 200))
            assert (pages.length, pages.bytes, pages.head()) == (0, 0, None)
            pages.close()
            assert page_files(tmp_path) == []
            assert (paging.lost, paging.not_written) == (0, 0)
    assert logs == []
    assert everything(tmp_path) == []


async def test_told_once_there_is_something(tmp_path: Path) -> None:
    """Who waits for messages is told when the first can be handed over, not for each."""
    async with paging_in(tmp_path) as paging:
        address = PagedAddress(paging)
        address.send()
        assert address.reader.told == 0
        await until(lambda: address.reader.told)
        assert address.pages.head() is not None
        address.send(100)
        await until(lambda: address.sender.answered == 101)
        assert address.reader.told == 1
        assert await address.receive(101) == list(range(101))


@pytest.mark.parametrize(("max_size_bytes", "ahead"), [(10, 4096), (20_000, 20_000), (1_000_000, READ_AHEAD)])
async def test_bounded_read_ahead(tmp_path: Path, max_size_bytes: int, ahead: int) -> None:
    """FC-26: however much is on disk, an address has little of it in memory; a message that is larger comes alone."""
    async with paging_in(tmp_path) as paging:
        address = PagedAddress(paging, max_size_bytes=max_size_bytes)
        pages = address.pages
        address.send(400, 1000)
        address.send(2, 2 * READ_AHEAD)
        most = 0
        for number in range(400):
            assert await address.receive(1) == [number]
            most = max(most, sum(record.size for record in pages._ahead))
        assert ahead - 3000 < most <= ahead
        for number in (400, 401):
            assert await address.receive(1) == [number]
            assert len(pages._ahead) <= 1
        assert not pages.length


async def test_a_lot_at_once(tmp_path: Path) -> None:
    """However much waits for an address, the disk gets it in pieces: others have their turn in between."""
    async with paging_in(tmp_path) as paging:
        address = PagedAddress(paging)
        address.send(50, 100_000)
        await address.until_answered()
        assert address.sender.written == list(range(50))
        assert max(Counter(address.sender.times).values()) == 11  # a mebibyte, and what is over


async def test_limit(tmp_path: Path) -> None:
    """FC-26: past `page_limit_bytes`, as stored, nothing is taken until something has been handed over."""
    async with paging_in(tmp_path) as paging:
        address = PagedAddress(paging, 10_000)
        pages = address.pages
        taken = address.send(20, 1000)
        assert taken == [True] * 9 + [False] * 11
        await until(pages.head)
        assert [record.size for record in pages._ahead] == [pages.bytes // 9] * 9
        assert await address.receive(1) == [0]
        assert address.send(2, 1000) == [True, False]
        assert await address.receive(9) == [*range(1, 9), 20]
        assert address.send(1, 10_000) == [False]


async def test_full_disk(tmp_path: Path) -> None:
    """FC-26: what the disk does not take is answered as that, said once, and tried again; what is on disk stays."""
    with capture_logs() as logs:
        async with paging_in(tmp_path) as paging:
            address, other = PagedAddress(paging), PagedAddress(paging)
            address.send()
            await until(address.pages.head)  # what comes now stays on disk
            with limit(resource.RLIMIT_FSIZE, 15_000):
                for _ in range(3):
                    address.send(10, 1000)
                    await address.until_answered()
                assert address.sender.written == list(range(15))
                assert address.sender.not_written == list(range(15, 31))
                assert address.pages.length == 15
                assert [path.stat().st_size for path in page_files(tmp_path)] == [
                    address.pages.bytes - address.pages._ahead[0].size
                ]
                other.send()
                await until(lambda: other.sender.written)
                other.send(1, 20_000)
                await until(lambda: other.sender.not_written)
            address.send()
            assert await address.receive(16) == [*range(15), 31]
            assert (address.pages.length, address.pages.bytes) == (0, 0)
            assert paging.not_written == 17
    assert [log["event"] for log in logs] == ["paging_failed", "paging_works_again"] * 2 + ["pages_dropped"]
    assert str(tmp_path) in logs[0]["directory"]
    assert "File too large" in logs[0]["detail"]
    assert logs[-1]["messages"] == 1


async def test_damaged(tmp_path: Path) -> None:
    """FC-26: what cannot be read is said and counted, and the messages behind it are handed over."""
    with capture_logs() as logs:
        async with paging_in(tmp_path) as paging:
            address = PagedAddress(paging)
            address.send()
            await until(address.pages.head)  # what comes now stays on disk
            address.send(10, 200_000)  # six in the first file
            await until(lambda: address.sender.answered == 11)
            first, _ = sorted(page_files(tmp_path))
            with first.open("r+b") as file:
                file.seek(250_000)
                file.write(b"something else")
            assert await address.receive(2) == [0, 1]
            await until(lambda: paging.lost)
            assert await address.receive(4) == list(range(7, 11))
            assert (address.pages.length, address.pages.bytes) == (0, 0)
    assert [(log["event"], log.get("messages"), log.get("topic")) for log in logs] == [("pages_lost", 5, "t")]


async def test_all_lost(tmp_path: Path) -> None:
    """Who waits for messages that are lost is told that nothing is left to wait for."""
    with capture_logs() as logs:
        async with paging_in(tmp_path) as paging:
            address = PagedAddress(paging)
            address.send()
            await until(lambda: address.reader.told)
            address.send(5)
            await until(lambda: address.sender.answered == 6)
            page_files(tmp_path)[0].unlink()
            address.pages.pop()
            await until(lambda: address.reader.told == 2)
            assert (address.pages.length, address.pages.bytes, address.pages.head()) == (0, 0, None)
    assert [(log["event"], log["messages"]) for log in logs] == [("pages_lost", 5)]


async def test_no_file_descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages that cannot be opened for a while, because too much is open, are read later: nothing is lost."""
    monkeypatch.setattr(paging_module, "RETRY", 0.01)
    async with paging_in(tmp_path) as paging:
        address = PagedAddress(paging)
        address.send()
        await until(lambda: address.reader.told)
        address.send(5)
        await until(lambda: address.sender.answered == 6)
        with limit(resource.RLIMIT_NOFILE, 0):
            address.pages.pop()
            done = paging.disk._done
            await until(lambda: paging.disk._done > done + 2)
            assert address.pages.head() is None
            address.send()
            await until(lambda: address.sender.not_written == [6])
        assert await address.receive(5) == list(range(1, 6))


async def test_a_disk_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that does not answer keeps nobody: it is said, the loop goes on, and so does a stop."""
    monkeypatch.setattr(disk_thread, "SLOW", 0.01)
    monkeypatch.setattr(paging_module, "CLOSE_TIMEOUT", 0.01)
    stuck = threading.Event()
    pwrite = os.pwrite

    def late_pwrite(*arguments: Any) -> int:
        stuck.wait()
        return pwrite(*arguments)

    monkeypatch.setattr(os, "pwrite", late_pwrite)
    with capture_logs() as logs:
        async with paging_in(tmp_path) as paging:
            address = PagedAddress(paging)
            address.send()
            await until(lambda: [log["event"] for log in logs] == ["disk_slow"])
            stuck.set()
            await until(lambda: address.sender.answered)
            assert [log["event"] for log in logs] == ["disk_slow", "disk_answers_again"]
            stuck.clear()
            address.send()
    assert [log["event"] for log in logs][-1] == "pages_not_removed"
    stuck.set()


async def test_nobody_is_answered_after_the_end(tmp_path: Path) -> None:
    """What was on its way when the broker stops is not acknowledged any more: it would be a lie."""
    async with paging_in(tmp_path) as paging:
        address = PagedAddress(paging)
        address.send(10)
        await paging.close()
        assert address.sender.answered == 0
    assert everything(tmp_path) == []


async def test_nothing_is_held(tmp_path: Path) -> None:
    """The thread that waits for the next job does not keep what the last one has read or written."""
    results: list[weakref.ref[Taken]] = []
    finished: list[object] = []

    def job() -> Taken:
        result = Taken()
        results.append(weakref.ref(result))
        return result

    async with paging_in(tmp_path) as paging:
        paging.disk.do(job, lambda _: finished.append(True))
        await until(lambda: finished)
        await until(lambda: results[0]() is None)


async def test_a_bug_is_no_dead_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that nobody thought of costs the messages of that batch, is reported, and is over then."""
    crashes: list[dict[str, Any]] = []
    with capture_logs() as logs:
        async with paging_in(tmp_path) as paging:
            asyncio.get_running_loop().set_exception_handler(lambda _, context: crashes.append(context))
            address = PagedAddress(paging)
            with monkeypatch.context() as patched:
                patched.setattr(os, "pwrite", None)
                address.send()
                await until(lambda: address.sender.not_written)
            address.send()
            assert await address.receive(1) == [1]
    assert [log["event"] for log in logs] == ["paging_failed", "paging_works_again"]
    assert [type(crash["exception"]) for crash in crashes] == [TypeError]


def test_impossible_directory(tmp_path: Path) -> None:
    """FC-26: a directory that cannot be made is an error that names the key, the directory and what is wrong."""
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"paging\.directory") as raised:
        Paging(tmp_path / "file", "node")
    assert str(tmp_path / "file") in str(raised.value)
