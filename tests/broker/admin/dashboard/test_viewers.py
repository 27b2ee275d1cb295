"""Viewers of the dashboard: all share one walk, and without viewers there is none."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from broker.admin.dashboard import viewers
from broker.admin.dashboard.observer import Observer
from broker.admin.dashboard.viewers import PERIOD_SHARE, Viewers
from broker.runtime.clock import monotonic_us

pytestmark = pytest.mark.once


class Looking:
    """In place of an observer: counts looks, and says what it is told to."""

    def __init__(self) -> None:
        self.looks = 0
        self.forgotten = 0
        self.took = 0
        self.fails = False

    async def look(self) -> tuple[Any, int]:
        """A moment with a number."""
        await asyncio.sleep(0)
        self.looks += 1
        if self.fails:
            raise OSError("broken")
        return self, self.took

    def model_dump_json(self) -> str:
        """The number."""
        return str(self.looks)

    def forget(self) -> None:
        """Count it."""
        self.forgotten += 1


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch) -> Looking:
    """An observer whose moments follow each other soon."""
    monkeypatch.setattr(viewers, "PERIOD", 1_000)
    return Looking()


def shared(looking: Looking) -> Viewers:
    """The viewers of an observer."""
    return Viewers(cast(Observer, looking))


async def taken(moments: AsyncGenerator[str, None], count: int) -> list[str]:
    """The next moments."""
    return [await anext(moments) for _ in range(count)]


async def test_all_share_one_walk(looking: Looking) -> None:
    """Ten who look get the same moments, each made once, and none twice."""
    many = shared(looking)
    got = await asyncio.gather(*(taken(many.moments(), 5) for _ in range(10)))
    assert all(one == got[0] for one in got)
    assert got[0] == sorted(set(got[0]), key=int)
    assert looking.looks <= int(got[0][-1]) + 1


async def test_nobody_looks(looking: Looking) -> None:
    """When the last has gone there are no more walks, and the next one begins anew."""
    many = shared(looking)
    first, second = many.moments(), many.moments()
    await taken(first, 1)
    await taken(second, 1)
    await first.aclose()
    await taken(second, 2)
    await second.aclose()
    assert looking.forgotten == 1
    looks = looking.looks
    await asyncio.sleep(0.02)  # nothing may happen now: there is no condition to wait for
    assert looking.looks == looks
    assert await taken(many.moments(), 2) == [str(looks + 1), str(looks + 2)]


async def test_long_walks_are_rare(looking: Looking) -> None:
    """A walk that has held the loop for long is followed by a longer pause: a tenth of the time at most."""
    looking.took = 5_000
    began = monotonic_us()
    await taken(shared(looking).moments(), 3)
    assert monotonic_us() - began >= 2 * PERIOD_SHARE * looking.took


async def test_a_session_that_ends(looking: Looking) -> None:
    """The stream of a session ends with it."""
    answers = ["a", "b", None]
    assert [text async for text in shared(looking).each_second(lambda: answers.pop(0))] == ["a", "b"]
    assert looking.looks == 0  # it needs no walk


async def test_a_walk_that_fails(looking: Looking) -> None:
    """All who wait learn of it, and who looks next starts a new walk."""
    many = shared(looking)
    looking.fails = True
    failed = await asyncio.gather(*(taken(many.moments(), 1) for _ in range(3)), return_exceptions=True)
    assert [type(each) for each in failed] == [OSError] * 3
    looking.fails = False
    assert len(await taken(many.moments(), 2)) == 2
