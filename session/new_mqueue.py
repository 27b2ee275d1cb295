"""Which kind of mqueue the limits ask for."""

from session.conflation import Newest
from session.fair_mqueue import FairMQueue
from session.flows import FIFO
from session.limits import Limits
from session.mqueue import MQueue
from session.priority_mqueue import PriorityMQueue


def new_mqueue(limits: Limits) -> MQueue:
    """An empty queue: first in, first out, or with weights (FC-12), or fair between flows (FC-33), or both."""
    newest = Newest(limits.conflation) if limits.conflation is not None else None  # FC-37
    if limits.priorities is not None:
        return PriorityMQueue(limits.priorities, limits.fairness, newest)
    return MQueue(0, newest) if limits.fairness == FIFO else FairMQueue(limits.fairness, 0, newest)
