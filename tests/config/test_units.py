"""Units: parsing, refusing, and formatting without loss."""

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config import units

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30.0),
        ("500ms", 0.5),
        ("250us", 0.00025),
        ("5m", 300.0),
        ("2h", 7200.0),
        ("1d", 86400.0),
        ("1.5s", 1.5),
        ("0.1s", 0.1),
        ("0s", 0.0),
        (" 30 s ", 30.0),
        ("infinity", math.inf),
        ("4294967294s", 4294967294.0),
        (30, 30.0),
        (0.25, 0.25),
        (math.inf, math.inf),
    ],
)
def test_durations(text: object, seconds: float) -> None:
    """A duration is a number with a unit, infinity, or seconds from Python code."""
    assert units.parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("30", "without a unit"),
        ("", "found ''"),
        ("s", "found 's'"),
        ("-1s", "found '-1s'"),
        ("1 2s", "found '1 2s'"),
        ("1h30m", "found '1h30m'"),
        ("1e3s", "found '1e3s'"),
        ("30sec", "did you mean 's'?"),
        ("30S", "did you mean 's'?"),
        ("3 hours", "did you mean 'h'?"),
        ("5x", "'x' is not a unit:"),
        ("4294967295s", "136 years"),
        ("99999999999999999999d", "136 years"),
        (5e9, "136 years"),
        (-1, "found -1"),
        (math.nan, "found nan"),
        (True, "found true"),
        (None, "found nothing (null)"),
        ([], "found a list"),
        ({}, "found a mapping"),
        ("٣s", "found '٣s'"),
    ],
)
def test_durations_refused(value: object, message: str) -> None:
    """An invalid duration is refused, with what was found and what was expected."""
    with pytest.raises(ValueError, match=r"such as 30s|write infinity") as caught:
        units.parse_duration(value)
    assert message in str(caught.value)


def test_bare_numbers_need_a_unit_in_files() -> None:
    """A number without a unit is refused in files; from Python it is seconds."""
    with pytest.raises(ValueError, match="found 30, a number without a unit"):
        units.parse_duration(30, bare_numbers=False)


@pytest.mark.parametrize("value", [0, "0"])
def test_nothing_needs_no_unit(value: object) -> None:
    """0 is the same in every unit, so a file may have `overflow_patience: 0`, and a variable too."""
    assert units.parse_duration(value, bare_numbers=False) == 0


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("10MiB", 10 * 1024**2),
        ("64KiB", 65536),
        ("1MB", 10**6),
        ("1kB", 1000),
        ("1KB", 1000),
        ("2GB", 2 * 10**9),
        ("1GiB", 1024**3),
        ("1TiB", 1024**4),
        ("1TB", 10**12),
        ("256B", 256),
        ("1.5KiB", 1536),
        ("300", 300),
        (300, 300),
        ("infinity", 0),
        (0, 0),
    ],
)
def test_sizes(text: object, size: int) -> None:
    """A size is bytes, a number with a unit in thousands or 1024s, or infinity, which is 0."""
    assert units.parse_size(text) == size


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("10mib", "did you mean 'MiB'?"),
        ("10M", "'M' is not a unit"),
        ("0.5B", "not a whole number of bytes"),
        ("1.5", "without a unit"),
        (1.5, "found 1.5"),
        (-1, "below zero"),
        (2**63, "more than"),
        ("9000000000TiB", "more than"),
        (True, "found true"),
        (None, "found nothing"),
        ("ten", "found 'ten'"),
    ],
)
def test_sizes_refused(value: object, message: str) -> None:
    """An invalid size is refused, with what was found and what was expected."""
    with pytest.raises(ValueError, match="such as 10MiB") as caught:
        units.parse_size(value)
    assert message in str(caught.value)


@pytest.mark.parametrize(("text", "count"), [(0, 0), ("infinity", 0), (7, 7), ("7", 7), (" 7 ", 7), ("007", 7)])
def test_counts(text: object, count: int) -> None:
    """A count is a whole number; infinity and 0 are no limit."""
    assert units.parse_count(text) == count


@pytest.mark.parametrize("value", [-1, 1.0, "1.0", "-1", "1e3", "many", "", True, None, [1], 2**63, "9" * 5000, "1_0"])
def test_counts_refused(value: object) -> None:
    """An invalid count is refused, with what was expected."""
    with pytest.raises(ValueError, match="write a whole number, or infinity for no limit"):
        units.parse_count(value)


@pytest.mark.parametrize(
    ("text", "size"),
    [("infinity", -1), (-1, -1), ("-1", -1), (" infinity ", -1), (0, 0), ("0B", 0), ("64KiB", 65536), (300, 300)],
)
def test_windows(text: object, size: int) -> None:
    """FC-10: a window is a size for which 0 is a value; every form of no limit gives -1."""
    assert units.parse_window(text) == size


@pytest.mark.parametrize("value", [-2, "-2", -1.0, "-1B", True, None, [], "10mib", "", 1.5, 2**63])
def test_windows_refused(value: object) -> None:
    """An invalid window is refused, with what was expected."""
    with pytest.raises(ValueError, match=r"found .*such as 10MiB .*, or infinity for no limit"):
        units.parse_window(value)


@pytest.mark.parametrize(
    ("text", "rate"),
    [("infinity", 0), (-1, 0), ("-1", 0), (0, 0), (1, 1), ("1000", 1000), (1_000_000, 1_000_000)],
)
def test_rates(text: object, rate: int) -> None:
    """FC-11, FC-23: a rate is a whole number a second; every form of no limit gives 0."""
    assert units.parse_rate(text) == rate


@pytest.mark.parametrize("value", [-2, "-2", 1.5, "10/s", True, None, [], "", 1_000_001])
def test_rates_refused(value: object) -> None:
    """An invalid rate is refused, with what was expected."""
    with pytest.raises(ValueError, match=r"found .*write a whole number from 1 to 1000000, or infinity for no limit"):
        units.parse_rate(value)


@pytest.mark.parametrize("value", [0, "0"])
def test_a_rate_of_nothing_is_refused_in_files(value: object) -> None:
    """A 0 in a file is ambiguous and refused; from Python it is no limit."""
    with pytest.raises(ValueError, match="write a whole number from 1"):
        units.parse_rate(value, zero=False)


def test_infinity_refused_where_there_must_be_a_limit() -> None:
    """Where a limit is required, infinity is refused and not suggested."""
    for parse in (units.parse_duration, units.parse_size, units.parse_count):
        with pytest.raises(ValueError, match="found 'infinity'") as caught:
            parse("infinity", unlimited=False)
        assert "or infinity" not in str(caught.value)
    with pytest.raises(ValueError, match="found inf"):
        units.parse_duration(math.inf, unlimited=False)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (7200.0, "2h"),
        (86400.0, "1d"),
        (90.0, "90s"),
        (300, "5m"),
        (0.5, "500ms"),
        (0.00025, "250us"),
        (1.0000005, "1.0000005s"),
        (0.0, "0s"),
        (math.inf, "infinity"),
    ],
)
def test_format_duration(seconds: float, text: str) -> None:
    """A duration is written with the largest unit that keeps it whole."""
    assert units.format_duration(seconds) == text


def test_format_size_and_count() -> None:
    """A size is written with the largest binary unit that keeps it whole, no limit as infinity."""
    assert [units.format_size(size) for size in (0, 300, 1024, 1536, 1024**2, 3 * 1024**4)] == [
        "infinity",
        "300B",
        "1KiB",
        "1536B",
        "1MiB",
        "3TiB",
    ]
    assert [units.format_count(count) for count in (0, 7)] == ["infinity", 7]
    assert [units.format_window(size) for size in (-1, 0, 1024)] == ["infinity", "0B", "1KiB"]


@given(st.integers(0, units.LONGEST_DURATION * 10**6).map(lambda us: us / 10**6) | st.just(math.inf))
def test_durations_survive_formatting(seconds: float) -> None:
    """Parsing what was formatted gives the same duration, to the microsecond."""
    assert units.parse_duration(units.format_duration(seconds)) == round(seconds, 6)


@given(st.integers(0, units.LARGEST_NUMBER))
def test_sizes_and_counts_survive_formatting(number: int) -> None:
    """Parsing what was formatted gives the same number."""
    assert units.parse_size(units.format_size(number)) == number
    assert units.parse_count(units.format_count(number)) == number
    assert units.parse_window(units.format_window(number)) == number


@given(st.text() | st.integers() | st.floats() | st.none() | st.booleans() | st.lists(st.integers(), max_size=2))
def test_anything_is_parsed_or_refused(value: object) -> None:
    """Every value is parsed into the range or raises ValueError."""
    for parse, least, most in (
        (units.parse_duration, 0, math.inf),
        (units.parse_size, 0, units.LARGEST_NUMBER),
        (units.parse_count, 0, units.LARGEST_NUMBER),
        (units.parse_window, units.UNBOUNDED, units.LARGEST_NUMBER),
        (units.parse_rate, 0, units.LARGEST_RATE),
    ):
        with contextlib.suppress(ValueError):
            assert least <= parse(value) <= most


def test_long_values_are_cut_in_messages() -> None:
    """A long value is shown by its beginning."""
    assert len(units.found("x" * 1000)) == 80
