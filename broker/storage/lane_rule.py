"""Where in an mqueue a delivery waits: in which lane (FC-12, FC-33), and whether only the newest does (FC-37)."""

from typing import final

from mypy_extensions import mypyc_attr

from session.conflation import Conflation
from session.flows import FIFO, flow_lane, lane_number
from session.priorities import Priorities


@mypyc_attr(acyclic=True)
@final
class LaneRule:
    """The rule of all queues with the same limits."""

    def __init__(
        self, priorities: Priorities | None = None, fairness: int = FIFO, conflation: Conflation | None = None
    ) -> None:
        self.priorities = priorities
        self.fairness = fairness
        self.conflation = conflation

    def number(self, topic: bytes, flow: int) -> int:
        """The number of the lane; 0 = the queue has one."""
        weight = self.priorities.weight(topic) if self.priorities is not None else 0
        return lane_number(weight, flow_lane(flow, self.fairness) if self.fairness != FIFO else 0)
