"""The section `cluster`: how many processes serve the clients of this broker (broker/cluster/CLUSTER.md)."""

import os
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field

from config.session import SlowConsumer
from config.units import found
from config.value_types import AUTO, FiniteSize, Model

CELL: Final = "$cell"
"""The listener and the profile of the sessions between cells; with `/` and its number, the client id of a cell."""
CELL_FULL: Final = "$cell/full"
"""Their profile while much waits in their queue."""
MOST_WORKERS: Final = 64
_FOREVER: Final = 1e9
"""Seconds. `infinity` would switch it off."""
LINKS: Final = {
    "max_inflight": 1_000,
    "max_mqueue_len": 0,
    "max_mqueue_bytes": 0,
    "max_mqueue_age": float("inf"),
    "overflow_patience": 0.0,
    "mqueue_fairness": "fifo",
    "mqueue_priorities": [],
    "conflate": [],
    "slow_consumer": SlowConsumer(),
    "max_awaiting_rel": 0,
    "consumer_window_size": -1,
    "consumer_max_rate": 0,
    "producer_max_rate": 0,
    "receive_maximum_policy": "tolerate",
}
"""What of `session` is another for links: they lose nothing of QoS 1 and 2 (CL-4)."""
LINKS_FULL: Final = LINKS | {
    "mqueue_overflow": "reject",
    "overflow_timeout": _FOREVER,
    "overflow_offline_grace": _FOREVER,
}
"""The same while much waits: publishers are told when it is too much, for as long as that is so (FC-34)."""


def _workers(value: object) -> object:
    """Check the number of processes."""
    if value == AUTO:
        return value
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
    if isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= MOST_WORKERS:
        return number
    raise ValueError(f"found {found(value)}: write 1 to {MOST_WORKERS}, or {AUTO} for one a core")


class Cluster(Model):
    """Workers: processes behind one port."""

    workers: Annotated[int | Literal["auto"], BeforeValidator(_workers)] = 1
    """How many processes serve clients; AUTO = one for each core that this one may use."""
    link_queue: FiniteSize = Field(default=256 * 1024 * 1024, ge=1024 * 1024)
    """CL-4: payload bytes that may wait for one other cell; then publishers to it are refused."""

    @property
    def count(self) -> int:
        """The number that `workers` stands for."""
        if self.workers != AUTO:
            return self.workers
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return min(cores, MOST_WORKERS)
