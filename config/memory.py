"""What `memory_watermark` has to leave room for: the process itself."""

from typing import Final

from config.models import Config

_MIB: Final = 1024 * 1024

EMPTY: Final = 96 * _MIB
"""The least sensible watermark. Of a broker without clients 60 MiB were measured to be resident, with a journal and
admin.listen 84 MiB (CPython 3.11 on x86-64); and a watermark that is reached holds until nine tenths of it."""
WITH_METRICS: Final = 160 * _MIB
"""The same with metrics.directory, which needs PyArrow: 134 MiB were measured."""


def too_low(config: Config) -> str:
    """What is wrong with a watermark that a broker without clients may be above; empty = nothing."""
    least = EMPTY if config.metrics.directory is None else WITH_METRICS
    if not config.memory_watermark or config.memory_watermark >= least:
        return ""
    why = " with metrics.directory" if config.metrics.directory is not None else ""
    return (
        f"memory_watermark: found {config.memory_watermark / _MIB:.0f} MiB, but the process itself needs up to "
        f"{least // _MIB} MiB{why}: a broker that is above it is not ready, and keeps no new sessions"
    )
