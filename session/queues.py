"""Which kind of mqueue the limits ask for."""

from session.limits import Limits
from session.mqueue import MQueue
from session.priority_mqueue import PriorityMQueue


def new_mqueue(limits: Limits) -> MQueue:
    """An empty queue: by the weight of topics where there are any (FC-12)."""
    return MQueue() if limits.priorities is None else PriorityMQueue(limits.priorities)
