"""Measures the memory of the process, and acts when it is above the watermark (FC-32)."""

import asyncio
import ctypes
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import structlog

from broker.runtime.clock import SECOND

if TYPE_CHECKING:
    from broker.broker import Broker

TRIM_PERIOD: Final = 5 * SECOND
"""Microseconds between two requests to the allocator to return free memory: each may hold it for some 30 ms."""
SETTLED: Final = 10 * SECOND
"""Microseconds between two looks whether memory has grown and grows no longer."""
GROWN: Final = 16 * 1024 * 1024
"""Bytes of such a growth after which free memory is returned."""
MAPPED: Final = 4 * 1024 * 1024
"""Bytes from which a block is mapped by itself, and returned when it is freed."""
KEPT: Final = 32 * 1024 * 1024
"""Free bytes at the end of the heap that are kept."""
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_STATM: Final = "/proc/self/statm"
_ENOUGH: Final = 256
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    """The resident memory of this process. Raises OSError where the system has no /proc."""
    file = os.open(_STATM, os.O_RDONLY)  # ten times a second: a fifth of what a Path needs
    try:
        return int(os.read(file, _ENOUGH).split()[1]) * _PAGE
    finally:
        os.close(file)


def keep_freed() -> None:
    """Have the C library keep freed memory for later: large packets would be paid for with page faults.

    By itself it learns from what is freed which blocks it maps one by one and how much it returns, so the same load
    could cost a tenth more after another start.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc's
    if set_option is not None:
        set_option(_MMAP_THRESHOLD, MAPPED)
        set_option(_TRIM_THRESHOLD, KEPT)


def trim() -> None:
    """Have the C library return free memory to the system, if it can; slow."""
    release = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if release is not None:
        release(0)


class MemoryWatch:
    """Looks ten times a second at the watermark, and seldom at whether free memory is to be returned."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._trimmed_at = 0
        self._looked_at = 0
        self._before = 0
        """Resident bytes at the last such look; 0 = there was none."""
        self._least = 0
        """The fewest resident bytes at such a look since free memory was returned."""
        self._log = structlog.get_logger("sluice")

    def look(self, now: int) -> None:
        """Measure, and begin or end what the watermark means. Raises OSError where the system has no /proc."""
        broker = self._broker
        if now - self._looked_at >= SETTLED:
            self._looked_at = now
            with suppress(OSError):  # it is a favour, and needs /proc
                self._return_free(resident_bytes())
        watermark = broker.quotas.watermark
        if not (watermark.high or watermark.reached):
            return
        resident = resident_bytes()
        if watermark.look(resident):
            broker.quotas.narrow(watermark.reached)
            broker.run_queue.hold_back(watermark.reached)
            broker.guard_retained()
            event = "memory_high" if watermark.reached else "memory_low"
            self._log.warning(event, resident_bytes=resident, memory_watermark=watermark.high)
        if watermark.reached:
            broker.handlers.incomplete.look(now)
        if watermark.reached and now - self._trimmed_at >= TRIM_PERIOD:
            self._trimmed_at = now
            asyncio.get_running_loop().run_in_executor(None, trim)

    def _return_free(self, resident: int) -> None:
        """Return free memory once a growth is over: it may have been a flood, of which nothing is left."""
        grows = resident > self._before + GROWN // 4
        self._before = resident
        self._least = min(self._least or resident, resident)
        if not grows and resident > self._least + GROWN:
            self._least = resident  # or less, as the next look finds
            asyncio.get_running_loop().run_in_executor(None, trim)
