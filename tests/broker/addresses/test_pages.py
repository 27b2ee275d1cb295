"""FC-26: the pages of an address in the journal: how many there may be, and how many are in memory."""

from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.addresses.pages import READ_AHEAD
from broker.storage.compaction import Compaction
from broker.storage.lane_rule import LaneRule
from session.flows import PUBLISHER
from session.priorities import Priorities
from tests.support.broker.paging import PagedAddress, storage_in
from tests.support.waiting import until


async def test_there_and_back(tmp_path: Path) -> None:
    """Pages are handed over in order, also those that come meanwhile; then nothing of the journal is live."""
    async with storage_in(tmp_path) as storage:
        address = PagedAddress(storage)
        assert address.send(100) == [True] * 100
        assert (address.pages.length, address.pages.head()) == (100, None)
        assert await address.receive(50) == list(range(50))
        address.send(100)
        assert await address.receive(150) == list(range(50, 200))
        assert (address.pages.length, address.kept.bytes, address.pages.head()) == (0, 0, None)
        assert not any(frame.live or frame.is_needed() for frame in storage.journal.frames.values())


async def test_told_once_there_is_something(tmp_path: Path) -> None:
    """Who has asked for a page in vain is told when the first can be handed over, not for each."""
    async with storage_in(tmp_path) as storage:
        address = PagedAddress(storage)
        address.send(100)
        assert address.pages.head() is address.pages.head() is None
        await until(lambda: address.reader.told > 0)
        assert address.pages.head() is not None
        assert await address.receive(100) == list(range(100))
        assert address.reader.told == 1


@pytest.mark.parametrize(("max_size_bytes", "ahead"), [(10, 4096), (20_000, 20_000), (1_000_000, READ_AHEAD)])
async def test_bounded_read_ahead(tmp_path: Path, max_size_bytes: int, ahead: int) -> None:
    """However much is on disk, an address has little of it in memory; a message that is larger comes alone."""
    async with storage_in(tmp_path) as storage:
        address = PagedAddress(storage, max_size_bytes=max_size_bytes)
        address.send(400, 1000)
        address.send(2, 2 * READ_AHEAD)
        most = 0
        for number in range(402):
            assert await address.receive(1) == [number]
            most = max(most, sum(page.publish.size for page in address.pages._ahead))
            assert most <= ahead
        assert most > ahead - 6000
        assert not address.pages.length


async def test_limit(tmp_path: Path) -> None:
    """Past `page_limit_bytes`, as stored, nothing is taken until something has been handed over."""
    async with storage_in(tmp_path) as storage:
        address = PagedAddress(storage, 10_000)
        assert address.send(20, 1000) == [True] * 9 + [False] * 11
        assert address.kept.bytes == sum(frame.live for frame in storage.journal.frames.values()) <= 10_000
        assert await address.receive(1) == [0]
        assert address.send(2, 1000) == [True, False]
        assert await address.receive(9) == [*range(1, 9), 20]
        assert address.send(1, 10_000) == [False]


async def test_moved_where_queues_have_lanes(tmp_path: Path) -> None:
    """FC-26, FC-12, FC-33: compaction finds pages, whatever lanes the queues of sessions have."""
    async with storage_in(tmp_path) as storage:
        storage.journal.lanes = LaneRule(Priorities([("t", 5)]), PUBLISHER)
        address = PagedAddress(storage)
        address.send(10)
        await storage.journal.commits.reach()
        await Compaction(storage).remove_oldest()
        assert await address.receive(10) == list(range(10))


async def test_a_journal_that_is_full(tmp_path: Path) -> None:
    """FC-29: past `max_bytes` of the journal nothing is taken, whatever the address could hold."""
    async with storage_in(tmp_path, max_bytes=5_000) as storage:
        address = PagedAddress(storage)
        assert address.send(10, 1000) == [True] * 5 + [False] * 5
        assert await address.receive(5) == list(range(5))


@given(st.lists(st.tuples(st.sampled_from(["send", "receive", "compact", "restart"]), st.integers(1, 40)), max_size=20))
async def test_any_sequence(steps: list[tuple[str, int]]) -> None:
    """FC-27: whatever is compacted or restarted meanwhile, pages are handed over once, in order."""
    with TemporaryDirectory() as name:
        async with AsyncExitStack() as stack:
            storage = await stack.enter_async_context(storage_in(Path(name)))
            address = PagedAddress(storage, max_size_bytes=4096)
            sent = received = 0
            for step, count in [*steps, ("restart", 0)]:
                if step == "send":
                    assert all(address.send(count, 200))
                    sent += count
                    await storage.journal.commits.reach()
                elif step == "receive":
                    count = min(count, sent - received)
                    assert await address.receive(count) == list(range(received, received + count))
                    received += count
                elif step == "compact":
                    await storage.journal.commits.reach()
                    await Compaction(storage).remove_oldest()
                else:
                    await stack.aclose()
                    storage = await stack.enter_async_context(storage_in(Path(name)))
                    address.restart(storage)
            assert await address.receive(sent - received) == list(range(received, sent))
            assert not any(frame.is_needed() for frame in storage.journal.frames.values())
