"""What deliveries count for their address (FC-24a)."""

from session.cost import around


def held(count: int, size: int, topic: str) -> int:
    """What so many deliveries of a topic count together, whose payloads have `size` bytes."""
    return count * (size + around(topic.encode(), None))
