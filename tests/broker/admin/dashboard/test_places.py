"""Places of those who look: bounded for all, for each, and for viewers."""

import pytest

from broker.admin.dashboard.places import FOR_OPERATORS, MOST, MOST_OF_ONE, Places

pytestmark = pytest.mark.once


def test_nobody_takes_all() -> None:
    """One who looks too often is told so, and others still find a place."""
    places = Places()
    assert not any(places.take("ann", True) for _ in range(MOST_OF_ONE))
    assert "ann looks 8 times already" in places.take("ann", True)
    assert not places.take("ben", False)
    places.leave("ann")
    assert not places.take("ann", True)


def test_some_are_for_operators() -> None:
    """When as many viewers look as may, operators find a place, until all are taken."""
    places = Places()
    for number in range(MOST - FOR_OPERATORS):
        assert not places.take(f"viewer {number}", False)
    assert "12 others look, which is the most for viewers" in places.take("one more", False)
    for number in range(FOR_OPERATORS):
        assert not places.take(f"operator {number}", True)
    assert "16 others look" in places.take("one more", True)
