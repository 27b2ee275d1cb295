"""The memory watermark (FC-32): what `auto` is here, and what it has to leave room for, the process itself."""

from pathlib import Path
from typing import Final, NamedTuple

from config.machine import ROOT, memory
from config.models import Config
from config.units import format_size
from config.value_types import AUTO

_MIB: Final = 1024 * 1024

EMPTY: Final = 96 * _MIB
"""The least sensible watermark. Of a broker without clients 60 MiB were measured to be resident, with a journal and
admin.listen 84 MiB (CPython 3.11 on x86-64); and a watermark that is reached holds until nine tenths of it."""
WITH_METRICS: Final = 160 * _MIB
"""The same with metrics.directory, which needs PyArrow: 134 MiB were measured."""


class Watermark(NamedTuple):
    """Resident memory at which nothing new is taken on."""

    bytes: int
    """0 = never."""
    why: str
    """What `auto` has made of it, for people; empty = the configuration has a number."""


def watermark(config: Config, root: Path = ROOT) -> Watermark:
    """The watermark that applies. `root`: where the system's files are."""
    if config.memory_watermark != AUTO:
        return Watermark(int(config.memory_watermark), "")
    allowed = memory(root)
    if not allowed.bytes:
        return Watermark(0, "none, as this system does not say how much memory there is")
    share = allowed.bytes // 4 * 3 // _MIB * _MIB
    least = _least(config)
    whole = f"{format_size(max(allowed.bytes // _MIB, 1) * _MIB)} of {allowed.of}"
    if share < least:
        return Watermark(least, f"{format_size(least)}, what the process itself needs, as there are only {whole}")
    return Watermark(share, f"{format_size(share)}, three quarters of the {whole}")


def too_low(config: Config) -> str:
    """What is wrong with a watermark that a broker without clients may be above; empty = nothing."""
    least = _least(config)
    own = config.memory_watermark
    if own == AUTO or not own or int(own) >= least:
        return ""
    why = " with metrics.directory" if config.metrics.directory is not None else ""
    return (
        f"memory_watermark: found {int(own) / _MIB:.0f} MiB, but the process itself needs up to "
        f"{least // _MIB} MiB{why}: a broker that is above it is not ready, and keeps no new sessions"
    )


def _least(config: Config) -> int:
    return EMPTY if config.metrics.directory is None else WITH_METRICS
