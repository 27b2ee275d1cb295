"""Functions that are called in a process of their own."""

import os

import pytest

from spark_jobs.compaction.apart import apart
from spark_jobs.errors import ReportError

pytestmark = pytest.mark.once


def refuse(name: str) -> None:
    """Raise an error."""
    raise ReportError(f"{name}: refused")


def test_what_another_process_returns_or_raises() -> None:
    """Its result, and its errors with their messages; a process that ends without either is an error."""
    assert apart(os.getpid) != os.getpid()
    with pytest.raises(ReportError, match="a: refused"):
        apart(refuse, "a")
    with pytest.raises(ChildProcessError, match="the process that reads the files has ended"):
        apart(os.abort)
