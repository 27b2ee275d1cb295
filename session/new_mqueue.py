"""Which kind of mqueue the limits ask for."""

from session.fair_mqueue import FairMQueue
from session.flows import FIFO
from session.limits import Limits
from session.mqueue import MQueue
from session.priority_mqueue import PriorityMQueue


def new_mqueue(limits: Limits) -> MQueue:
    """An empty queue: first in, first out, or with weights (FC-12), or fair between flows (FC-33), or both."""
    if limits.priorities is not None:
        return PriorityMQueue(limits.priorities, limits.fairness)
    return MQueue() if limits.fairness == FIFO else FairMQueue(limits.fairness)
