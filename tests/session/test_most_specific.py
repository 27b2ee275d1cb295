"""Which of several matching filters is the most specific, compared with the definition."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.topics import matches
from session.most_specific import CACHED_BYTES, CACHED_TOPICS, NONE, MostSpecific
from tests.support.protocol.strategies import topic_filters, topics

WORDS = st.sampled_from(["a", "b", ""])
short_topics = st.lists(WORDS, min_size=1, max_size=3).map("/".join).filter(bool)
short_filters = st.builds(
    lambda levels, end: "/".join([*levels, *end]) or "#",
    st.lists(st.one_of(WORDS, st.just("+")), max_size=3),
    st.sampled_from([[], ["#"]]),
)


def more_specific(one: str, other: str) -> bool:
    """Whether `one` says more than `other`; both match the same topic, and they differ."""
    for level, beside in zip(one.split("/"), other.split("/"), strict=False):
        if level != beside:
            return "#+".find(level) > "#+".find(beside) if {level, beside} <= {"#", "+"} else level not in {"#", "+"}
    return other.endswith("/#")  # they are the same up to the end of `one`


@pytest.mark.parametrize(
    ("filters", "topic", "applies"),
    [
        (["#", "a/#", "a/b"], "a/b", "a/b"),
        (["#", "a/#", "a/b"], "a/c", "a/#"),
        (["#", "a/#", "a/b"], "c", "#"),
        (["+", "#"], "a", "+"),
        (["+/#", "+"], "a", "+"),
        (["a/#", "a"], "a", "a"),
        (["a/b/#", "a/b"], "a/b", "a/b"),
        (["a/+/c", "a/b/#"], "a/b/c", "a/b/#"),
        (["+/b/c", "a/#"], "a/b/c", "a/#"),
        (["a/#", "a/+/#"], "a/b", "a/+/#"),
        (["#", "+/x", "$SYS/#"], "$SYS/x", "$SYS/#"),
        (["/+", "+/+"], "/a", "/+"),
    ],
)
def test_level_by_level(filters: list[str], topic: str, applies: str) -> None:
    """From the left a name precedes `+`, and `+` precedes `#`; the order of the filters has no effect."""
    assert filters[MostSpecific(filters).find(topic.encode())] == applies
    filters = filters[::-1]
    assert filters[MostSpecific(filters).find(topic.encode())] == applies


@pytest.mark.parametrize(("filters", "topic"), [([], "a"), (["b", "a/b"], "a"), (["#", "+/a"], "$SYS/a")])
def test_none_matches(filters: list[str], topic: str) -> None:
    """Without a matching filter there is no result, also for `$` topics and a leading wildcard [MQTT-4.7.2-1]."""
    assert MostSpecific(filters).find(topic.encode()) == NONE


@given(st.lists(st.one_of(short_filters, topic_filters()), unique=True, max_size=8), st.one_of(short_topics, topics))
def test_equals_the_definition(filters: list[str], topic: str) -> None:
    """The result matches, and is more specific than every other matching filter, also when asked again."""
    found = MostSpecific(filters)
    number = found.find(topic.encode())
    matching = [topic_filter for topic_filter in filters if matches(topic_filter, topic)]

    if number == NONE:
        assert matching == []
    else:
        assert filters[number] in matching
        assert all(more_specific(filters[number], other) for other in matching if other != filters[number])
    assert found.find(topic.encode()) == number


@pytest.mark.parametrize("length", [1, 30_000])
def test_bounded_memory(length: int) -> None:
    """The cache is bounded by the number and length of topics, and results stay right."""
    found = MostSpecific(["+/a/#"])
    first = b"first/a/" + b"x" * length
    unknown = sys.getrefcount(first)
    assert found.find(first) == 0
    assert sys.getrefcount(first) > unknown

    for number in range(min(CACHED_TOPICS, CACHED_BYTES // length)):
        assert found.find(b"%d/a/" % number + b"y" * length) == 0

    assert sys.getrefcount(first) == unknown
    assert found.find(first) == 0
