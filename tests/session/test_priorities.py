"""FC-12: which weight a topic has."""

import pytest

from session.priorities import UNLISTED, Priorities

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
    """FC-12: of the filters that match a topic the most specific one gives the weight, wherever it stands."""
    assert Priorities(RULES).weight(topic.encode()) == weight
    assert Priorities(RULES[::-1]).weight(topic.encode()) == weight


@pytest.mark.parametrize("rules", [[], [("a", 255)]])
def test_unlisted(rules: list[tuple[str, int]]) -> None:
    """FC-12: a topic that no rule speaks of has the lightest weight, 1."""
    assert Priorities(rules).weight(b"b") == UNLISTED == 1
