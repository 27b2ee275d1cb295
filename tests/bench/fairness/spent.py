"""The cost of a command: time, processor time of its whole process tree, and memory.

A process that is waited for reports its processor time, and that of the children it has waited for. The daemon of
Spark's Python workers ignores SIGCHLD, so nobody waits for them and no parent learns their times: these are read from
/proc at each sample, and what such a process spends between its last sample and its end is missing. Spark keeps its
workers until the session ends, when they have nothing to do.
"""

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import psutil

ROOT: Final = Path(__file__).resolve().parents[3]

EVERY: Final = 0.25
"""Seconds between two samples of the memory, and of the times that nobody waits for."""

_SUBREAPER: Final = 36  # PR_SET_CHILD_SUBREAPER of Linux
_IGNORED: Final = re.compile(r"^SigIgn:\s*([0-9a-f]+)$", re.MULTILINE)
_COLLECTION: Final = re.compile(r"GC\(\d+\) Pause .* (\d+)M->(\d+)M\(\d+M\)")
MIB: Final = 1 << 20


class CommandError(RuntimeError):
    """The command has failed."""


@dataclass(frozen=True)
class Spent:
    """One run of a command."""

    wall: float
    """Seconds."""
    cpu: float
    """Seconds, user and system, of the whole process tree."""
    memory: int
    """Highest memory of the tree, bytes; what processes share is counted once."""
    driver: int = 0
    """Highest memory of the driver's Java process, bytes; 0 without one."""
    control: int = 0
    """Highest resident memory of the command's own process and the driver's Java together, without workers, bytes.
    Shared libraries count as a whole: a part of them would depend on what else is running."""
    heap: int = 0
    """Highest heap of the driver's Java before a garbage collection, bytes."""
    live: int = 0
    """Highest heap of the driver's Java after a garbage collection, bytes."""

    def without(self, start: "Spent") -> "Spent":
        """The same without the time of the start alone; memory is unchanged."""
        wall, cpu = self.wall - start.wall, self.cpu - start.cpu
        return replace(self, wall=wall, cpu=cpu)


def spend(command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> Spent:
    """Run a command to its end, and that of all that it has started.

    Args:
        command: program and arguments.
        log: gets what it prints.
        environment: its whole environment; None: ours.

    Raises:
        CommandError: it failed; says what it printed last.
    """
    # The process that waits for it has no other children, so it waits for all of them.
    watch = [sys.executable, "-m", __name__, str(log), *command]
    variables = dict(os.environ if environment is None else environment)
    variables["PYTHONPATH"] = str(ROOT)
    watched = subprocess.run(watch, capture_output=True, text=True, check=False, env=variables)
    if watched.returncode:
        last = (watched.stderr + log.read_text()).strip()[-2000:]
        raise CommandError(f"{' '.join(command)} ended with {watched.returncode}:\n{last}")
    return Spent(**json.loads(watched.stdout))


def _watch(log: Path, command: Sequence[str]) -> int:
    """Run the command, print its cost, and return its exit code."""
    # Java may become an orphan before it ends; only a process that waits for it learns its processor time.
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory() as folder:
        collections = Path(folder)
        variables = {**os.environ, "JDK_JAVA_OPTIONS": f"-Xlog:gc:file={collections}/%p.log"}
        began = time.monotonic()
        with log.open("w") as output:
            started = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=variables)
            spent, drivers = _wait(started, began)
        heap, live = _heap([collections / f"{pid}.log" for pid in drivers])
    sys.stdout.write(json.dumps(asdict(replace(spent, heap=heap, live=live))))
    return started.returncode


def _wait(started: subprocess.Popen[bytes], began: float) -> tuple[Spent, set[int]]:
    """Wait for the command and for processes that it leaves; also returns the ids of its drivers."""
    me = psutil.Process()
    cpu = wall = 0.0
    memory = driver = control = 0
    drivers: set[int] = set()
    unwaited: dict[int, float] = {}
    while True:
        try:
            pid, status, usage = os.wait3(os.WNOHANG)
        except ChildProcessError:
            return Spent(wall, cpu + sum(unwaited.values()), memory, driver, control), drivers
        if pid:
            unwaited.pop(pid, None)  # its parent ended first
            cpu += usage.ru_utime + usage.ru_stime
            wall = time.monotonic() - began
            if pid == started.pid:
                started.returncode = os.waitstatus_to_exitcode(status)
                control = max(control, usage.ru_maxrss << 10)  # no sample may have been taken at its peak
            continue
        there = me.children(recursive=True)
        unwaited |= {process.pid: spent for process in there if (spent := _unwaited(process)) is not None}
        sizes = {process.pid: _size(process) for process in there}
        memory = max(memory, sum(size.part for size in sizes.values()))
        java = {number: size for number, size in sizes.items() if size.is_driver}
        drivers |= java.keys()
        driver = max(driver, *(size.part for size in java.values()), 0)
        own = sizes.get(started.pid, _Size())
        control = max(control, own.resident + sum(size.resident for size in java.values()))
        time.sleep(EVERY)  # from one sample to the next


def _unwaited(process: psutil.Process) -> float | None:
    """Processor time of a process for which its parent does not wait; None if it will."""
    try:
        ignored = _IGNORED.search(Path(f"/proc/{process.ppid()}/status").read_text())
        if ignored is None or not int(ignored[1], 16) >> (signal.SIGCHLD - 1) & 1:
            return None
        return sum(process.cpu_times()[:4])  # its own, and of those that it has waited for
    except (OSError, psutil.Error):
        return None


@dataclass(frozen=True)
class _Size:
    """The memory of a process: bytes with its part of shared memory, bytes with all of it."""

    part: int = 0
    resident: int = 0
    is_driver: bool = False
    """Whether it is a driver's Java."""


def _size(process: psutil.Process) -> _Size:
    try:
        with process.oneshot():
            size = process.memory_full_info()
            words = process.cmdline()
    except psutil.Error:
        return _Size()
    java = bool(words) and Path(words[0]).name == "java"
    return _Size(int(size.pss), int(size.rss), java and any("SparkSubmit" in word for word in words))


def _heap(logs: Sequence[Path]) -> tuple[int, int]:
    """The highest heap before and after a collection, in bytes, from Java's own logs."""
    found = [_COLLECTION.search(line) for log in logs if log.exists() for line in log.read_text().splitlines()]
    pairs = [(int(match[1]), int(match[2])) for match in found if match]
    before, after = (max((pair[place] for pair in pairs), default=0) * MIB for place in (0, 1))
    return before, after


if __name__ == "__main__":
    sys.exit(_watch(Path(sys.argv[1]), sys.argv[2:]))
