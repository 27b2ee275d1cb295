"""A kill or a power cut at any moment loses nothing: the next start begins again, or ends what was begun (FC-27)."""

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.cluster.cell import journal_of
from broker.resharding.layout import FOLDER, SWITCH, layout_of
from broker.resharding.reshard import reshard
from broker.storage import spares
from broker.storage.errors import StorageError
from protocol.subscribe import Subscription
from tests.support.broker.cells import at_home
from tests.support.broker.power import Platter, recording
from tests.support.broker.resharded import Delivery, Kept, Read, read_journals, write_journal

pytestmark = pytest.mark.once

CHANGES = [(1, 2), (3, 2), (2, 3), (2, 1)]
"""Workers before and after."""
RETAINED = [Delivery(b"kept", topic=b"r")]
CUTS = 60


@pytest.fixture(autouse=True)
def tiny_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill is tried at each call, and some write segments."""
    monkeypatch.setattr(spares, "SEGMENT", 2 * 1024)


def made(directory: Path, workers: int) -> Path:
    """The journals of so many workers, with messages for clients and between cells."""
    names = [next(at_home(cell, workers, f"c{cell}")) for cell in range(1, workers + 1)]
    for cell, name in enumerate(names, 1):
        own = Kept(name, [Delivery(b"x" * 300, 2, packet_id=3), Delivery(name.encode())], [Subscription("#", 2)])
        links = [
            Kept(f"$cell/{other}", [Delivery(b"from %d" % cell, topic=b"t/%d" % cell)], own.subscriptions)
            for other in range(1, workers + 1)
            if other != cell
        ]
        write_journal(directory if workers == 1 else journal_of(directory, cell), [own, *links], RETAINED)
    return directory


def found(directory: Path, workers: int) -> dict[str, Read]:
    """All sessions, once so many workers have journals."""
    kept, retained = read_journals(directory)
    assert len(kept) == workers
    assert all(each == RETAINED for each in retained.values())
    sessions = [each for there in kept.values() for each in there]
    assert len({each.name for each in sessions}) == len(sessions)
    return {each.name: each for each in sessions}


class Killed(BaseException):
    """The process has ended."""


@pytest.mark.parametrize(("before", "after"), CHANGES)
def test_killed_at_any_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int, after: int) -> None:
    """The next start has every session with its messages, once, whichever number of workers it wants."""
    original = made(tmp_path / "original", before)
    expected = shutil.copytree(original, tmp_path / "expected")
    reshard(expected, after)
    sessions = found(expected, after)
    assert len(sessions) == before
    calls, last, dies = 0, 0, False

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if dies and calls >= last:
                raise Killed
            return call(*arguments, **options)

        return counting

    for name in ("mkdir", "rename", "replace", "unlink", "pwritev", "fsync", "rmdir"):
        monkeypatch.setattr(os, name, counted(getattr(os, name)))
    while True:
        last += 1
        copy = shutil.copytree(original, tmp_path / f"{last}")
        calls, dies = 0, True
        try:
            reshard(copy, after)
            break
        except Killed:
            pass
        finally:
            dies = False
        wanted = after if layout_of(copy).switched or last % 2 else before
        reshard(copy, wanted)
        assert wanted != after or found(copy, wanted) == sessions, last
        reshard(copy, after)
        assert found(copy, after) == sessions, last
        shutil.rmtree(copy)
    assert last > 20


@pytest.mark.parametrize(("before", "after"), CHANGES)
def test_power_cuts(tmp_path: Path, before: int, after: int) -> None:
    """Whatever of what is not synced a power cut leaves, the next start has every session with its messages."""
    original = made(tmp_path / "original", before)
    copy = shutil.copytree(original, tmp_path / "copy")
    with recording(copy) as calls:
        reshard(copy, after)
    sessions = found(copy, after)
    rng = random.Random(before * 10 + after)
    moments = set(rng.sample(range(len(calls)), min(CUTS, len(calls))))
    moments.update(number for number, call in enumerate(calls) if call[0] in "ru")
    shutil.rmtree(copy)
    shutil.copytree(original, copy)
    platter = Platter(copy)
    for number, call in enumerate(calls):
        platter.follow(call)
        if number in moments:
            image = tmp_path / f"image-{number}"
            platter.cut(image, rng)
            reshard(image, after)
            assert found(image, after) == sessions, (number, call)
            shutil.rmtree(image)


def test_a_switch_that_says_nothing(tmp_path: Path) -> None:
    """A damaged file is named, and nothing is removed."""
    directory = made(tmp_path / "journal", 2)
    (directory / FOLDER).mkdir()
    (directory / FOLDER / SWITCH).write_text("?")
    with pytest.raises(StorageError, match="has no number of workers"):
        reshard(directory, 3)
    assert layout_of(directory).workers == 2
