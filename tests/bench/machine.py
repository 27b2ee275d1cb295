"""The machine: its description, and the cores of the broker and the generator."""

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil


def description() -> dict[str, str]:
    """Return a description of the machine for readers of the figures."""
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
    return {
        "cpu": model,
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


@dataclass(frozen=True)
class Cores:
    """Core numbers; both the same where there is only one."""

    broker: int
    generator: int


def cores() -> Cores:
    """Give the broker the first core and the generator the last."""
    available = sorted(os.sched_getaffinity(0))
    return Cores(available[0], available[-1])


@contextmanager
def pinned(core: int) -> Iterator[None]:
    """Processes started in this block run on one core only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def spread_threads(pid: int) -> None:
    """Let all threads of a process but its first one run on any core."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        if int(thread.name) != pid:
            with suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread.name), range(os.cpu_count() or 1))
