"""Parsing the option `--baseline`."""

from datetime import UTC, datetime

import pytest

from spark_jobs.comparison.selection import Baseline, parse_baseline
from spark_jobs.errors import ReportError

pytestmark = pytest.mark.once

FIRST, EIGHTH = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-01..2026-11-08", Baseline(FIRST, EIGHTH, ranged=True)),
        ("2026-11-01..", Baseline(FIRST, None, ranged=True)),
        ("..2026-11-08", Baseline(None, EIGHTH, ranged=True)),
        ("..", Baseline(ranged=True)),
        ("2026-11-01T01:00+01:00..2026-11-08", Baseline(FIRST, EIGHTH, ranged=True)),
        ("broker=eu-1", Baseline(broker="eu-1")),
        ("broker=eu-1,2026-11-01..", Baseline(FIRST, None, ranged=True, broker="eu-1")),
        ("store=s3a://b/x,broker=n", Baseline(store="s3a://b/x", broker="n")),
        ("store=/a,b,c..d", Baseline(store="/a,b,c..d")),
        ("metrics=../old,..2026-11-08", Baseline(None, EIGHTH, ranged=True, metrics="../old")),
        ("broker=a=b", Baseline(broker="a=b")),
    ],
)
def test_words_are_understood(text: str, expected: Baseline) -> None:
    """A range with either side open, a broker, a store or a metrics folder, in any order; commas in folders too."""
    assert parse_baseline(text) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "names nothing"),
        ("yesterday", "yesterday is neither"),
        ("brokers=x", "brokers=x is neither"),
        ("2026-11-08..2026-11-01", "the range is empty"),
        ("2026-13-01..", "2026-13-01 is not a date"),
        ("broker=a,broker=b", "broker is named twice"),
        ("broker=", "broker= needs a value"),
        ("store=a,metrics=b", "cannot be one baseline"),
        ("broker=a,,..", "an empty part"),
    ],
)
def test_mistakes_are_explained(text: str, why: str) -> None:
    """The message names the option, what is wrong, and what was expected."""
    with pytest.raises(ReportError, match=f"^--baseline {text}") as found:
        parse_baseline(text)
    assert why in str(found.value)
    assert "; expected " in str(found.value)
