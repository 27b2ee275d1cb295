"""The names of topics at both ends of a bridge."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from broker.bridge.topics import MOST_NAMES, Renaming, Topics
from config.bridge import BridgeTopic
from protocol.topics import matches

LEVELS = st.sampled_from(["", "a", "b", "site", "$SYS"])
TOPICS = st.lists(LEVELS, min_size=1, max_size=4).map("/".join).filter(bool)
FILTERS = st.builds(
    lambda levels, end: "/".join([*levels, *end]),
    st.lists(st.one_of(LEVELS, st.just("+")), min_size=1, max_size=3),
    st.sampled_from([[], ["#"]]),
).filter(bool)
PREFIXES = st.sampled_from(["", "a/", "site/", "a/b/"])


def topics(*given: BridgeTopic) -> Topics:
    """Of a broker that takes topics of any depth."""
    return Topics(given, 0)


@given(FILTERS, PREFIXES, PREFIXES, TOPICS)
def test_what_matches_goes_over_and_nothing_else(own: str, local: str, remote: str, topic: str) -> None:
    """A topic goes out if the local filter matches it, and only its prefix is replaced."""
    rule = BridgeTopic(filter=own, local_prefix=local, remote_prefix=remote)
    name = topics(rule).outgoing.name(topic.encode()).decode()
    if not matches(rule.local_filter, topic):
        assert name == ""
    elif topic.startswith(local):
        assert name == remote + topic[len(local) :]


@given(FILTERS, PREFIXES, PREFIXES, TOPICS)
def test_names_go_back(own: str, local: str, remote: str, topic: str) -> None:
    """Of a topic in both directions the name there has this name here."""
    assume(not (local + own).startswith("$SYS"))  # nothing comes in there
    rule = BridgeTopic(filter=own, direction="both", local_prefix=local, remote_prefix=remote)
    both = topics(rule)
    there = both.outgoing.name(topic.encode())
    if there and topic.startswith(local) and matches(rule.remote_filter, there.decode()):
        assert both.incoming.name(there) == topic.encode()


def test_the_first_rule_that_matches_counts() -> None:
    """Rules are asked in their order."""
    both = topics(BridgeTopic(filter="a/#", remote_prefix="1/"), BridgeTopic(filter="#", remote_prefix="2/"))
    assert [both.outgoing.name(topic) for topic in (b"a/x", b"b")] == [b"1/a/x", b"2/b"]


def test_one_topic_may_have_two_names() -> None:
    """Without filter the prefixes are the two names of one topic."""
    both = topics(BridgeTopic(local_prefix="here", remote_prefix="there", direction="both"))
    assert both.outgoing.name(b"here") == b"there"
    assert both.incoming.name(b"there") == b"here"
    assert both.outgoing.name(b"here/more") == b""


def test_a_filter_matches_the_level_above_it() -> None:
    """site/# is about site too: its prefix is a slash longer."""
    rule = BridgeTopic(filter="#", local_prefix="site/", remote_prefix="far/")
    assert topics(rule).outgoing.name(b"site") == b"far"


def test_names_that_stay_are_the_same_object() -> None:
    """Frames that are built already can be sent only under the name that they have."""
    topic = b"some/topic"
    assert topics(BridgeTopic(filter="#")).outgoing.name(topic) is topic


@pytest.mark.parametrize(("topic", "fits"), [(b"a/b", True), (b"a/b/c", False)])
def test_names_here_are_not_too_deep(topic: bytes, fits: bool) -> None:
    """A name with more levels than mqtt.max_topic_levels does not come in."""
    rule = BridgeTopic(filter="#", direction="in", local_prefix="in/")
    assert bool(Topics([rule], 3).incoming.name(topic)) == fits


def test_long_names_do_not_come_in() -> None:
    """A name that the prefix would make longer than MQTT allows goes nowhere."""
    rule = BridgeTopic(filter="#", direction="in", local_prefix="in/")
    assert topics(rule).incoming.name(b"x" * 65_533) == b""


def test_a_bounded_number_of_names_is_kept() -> None:
    """A remote broker that invents topics costs bounded memory, and each still has its name."""
    names = Renaming([("#", "", "p/")])
    for number in range(MOST_NAMES + 10):
        assert names.name(b"t%d" % number) == b"p/t%d" % number
    assert len(names._names) <= MOST_NAMES


def test_long_names_are_not_kept() -> None:
    """Thousands of topics of the greatest length cost no memory either."""
    names = Renaming([("#", "", "p/")])
    topic = b"x" * 65_000
    assert names.name(topic) == b"p/" + topic
    assert not names._names
