"""The memory watermark `auto` (FC-32): three quarters of the least that control groups and the machine allow."""

from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config import Config, Metrics
from config.machine import Memory, memory
from config.memory import EMPTY, WITH_METRICS, Watermark, watermark

pytestmark = pytest.mark.once

GIB: Final = 1 << 30
LIMITS: Final = st.one_of(st.just("max"), st.integers(0, 1 << 45).map(str), st.just(""), st.just("x"), st.none())
"""What a file of a limit holds; None = there is no such file, as in the topmost group of a machine."""


def machine(root: Path, group: str = "/", ram: int = 16 * GIB) -> Path:
    """The files of a machine whose process is in a control group; returns the folder of the groups."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(f"4:memory:/elsewhere\n0::{group}\n")
    (root / "proc/meminfo").write_text(f"MemTotal:       {ram // 1024} kB\nMemFree:  1 kB\n")
    groups = root / "sys/fs/cgroup"
    groups.mkdir(parents=True)
    return groups


@given(limits=st.lists(st.tuples(LIMITS, LIMITS), min_size=1, max_size=5), ram=st.integers(1, 1 << 35))
def test_the_least_limit_counts(
    tmp_path_factory: pytest.TempPathFactory, limits: list[tuple[str | None, str | None]], ram: int
) -> None:
    """FC-32: of memory.max and memory.high of all groups around the process, and of the RAM, the least counts."""
    root = tmp_path_factory.mktemp("root")
    names = [f"g{number}" for number in range(len(limits) - 1)]
    folder = machine(root, "/" + "/".join(names), ram * 1024)
    for depth, (most, high) in enumerate(limits):
        folder = folder / names[depth - 1] if depth else folder
        folder.mkdir(exist_ok=True)
        for name, limit in (("memory.max", most), ("memory.high", high)):
            if limit is not None:
                (folder / name).write_text(f"{limit}\n")
    numbers = [int(limit) for pair in limits for limit in pair if limit is not None and limit.isdigit()]
    assert memory(root).bytes == min([number for number in [*numbers, ram * 1024] if number])


def test_what_is_beside_the_process_does_not_count(tmp_path: Path) -> None:
    """FC-32: the limits of groups in which the process is not, and of groups inside its own, are no limits of it."""
    groups = machine(tmp_path, "/a/b")
    for name in ("a/b/inside", "a/other", "other"):
        (groups / name).mkdir(parents=True)
        (groups / name / "memory.max").write_text("1000000\n")
    assert memory(tmp_path) == Memory(16 * GIB, "this machine")


@pytest.mark.parametrize("group", ["/", "/docker/0123", "/../sibling"])
def test_a_container_sees_its_own_group_on_top(tmp_path: Path, group: str) -> None:
    """FC-32: whether or not /proc has the container's path as the host has it, the limit on top is the container's."""
    (machine(tmp_path, group) / "memory.max").write_text(f"{4 * GIB}\n")
    sibling = tmp_path / "sys/fs/sibling"
    sibling.mkdir()
    (sibling / "memory.max").write_text("1000\n")
    assert memory(tmp_path) == Memory(4 * GIB, "/sys/fs/cgroup/memory.max")


def test_three_quarters(tmp_path: Path) -> None:
    """FC-32: `auto` is three quarters of that in whole MiB, and says of what; a number stays as it is."""
    (machine(tmp_path, "/a") / "a").mkdir()
    assert watermark(Config(), tmp_path) == Watermark(12 * GIB, "12GiB, three quarters of the 16GiB of this machine")
    (tmp_path / "sys/fs/cgroup/a/memory.high").write_text(f"{3 * GIB + 5}\n")
    of = "three quarters of the 3GiB of /sys/fs/cgroup/a/memory.high"
    assert watermark(Config(), tmp_path) == Watermark(9 * GIB // 4, f"2304MiB, {of}")
    assert watermark(Config(memory_watermark=5), tmp_path) == Watermark(5, "")
    assert watermark(Config(memory_watermark=0), tmp_path) == Watermark(0, "")


@pytest.mark.parametrize(("metrics", "least"), [(None, EMPTY), (Path("m"), WITH_METRICS)])
def test_little_memory(tmp_path: Path, metrics: Path | None, least: int) -> None:
    """FC-32: in a small container `auto` leaves the process what it needs itself: else it would never be ready."""
    (machine(tmp_path) / "memory.max").write_text(f"{least}\n")
    found = watermark(Config(metrics=Metrics(directory=metrics)), tmp_path)
    assert found.bytes == least
    assert "what the process itself needs" in found.why


def test_a_system_that_does_not_say(tmp_path: Path) -> None:
    """FC-32: without /proc, where a process cannot measure itself either, there is no watermark."""
    assert watermark(Config(), tmp_path) == Watermark(0, "none, as this system does not say how much memory there is")
