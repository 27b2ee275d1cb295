"""Parsing the length of a window."""

import pytest

from spark_jobs.errors import ReportError
from spark_jobs.windows import parse_window

pytestmark = pytest.mark.once


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30), ("1m", 60), ("2h", 7200), ("1d", 86_400), ("auto", None)])
def test_lengths_have_units(text: str, seconds: int | None) -> None:
    """Whole numbers of seconds, minutes, hours and days, or auto."""
    assert parse_window(text) == seconds


@pytest.mark.parametrize("text", ["", "0s", "1", "m", "-1m", "1.5m", "1 m", "1w", "99999999s"])
def test_other_lengths_are_refused(text: str) -> None:
    """The message says what was expected."""
    with pytest.raises(ReportError, match="30s or 1m"):
        parse_window(text)
