"""FC-12: which weight a topic has, and that a session serves its topics by it."""

import pytest

from session.limits import Limits
from session.priorities import UNLISTED, Priorities
from tests.support.session.messages import texts
from tests.support.session.peer import Peer

RULES = [("#", 2), ("alarm/#", 200), ("alarm/test", 5), ("+/temperature", 30), ("$SYS/#", 7)]


@pytest.mark.parametrize(
    ("topic", "weight"),
    [
        ("alarm/fire", 200),
        ("alarm", 200),
        ("alarm/test", 5),
        ("kitchen/temperature", 30),
        ("alarm/temperature", 200),
        ("anything", 2),
        ("$SYS/broker/load", 7),
        ("$other", UNLISTED),
    ],
)
def test_most_specific_rule(topic: str, weight: int) -> None:
    """FC-12: the most specific matching filter gives the weight, wherever it is in the list."""
    assert Priorities(RULES).weight(topic.encode()) == weight
    assert Priorities(RULES[::-1]).weight(topic.encode()) == weight


@pytest.mark.parametrize("rules", [[], [("a", 255)]])
def test_unlisted(rules: list[tuple[str, int]]) -> None:
    """FC-12: a topic without a matching filter has the lowest weight, 1."""
    assert Priorities(rules).weight(b"b") == UNLISTED == 1


def test_session_serves_the_heavier_first() -> None:
    """FC-12: a session sends by the weight of topics; without weights in order of arrival."""
    for priorities, left in [(Priorities(RULES), ["fire", "news"]), (None, ["news", "fire"])]:
        peer = Peer(Limits(max_inflight=2, priorities=priorities))
        peer.deliver("a", "b", qos=1)
        peer.deliver("news", qos=1, topic="news")
        peer.deliver("fire", qos=1, topic="alarm/fire")

        assert texts(peer.puback(1, 2)) == left
