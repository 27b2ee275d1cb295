"""Notices inputs that never end, and memory that grows from input to input."""

import gc
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import psutil

SLOW = 10.0
"""Seconds of the processor's time that an input may take."""
GROWTH = 64 * 2**20
"""Bytes by which the process may grow after the first inputs: caches and pools have been filled by then."""
FIRST = 2_000
"""Inputs before memory is measured for the first time."""
EVERY = 1_000
"""Inputs between two looks."""


class HangError(Exception):
    """An input takes too long."""


class GrowthError(Exception):
    """Memory grows from input to input."""


@contextmanager
def limited() -> Iterator[None]:
    """Raise HangError in this block when it has taken SLOW, also from an endless loop, and at its end.

    It is raised again each second: what is tried may catch everything. Processor time: the machine may be busy.
    """
    late: list[HangError] = []

    def interrupt(_: int, __: FrameType | None) -> None:
        late.append(HangError(f"it has taken {SLOW:g} s of the processor"))
        raise late[-1]

    before = signal.signal(signal.SIGPROF, interrupt)
    signal.setitimer(signal.ITIMER_PROF, max(SLOW, 0.001), 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    if late:
        raise late[-1]


class Growth:
    """Whether the memory of this process is bounded, whatever the number of inputs."""

    def __init__(self) -> None:
        self._count = 0
        self._before = 0

    def count(self) -> None:
        """One more input has been tried. Raises GrowthError."""
        self._count += 1
        if self._count < FIRST or self._count % EVERY:
            return
        resident = psutil.Process().memory_info().rss
        if self._before == 0:
            self._before = resident
        elif resident - self._before > GROWTH:
            gc.collect()
            resident = psutil.Process().memory_info().rss
            if resident - self._before > GROWTH:
                mib = (resident - self._before) // 2**20
                raise GrowthError(f"{mib} MiB more after {self._count:,} inputs than after the first {FIRST:,}")
