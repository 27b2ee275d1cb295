"""How much memory of Python's something takes, and keeps."""

import gc
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager


class Traced:
    """What has been taken since it was made."""

    def __init__(self) -> None:
        self._before = _now()

    def bytes(self) -> int:
        """Bytes that are still held, by all that was done since."""
        return _now() - self._before


@contextmanager
def tracing() -> Iterator[Traced]:
    """Measure in this block: all objects that Python's allocator makes, compiled ones too."""
    tracemalloc.start()
    try:
        yield Traced()
    finally:
        tracemalloc.stop()


def _now() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]
