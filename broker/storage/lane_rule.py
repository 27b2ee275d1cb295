"""In which lane of an mqueue a delivery waits: by the weight of its topic (FC-12), and by its flow (FC-33)."""

from typing import final

from mypy_extensions import mypyc_attr

from session.flows import FIFO, flow_lane, lane_number
from session.priorities import Priorities


@mypyc_attr(acyclic=True)
@final
class LaneRule:
    """The rule of all queues with the same limits."""

    def __init__(self, priorities: Priorities | None = None, fairness: int = FIFO) -> None:
        self.priorities = priorities
        self.fairness = fairness

    def number(self, topic: bytes, flow: int) -> int:
        """The number of the lane; 0 = the queue has one."""
        weight = self.priorities.weight(topic) if self.priorities is not None else 0
        return lane_number(weight, flow_lane(flow, self.fairness) if self.fairness != FIFO else 0)
