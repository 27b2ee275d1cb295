"""Formatting numbers and names."""

from zoneinfo import ZoneInfo

import pytest

from spark_jobs import formats

pytestmark = pytest.mark.once


def plain(text: str) -> str:
    """Without the special spaces."""
    return text.replace("\u202f", " ").replace("\u00a0", " ")


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (0, "0 %"),
        (1, "100 %"),
        (0.99999, "> 99.99 %"),
        (0.00001, "< 0.01 %"),
        (0.996, "99.60 %"),
        (0.5, "50.0 %"),
        (0.0123, "1.23 %"),
        (1.2, "120.00 %"),
        (None, "–"),
    ],
)
def test_shares_are_not_rounded_to_all_or_nothing(part: float | None, text: str) -> None:
    """A share below 1 is never shown as 100 %, one above 0 never as 0 %."""
    assert plain(formats.percent(part)) == text


@pytest.mark.parametrize(
    ("value", "text"), [(1, "1.000"), (0.9999, "> 0.999"), (0.99949, "0.999"), (0.5, "0.500"), (None, "–")]
)
def test_the_index_is_not_rounded_to_one(value: float | None, text: str) -> None:
    """Only a value of 1 is shown as 1."""
    assert formats.index(value) == text


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "0 µs"),
        (350, "350 µs"),
        (1400, "1.4 ms"),
        (83_424, "83.4 ms"),
        (1_912_356, "1.91 s"),
        (2**30, "17.9 min"),
        (None, "–"),
    ],
)
def test_times_have_the_unit_that_suits_them(us: float | None, text: str) -> None:
    """Three digits at most."""
    assert plain(formats.micros(us)) == text


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (950, "950"), (1200, "1.2 k"), (34_000_000, "34 M"), (0.25, "0.25")]
)
def test_short_numbers(number: float, text: str) -> None:
    """Short form, with a letter for thousands."""
    assert plain(formats.short(number)) == text


def test_nouns_follow_their_number() -> None:
    """One file, no files, many files."""
    assert [formats.counted(n, "file") for n in (0, 1, 2000)] == ["0 files", "1 file", "2,000 files"]


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (100, 110, "+10.0 %"),
        (100, 90, "−10.0 %"),
        (100, 300, "× 3"),
        (100, 10, "÷ 10"),
        (0, 5, "–"),
        (5, None, "–"),
    ],
)
def test_changes(before: float, after: float | None, text: str) -> None:
    """Per cent, and from a factor of two on, the factor."""
    assert plain(formats.change(before, after)) == text


def test_bounds_of_percentiles() -> None:
    """At most the bucket's upper bound; at least its lower bound if it has no upper one."""
    assert plain(formats.at_most(2047, 1024, "us")) == "≤ 2.05 ms"
    assert plain(formats.at_most(None, 2**30, "us")) == "≥ 17.9 min"
    assert plain(formats.at_most(15, 8, "deliveries")) == "≤ 15"
    assert formats.at_most(None, None, "us") == "–"


def test_lengths_of_time() -> None:
    """The largest unit of which there are at least two, or exactly one."""
    assert [plain(formats.seconds(s)) for s in (0, 1, 90, 60, 120, 7200, 172_800)] == [
        "0 s",
        "1 s",
        "90 s",
        "1 min",
        "2 min",
        "2 h",
        "2 days",
    ]


def test_names_show_what_cannot_be_seen() -> None:
    """Control characters and those that reverse the text are escaped; long names are truncated."""
    assert formats.name("a\u202eb\nc\x00") == "a\\u202eb\\u000ac\\u0000"
    assert formats.name("x" * 65_535) == "x" * 47 + "…"


def test_unknown_reasons_are_shown_as_they_are() -> None:
    """Reasons of later schemas are shown by their names."""
    assert formats.reason("queue_full") == "mqueue full"
    assert formats.reason("struck_by_lightning") == "struck by lightning"
    assert formats.scope("some_scope") == "some scope"


NOON = 1_795_262_400_000_000


def test_moments_are_short() -> None:
    """To the minute, in UTC; a range within a day names the day once."""
    assert formats.minute(NOON) == "21 Nov 12:00"
    assert formats.between(NOON, NOON + 3_600_000_000) == "21 Nov 12:00 to 13:00"
    assert formats.between(NOON, NOON + 86_400_000_000) == "21 Nov 12:00 to 22 Nov 12:00"


def test_a_time_that_comes_twice_has_its_offset() -> None:
    """When clocks are set back, the hour from two to three; not the hours around it, nor when they are put forward."""
    two = 1_792_886_400_000_000  # 25 October 2026, 02:00 in Berlin, still in summer
    hour = 3_600_000_000
    with formats.in_zone(ZoneInfo("Europe/Berlin")):
        assert [formats.minute(two + hours * hour) for hours in (-1, 0, 1, 2)] == [
            "25 Oct 01:00",
            "25 Oct 02:00+0200",
            "25 Oct 02:00+0100",
            "25 Oct 03:00",
        ]
        assert formats.between(two - hour, two + hour) == "25 Oct 01:00 to 02:00+0100"
        march = 1_774_746_000_000_000 - hour  # 29 March 2026, 01:00 UTC: 03:00 follows 02:00
        assert "+" not in formats.minute(march) + formats.minute(march + hour)


def test_lists_end_with_and() -> None:
    """One, two, and more."""
    assert formats.listed(["a"]) == "a"
    assert formats.listed(["a", "b"]) == "a and b"
    assert formats.listed(["a", "b", "c"]) == "a, b and c"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (905_000.0, "us", "905 ms"),
        (0.25, "share", "25.0 %"),
        (0.5, "index", "0.500"),
        (12.5, "per_second", "12.5/s"),
        (90.0, "seconds", "90 s"),
        (14.0, "clients", "14"),
        (1234.0, "deliveries", "1,234"),
        (None, "us", "–"),
    ],
)
def test_measures_are_written_in_their_unit(value: float | None, unit: str, text: str) -> None:
    """Times with a suitable unit, shares as per cent, counts with thousands separators."""
    assert plain(formats.measured(value, unit)) == text


def test_names_of_measures_stand_in_sentences() -> None:
    """Names keep their capital; other words begin in lower case."""
    assert formats.inside("Starved clients") == "starved clients"
    assert formats.inside("QoS 1 acknowledged") == "QoS 1 acknowledged"


def test_findings_about_the_input_are_counted() -> None:
    """One and several; an unknown kind is shown by its name."""
    assert formats.quality("empty", 1) == "1 empty file"
    assert formats.quality("clock", 2) == "2 wrong clocks"
    assert formats.quality("some_thing", 1234) == "some thing (1,234)"


def test_ranges_have_one_form() -> None:
    """In the time zone, without their end; in UTC if the zone has no such year."""
    noon = 1_795_262_400_000_000
    assert formats.span(noon, noon + 3_600_000_000) == "2026-11-21T12:00 to 2026-11-21T13:00 (UTC)"
    with formats.in_zone(ZoneInfo("Asia/Kolkata")):
        assert formats.span(None, noon) == "the beginning to 2026-11-21T17:30 (Asia/Kolkata)"
    with formats.in_zone(ZoneInfo("America/New_York")):
        assert formats.span(-62_135_596_800_000_000, None) == "0001-01-01T00:00 to the end (UTC)"
