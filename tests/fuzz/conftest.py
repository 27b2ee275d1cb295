"""Fuzzing inside the ordinary tests: the log is quiet, and looking for what has been released does not take long."""

import gc
from collections.abc import Iterator

import pytest

from tests.fuzz.quiet import quiet


@pytest.fixture(scope="module")
def in_peace() -> Iterator[None]:
    """Log nothing, and leave what is there before the test out of each search for what is left after an input."""
    gc.collect()
    gc.freeze()
    with quiet():
        yield
    gc.unfreeze()
