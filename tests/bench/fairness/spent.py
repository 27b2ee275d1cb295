"""What a command costs: time, processor time of it and all that it starts, and their memory."""

import ctypes
import json
import os
import re
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
"""Seconds between two looks at the memory."""

_SUBREAPER: Final = 36  # PR_SET_CHILD_SUBREAPER of Linux
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
    heap: int = 0
    """Highest heap of the driver's Java before a collection, bytes."""
    live: int = 0
    """Highest heap of the driver's Java that was left by a collection, bytes."""

    def without(self, start: "Spent") -> "Spent":
        """The same without the time that starting alone takes; memory stays as it is."""
        wall, cpu = self.wall - start.wall, self.cpu - start.cpu
        return Spent(wall, cpu, self.memory, self.driver, self.heap, self.live)


def spend(command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> Spent:
    """Run a command to its end, and that of all that it has started.

    Args:
        command: program and arguments.
        log: gets what it prints.
        environment: its whole environment; None: ours.

    Raises:
        CommandError: it failed; says what it printed last.
    """
    # A process of its own waits for it, which has no other children: it then waits for all that there are.
    watch = [sys.executable, "-m", __name__, str(log), *command]
    variables = dict(os.environ if environment is None else environment)
    variables["PYTHONPATH"] = str(ROOT)
    watched = subprocess.run(watch, capture_output=True, text=True, check=False, env=variables)
    if watched.returncode:
        last = (watched.stderr + log.read_text()).strip()[-2000:]
        raise CommandError(f"{' '.join(command)} ended with {watched.returncode}:\n{last}")
    return Spent(**json.loads(watched.stdout))


def _watch(log: Path, command: Sequence[str]) -> int:
    """Run the command, print what it has cost, and return its exit code."""
    # Java may be orphaned before it has ended; its processor time is only known to who waits for it.
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
    """Wait for the command and for what it leaves behind; also tells the ids of its drivers."""
    me = psutil.Process()
    cpu = wall = 0.0
    memory = driver = 0
    drivers: set[int] = set()
    while True:
        try:
            pid, status, usage = os.wait3(os.WNOHANG)
        except ChildProcessError:
            return Spent(wall, cpu, memory, driver), drivers
        if pid:
            cpu += usage.ru_utime + usage.ru_stime
            wall = time.monotonic() - began
            if pid == started.pid:
                started.returncode = os.waitstatus_to_exitcode(status)
            continue
        sizes = {process.pid: _size(process) for process in me.children(recursive=True)}
        memory = max(memory, sum(size for size, _ in sizes.values()))
        for number, (size, is_driver) in sizes.items():
            if is_driver:
                drivers.add(number)
                driver = max(driver, size)
        time.sleep(EVERY)


def _size(process: psutil.Process) -> tuple[int, bool]:
    """Bytes of a process, its part of what it shares, and whether it is a driver's Java."""
    try:
        with process.oneshot():
            size = int(process.memory_full_info().pss)
            words = process.cmdline()
    except psutil.Error:
        return 0, False
    java = bool(words) and Path(words[0]).name == "java"
    return size, java and any("SparkSubmit" in word for word in words)


def _heap(logs: Sequence[Path]) -> tuple[int, int]:
    """The highest heap before and after a collection, in bytes, from Java's own logs."""
    found = [_COLLECTION.search(line) for log in logs if log.exists() for line in log.read_text().splitlines()]
    pairs = [(int(match[1]), int(match[2])) for match in found if match]
    before, after = (max((pair[place] for pair in pairs), default=0) * MIB for place in (0, 1))
    return before, after


if __name__ == "__main__":
    sys.exit(_watch(Path(sys.argv[1]), sys.argv[2:]))
