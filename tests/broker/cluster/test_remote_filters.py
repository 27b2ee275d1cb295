"""The table of filters that clients of other cells have."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from broker.cluster.remote_filters import RemoteFilters

FILTERS = st.sampled_from([b"a", b"b", b"a/b", b"\0", b"device/1"])
TAGS = st.integers(0, 127)
CHANGES = st.lists(st.tuples(st.sampled_from(["add", "remove", "drop"]), FILTERS, TAGS), max_size=60)


@given(changes=CHANGES)
def test_it_knows_what_it_was_told(changes: list[tuple[str, bytes, int]]) -> None:
    """Each filter has the tags with which it was added, and not been removed or dropped since."""
    subject = RemoteFilters()
    known: Counter[tuple[bytes, int]] = Counter()
    for change, topic, tag in changes:
        if change == "add":
            subject.add(topic, tag)
            known[topic, tag] += 1
        elif change == "remove":
            assert subject.remove(topic, tag) == (known[topic, tag] > 0)
            known[topic, tag] = max(known[topic, tag] - 1, 0)
        else:
            subject.drop(tag)
            known = Counter({each: count for each, count in known.items() if each[1] != tag})
        assert len(subject) == known.total()
        for each in {topic for _, topic, _ in changes}:
            assert sorted(subject.tags(each)) == sorted(tag for (name, tag), n in known.items() if n and name == each)


@given(topics=st.sets(st.binary(min_size=1, max_size=12), min_size=1, max_size=400))
def test_other_topics_have_no_tags(topics: set[bytes]) -> None:
    """Entries that share a bucket are not mixed up."""
    subject = RemoteFilters()
    for place, topic in enumerate(sorted(topics)):
        subject.add(topic, place % 64)
    for place, topic in enumerate(sorted(topics)):
        assert subject.tags(topic) == [place % 64]
        assert subject.tags(topic + b"-other") == []
