"""What `perf stat` counts of the broker while a load is measured; other programs on the machine do not change it."""

import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

EVENT = "instructions:u"


class NotCountedError(Exception):
    """perf has not counted; the message is what it printed."""


def why_not(event: str = EVENT) -> str:
    """Say why an event cannot be counted here; empty if it can."""
    if shutil.which("perf") is None:
        return f"{event} are not counted: perf is not installed (Debian: apt install linux-perf)"
    tried = subprocess.run(["perf", "stat", "-x;", "-e", event, "true"], capture_output=True, text=True, check=False)
    try:
        _count(tried.stderr)
    except NotCountedError as error:
        return f"{event} are not counted: perf says {error}"
    return ""


def _count(output: str) -> float:
    """The first field of perf's line; of a machine with cores of several kinds, the sum of its lines."""
    rows = [line.split(";") for line in output.splitlines() if ";" in line]
    counts = [row[0] for row in rows if not row[0].startswith("<")]
    if not counts:
        raise NotCountedError(rows[0][0] if rows else output.strip() or "nothing")
    return sum(float(count) for count in counts)


@contextmanager
def counting(pids: Sequence[int], event: str = EVENT) -> Iterator["Counter"]:
    """Count in processes while the holder of `Counter.control` says so."""
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        ours, theirs = socket.socketpair()
        file = Path(folder, "perf.txt")
        fd, everyone = theirs.fileno(), ",".join(map(str, pids))
        options = ["-x;", "-e", event, "--delay", "-1", "--control", f"fd:{fd},{fd}", "-o", str(file), "-p", everyone]
        with ours:
            with theirs:
                process = subprocess.Popen(["perf", "stat", *options], pass_fds=[fd], stderr=subprocess.DEVNULL)
            try:
                yield Counter(process, ours.fileno(), file)
            finally:
                process.kill()
                process.wait()


class Counter:
    """A perf that is running. `control` is the descriptor for blast's --perf."""

    def __init__(self, process: subprocess.Popen[bytes], control: int, file: Path) -> None:
        self.control = control
        self._process = process
        self._file = file

    def total(self) -> float:
        """End it and return what was counted. Raises NotCountedError."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait()
        return _count(self._file.read_text())
