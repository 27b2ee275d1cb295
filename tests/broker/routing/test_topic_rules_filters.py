"""Which filters a denied filter covers, compared with the topics that each of them matches."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from broker.routing.filter_tree import FilterTree
from broker.routing.topic_rules import TopicRules
from config.models import Config
from protocol.topics import matches

LEVELS = ["", "a", "$b"]


def _paths(levels: list[str], deepest: int) -> list[str]:
    return ["/".join(path) for depth in range(1, deepest + 1) for path in product(levels, repeat=depth)]


FILTERS = [topic_filter for topic_filter in _paths([*LEVELS, "+"], 3) if topic_filter]
FILTERS += ["#", *[f"{topic_filter}/#" for topic_filter in ["", *FILTERS]]]
TOPICS = [topic for topic in _paths([*LEVELS, "other"], 4) if topic]
"""All that matters: deeper topics and more names tell no two of the filters apart."""


def rules(denied: list[str]) -> TopicRules:
    """Topic rules that deny these filters, to publish to as well as to subscribe to."""
    return TopicRules(Config.model_validate({"authorization": {"deny_publish": denied, "deny_subscribe": denied}}))


def test_covered() -> None:
    """A filter is refused if, and only if, every topic that it matches is denied."""
    matched = {topic_filter: {topic for topic in TOPICS if matches(topic_filter, topic)} for topic_filter in FILTERS}
    for denied in FILTERS:
        subject = rules([denied])
        for topic_filter in FILTERS:
            covered = matched[topic_filter] <= matched[denied]
            assert subject.may_subscribe(topic_filter.encode()) != covered, (denied, topic_filter)


@given(st.lists(st.sampled_from(FILTERS), max_size=4), st.sampled_from(TOPICS))
def test_topics(denied: list[str], topic: str) -> None:
    """A topic is denied if one of the filters matches it."""
    subject = rules(denied)
    matched = any(matches(topic_filter, topic) for topic_filter in denied)
    assert subject.may_receive(topic.encode()) != matched
    assert subject.may_publish(topic.encode()) != matched


@given(st.lists(st.sampled_from(FILTERS), max_size=4), st.sampled_from(FILTERS))
def test_several(denied: list[str], topic_filter: str) -> None:
    """Several rules refuse a filter that one of them covers."""
    each = [rules([one]).may_subscribe(topic_filter.encode()) for one in denied]
    assert rules(denied).may_subscribe(topic_filter.encode()) == all(each)


def test_looked_up_once() -> None:
    """A lookup visits each level of a filter once, so its cost does not grow exponentially with "+"."""
    tree = FilterTree()
    denied = tree.at(b"+/+/+/+")
    assert tree.match(b"+/+/+/+") == [denied]
