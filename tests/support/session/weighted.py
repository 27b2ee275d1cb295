"""Mqueues whose topics have weights: for FC-12."""

from collections.abc import Sequence
from typing import Final

from protocol.publish import Publish
from session.limits import DROP_NEWEST, DROP_OLDEST, DROP_OLDEST_QOS0
from session.priorities import Priorities
from session.priority_mqueue import PriorityMQueue
from tests.support.session.messages import message

POLICIES: Final = [DROP_OLDEST, DROP_OLDEST_QOS0, DROP_NEWEST]
WEIGHTS: Final = {"light": 1, "low": 2, "high": 5, "also high": 5, "top": 255}
"""By topic; other topics have weight 1."""


def new_queue() -> PriorityMQueue:
    """An empty queue with WEIGHTS."""
    return PriorityMQueue(Priorities([(topic, weight) for topic, weight in WEIGHTS.items() if weight > 1]))


def queue_of(topics: Sequence[str], qos: int | Sequence[int] = 1, size: int = 1) -> PriorityMQueue:
    """A queue of messages 0, 1, 2 ... of the given topics, with one QoS for all or one for each."""
    mqueue = new_queue()
    qos_of_each = [qos] * len(topics) if isinstance(qos, int) else qos
    for number, (topic, own_qos) in enumerate(zip(topics, qos_of_each, strict=True)):
        mqueue.append(message(number, own_qos, topic, size=size))
    return mqueue


def weight_of(publish: Publish) -> int:
    """The weight of its topic."""
    return WEIGHTS[publish.topic.decode()]
