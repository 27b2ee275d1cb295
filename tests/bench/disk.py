"""How long one sync of a disk takes: the least that an acknowledgement that waits for the disk can take."""

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

FILE_BYTES: Final = 8 * 1024 * 1024
"""Written once, then overwritten: a file that grows costs a sync of the file system's journal each time."""

BLOCK: Final = bytes(8 * 1024)
"""Bytes of a block: about one commit of a few messages."""


@dataclass
class Syncs:
    """Seconds of each write with its sync."""

    times: list[float] = field(default_factory=list)

    def percentile(self, share: float) -> float:
        """Seconds."""
        return sorted(self.times)[min(int(share * len(self.times)), len(self.times) - 1)]

    def of_the_time(self, share: float) -> float:
        """Seconds: this share of the time passes in syncs that take no longer.

        A slow sync meets more messages than a fast one: this is what one sync costs a message at a random moment.
        """
        left = share * sum(self.times)
        for each in sorted(self.times):
            left -= each
            if left <= 0:
                return each
        return max(self.times)

    @property
    def rate(self) -> float:
        """Syncs a second, one after the other."""
        return len(self.times) / sum(self.times)


def measure(folder: Path, seconds: float, pause: float = 0.0) -> Syncs:
    """Write and sync one block after the other in a file in `folder`; `pause`: seconds between two of them."""
    syncs = Syncs()
    path = folder / "disk.probe"
    number = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        os.pwrite(number, bytes(FILE_BYTES), 0)
        os.fsync(number)
        end = time.monotonic() + seconds
        position = 0
        while time.monotonic() < end:
            began = time.perf_counter()
            os.pwrite(number, BLOCK, position)
            os.fdatasync(number)
            syncs.times.append(time.perf_counter() - began)
            position = (position + len(BLOCK)) % FILE_BYTES
            if pause:
                time.sleep(pause)  # the pace that is asked for
    finally:
        os.close(number)
        path.unlink()
    return syncs
