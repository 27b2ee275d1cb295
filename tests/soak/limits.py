"""How much memory a round may cost the broker."""

from typing import Final

from tests.soak.checker import Violation
from tests.soak.observed import Observed
from tests.soak.plan import RoundPlan

MIB: Final = 2**20
ALLOWANCE: Final = 64 * MIB
"""Code that is loaded late (pyarrow writes the metrics), metrics of an interval, what the allocator keeps."""
CONNECTION: Final = 400_000
"""Bytes of one connection: a chunk that was read (256 KiB at most), and the two passes that its transport may hold."""
DELIVERY: Final = 400
"""Bytes that a delivery takes besides its payload, which all share: message, queue entry, frames."""
MESSAGE: Final = 1000
"""Bytes of a message besides its payload, in each form in which it goes out."""


def allowed(plan: RoundPlan, observed: Observed) -> int:
    """Bytes that the broker may grow by: all that was published, and for each session what its limits let wait."""
    published = len(observed.messages)
    payload = sum(message.size for message in observed.messages.values())
    waiting: int = min(plan.sections["session"]["max_mqueue_len"], published)
    sessions = len(plan.publishers) + len(plan.subscribers)
    queues = sessions * waiting * DELIVERY
    return ALLOWANCE + sessions * CONNECTION + queues + published * MESSAGE + 2 * payload


def check_memory(plan: RoundPlan, observed: Observed, before: int, most: int) -> list[Violation]:
    """Return a violation if the broker has grown by more."""
    bound = allowed(plan, observed)
    if most - before <= bound:
        return []
    grown = (most - before) / MIB
    return [Violation("bounded memory", "the broker", f"has grown by {grown:.0f} MiB, allowed are {bound / MIB:.0f}")]
