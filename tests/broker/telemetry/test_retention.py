"""Which metrics files a broker deletes when they are past `metrics.keep`, and that it deletes nothing else."""

import errno
import math
from collections.abc import Callable, MutableMapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from broker.runtime.clock import monotonic_us
from broker.telemetry import retention, wall
from broker.telemetry.retention import DAY, Retention
from broker.telemetry.writer import Writer, partition_of
from tests.broker.conftest import Start
from tests.support.broker.events import events, wait_for_event
from tests.support.broker.exporting import Bench
from tests.support.waiting import until

pytestmark = pytest.mark.once

Logs = list[MutableMapping[str, Any]]

NOW = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)
KEEP = 3
"""Days."""


def us(when: datetime) -> int:
    """Microseconds since 1970 UTC."""
    return int(when.timestamp()) * 1_000_000


def make_file(directory: Path, when: datetime, node: str = "test") -> Path:
    """A file of ten bytes, in its place, as a broker of this name writes it at that time."""
    path = directory / partition_of(us(when)) / f"{node}-{us(when)}-90.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"0123456789")
    return path


def make_days(directory: Path, days: int, newest: datetime = NOW) -> list[Path]:
    """A file of each day, the newest first."""
    return [make_file(directory, newest - timedelta(days=day)) for day in range(days)]


async def look(directory: Path, *, now: datetime = NOW, keep: float = KEEP * DAY, node: str = "test") -> Logs:
    """Let a broker of this name delete what it would; returns what it logs."""
    with capture_logs() as logs:
        await Retention(Writer(directory, node, 10), directory, node, keep).look(us(now))
    return logs


def files(directory: Path) -> set[Path]:
    """Everything that is no folder."""
    return {path for path in directory.rglob("*") if not path.is_dir() or path.is_symlink()}


async def test_files_go_by_their_hour(tmp_path: Path) -> None:
    """What ended more than `keep` ago goes with its folders, younger files stay, and one line says what has gone."""
    make_days(tmp_path, KEEP)
    border = NOW - timedelta(days=KEEP)
    old = [make_file(tmp_path, border - timedelta(hours=hours)) for hours in (1, 2, 36)]
    make_file(tmp_path, border)  # its hour has ended since
    stay = files(tmp_path) - set(old)
    logs = await look(tmp_path)
    assert files(tmp_path) == stay
    first, last = (path.parent.relative_to(tmp_path).as_posix() for path in (old[-1], old[0]))
    told = {"event": "metrics_deleted", "log_level": "info", "files": 3, "bytes": 30, "first": first, "last": last}
    assert logs == [told]
    assert not old[0].parent.exists()
    assert not old[-1].parent.parent.exists()


async def test_nothing_else_goes(tmp_path: Path) -> None:
    """Files of other brokers, and whatever is not named or placed as this broker's files are, stay."""
    old = make_days(tmp_path, KEEP + 9)[-1]
    for node in ("other", "test-2", "tes", "2-test"):
        make_file(tmp_path, NOW - timedelta(days=KEEP + 8), node)
    when = NOW - timedelta(days=KEEP + 7)
    misplaced = make_file(tmp_path, when)
    misplaced.rename(old.parent / misplaced.name)
    for place in (tmp_path / "_pending" / "test", tmp_path / "backup" / "hour=12", old.parents[1] / "copy", tmp_path):
        place.mkdir(parents=True, exist_ok=True)
        (place / old.name).touch()
    for name in ("notes.txt", f"_{old.name}.tmp", f"{old.name}.bak", "test-1.parquet", "test-x-1.parquet"):
        (old.parent / name).touch()
    folder = make_file(tmp_path, when + timedelta(hours=1))
    folder.unlink()
    folder.mkdir()
    (folder / "kept").touch()
    own = set(make_days(tmp_path, KEEP + 9)[KEEP + 1 :])
    stay = files(tmp_path) - own
    await look(tmp_path)
    assert files(tmp_path) == stay


async def test_links_are_not_followed(tmp_path: Path) -> None:
    """A link in the place of a file, an hour or a day stays, and so does what it leads to."""
    elsewhere, directory = tmp_path / "elsewhere", tmp_path / "metrics"
    make_days(directory, KEEP)
    days = [NOW - timedelta(days=KEEP + number) for number in (5, 6, 7)]
    for when, level in zip(days, (0, 1, 2), strict=True):
        target, link = (make_file(each, when) for each in (elsewhere, directory))
        link.unlink()
        for _ in range(level):
            target, link = target.parent, link.parent
            link.rmdir()
        link.symlink_to(target)
    before = files(tmp_path)
    assert len(before) == KEEP + 3 + 3
    await look(directory)
    assert files(tmp_path) == before


async def test_each_broker_deletes_its_own(tmp_path: Path) -> None:
    """Of brokers that share a directory each deletes its own files, and the last one the folders."""
    old = NOW - timedelta(days=KEEP + 2)
    for node in ("one", "two"):
        for day in range(KEEP):
            make_file(tmp_path, NOW - timedelta(days=day), node)
    one, two = (make_file(tmp_path, old, node) for node in ("one", "two"))
    await look(tmp_path, node="one")
    assert (one.exists(), two.exists()) == (False, True)
    await look(tmp_path, node="two")
    assert not two.parent.parent.exists()


async def test_a_folder_that_is_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that writes into a folder, or has removed it, while this one removes it, is no error."""
    old = make_days(tmp_path, KEEP + 3)[-2:]
    remove = Path.rmdir
    others: list[Path] = []

    def use_or_remove(folder: Path) -> None:
        if not others:
            others.append(make_file(tmp_path, NOW - timedelta(days=KEEP + 1), "other"))
        elif folder == old[1].parent:
            remove(folder)
        remove(folder)

    monkeypatch.setattr(Path, "rmdir", use_or_remove)
    assert [log["event"] for log in await look(tmp_path)] == ["metrics_deleted"]
    assert [path.exists() for path in (*old, *others)] == [False, False, True]


async def test_infinity_keeps_all(tmp_path: Path) -> None:
    """With `metrics.keep: infinity` no file is deleted, however old it is."""
    make_days(tmp_path, 50)
    before = files(tmp_path)
    assert await look(tmp_path, keep=math.inf) == []
    assert files(tmp_path) == before


async def test_a_clock_that_jumps(tmp_path: Path) -> None:
    """Years ahead, where all is past `keep`, the newest days stay; each day there costs one old day, not all."""
    days = make_days(tmp_path, KEEP)
    ahead = NOW.replace(year=2040)
    assert await look(tmp_path, now=ahead) == []
    assert all(path.exists() for path in days)
    for number in range(1, KEEP + 1):
        make_file(tmp_path, ahead + timedelta(days=number))
        await look(tmp_path, now=ahead + timedelta(days=number))
        assert [path.exists() for path in days] == [True] * (KEEP - number) + [False] * number


async def test_a_clock_that_is_behind(tmp_path: Path) -> None:
    """A broker that starts in 1970 removes nothing, and what it writes there goes once the clock is right."""
    days = make_days(tmp_path, KEEP)
    empty = tmp_path / "date=2026-11-01"
    empty.mkdir()
    early = make_file(tmp_path, datetime(1970, 1, 1, 0, 5, tzinfo=UTC))
    assert await look(tmp_path, now=datetime(1970, 1, 1, 0, 10, tzinfo=UTC)) == []
    assert (early.exists(), empty.exists()) == (True, True)
    await look(tmp_path)
    assert files(tmp_path) == set(days)
    assert (early.parents[1].exists(), empty.exists()) == (False, False)


async def test_a_look_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look ends when its time is over, the next one is an hour later and goes on."""
    monkeypatch.setattr(retention, "LONGEST", 0.0)
    days = make_days(tmp_path, KEEP + 4, NOW - timedelta(hours=2))
    broker = Retention(Writer(tmp_path, "test", 10), tmp_path, "test", KEEP * DAY)
    left = []
    for hours in (0, 0, 1, 2, 2):
        await broker.look(us(NOW + timedelta(hours=hours)))
        left.append(sum(path.exists() for path in days))
    assert left == [KEEP + 3, KEEP + 3, KEEP + 2, KEEP + 1, KEEP + 1]


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[datetime], None]:
    """Sets the machine's clock."""

    def set_to(when: datetime) -> None:
        started = monotonic_us()
        monkeypatch.setattr(wall, "wall_us", lambda: us(when) + monotonic_us() - started)

    return set_to


def test_an_error_does_not_stop_exports(
    set_clock: Callable[[datetime], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be deleted is counted each hour and logged once, other hours are deleted, and exports go on."""
    set_clock(NOW)
    stuck, *others = reversed(make_days(tmp_path, 35)[31:])
    unlink = Path.unlink

    def refuse(path: Path, missing_ok: bool = False) -> None:
        if path == stuck:
            raise OSError(errno.EROFS, "Read-only file system", str(path))
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    bench = Bench(tmp_path)
    exporter = bench.exporter
    exporter.interval = 0
    exporter._heartbeat = 0

    async def run() -> None:
        exporter.start()
        await until(lambda: exporter.failures == 1)
        set_clock(NOW + timedelta(hours=1))
        await until(lambda: exporter.failures == 2)
        written = exporter.writer.written
        await until(lambda: exporter.writer.written > written)
        await exporter.stop()

    with bench.local, capture_logs() as logs:
        bench.client("c")
        bench.local.complete(run())
    told = [log for log in logs if log["event"] == "metrics_not_deleted"]
    assert len(told) == 1
    assert told[0]["detail"].startswith(f"{stuck}: Read-only file system; let the broker's user write there")
    assert stuck.exists()
    assert not any(path.exists() for path in others)


def test_a_broker_deletes(start: Start, tmp_path: Path) -> None:
    """A running broker without sessions deletes what is past the configured time, which its first line names."""
    metrics = tmp_path / "metrics"
    now = datetime.now(UTC)
    days = [make_file(metrics, now - timedelta(days=day), "sluice-1") for day in (0, 1, 5)]
    section = {"directory": str(metrics), "interval": "100ms", "keep": "2d"}
    with start(sections={"node_name": "sluice-1", "metrics": section}) as broker:
        (deleted,) = wait_for_event(broker, "metrics_deleted")
    assert deleted["files"] == 1
    assert [path.exists() for path in days] == [True, True, False]
    assert events(broker, "starting")[0]["metrics_kept"] == "2d"
