"""The configuration of one session, and what a random one is drawn from."""

from dataclasses import dataclass
from random import Random
from typing import Any, Final

from tests.model.message import SECOND


@dataclass(frozen=True)
class Knobs:
    """FLOW-CONTROL.md's knobs. Counts and sizes: 0 = no limit; durations in microseconds, 0 = never."""

    max_inflight: int = 32
    max_mqueue_len: int = 1000
    max_mqueue_bytes: int = 0
    mqueue_overflow: str = "drop_oldest"
    mqueue_store_qos0: bool = True
    retry_interval: int = 30 * SECOND
    receive_maximum: int = 65_535
    tolerate_receive_maximum: bool = False
    max_awaiting_rel: int = 65_535
    await_rel_timeout: int = 300 * SECOND
    producer_window_size: int = 65_536
    consumer_window_size: int = -1
    """-1 = none, 0 = one delivery at a time."""
    consumer_max_rate: int = 0
    """0 = none."""
    mqueue_priorities: tuple[tuple[str, int], ...] = ()
    max_mqueue_age: int = 0
    """FC-36; 0 = none."""
    overflow_timeout: int = 30 * SECOND
    overflow_offline_grace: int = 0
    """FC-34."""
    fair: bool = False
    """Whether the mqueue is fair between publishers (FC-33)."""
    keyed: bool = False
    """Whether a group gives a flow to one member at a time (FC-33); only where it is fair."""
    conflate: tuple[str, ...] = ()
    """Filters of topics of which only the newest waits (FC-37)."""
    slow_threshold: float = 0.5
    """0 = nobody is slow."""
    slow_check_period: int = 5 * SECOND
    slow_disconnect: bool = False
    stalled_window: int = 60 * SECOND
    overflow_patience: int = 5 * SECOND
    """0 = nobody is held back."""
    gate: bool = True
    addresses: bool = False
    """Whether what sessions hold of a topic is counted (FC-24)."""


_CHOICES: Final[dict[str, list[Any]]] = {
    "max_inflight": [0, 1, 2, 4, 8, 32],
    "max_mqueue_len": [0, 1, 2, 5, 20, 100],
    "max_mqueue_bytes": [0, 60, 300],
    "mqueue_overflow": ["drop_oldest", "drop_oldest_qos0", "drop_newest", "reject", "reject"],
    "mqueue_store_qos0": [True, False],
    "retry_interval": [0, 3 * SECOND, 30 * SECOND],
    "receive_maximum": [1, 2, 4, 32, 65_535],
    "tolerate_receive_maximum": [False, True],
    "max_awaiting_rel": [0, 1, 3, 65_535],
    "producer_window_size": [70, 200, 65_536],
    "await_rel_timeout": [0, 5 * SECOND, 300 * SECOND],
    "consumer_window_size": [-1, -1, 0, 30, 200],
    "consumer_max_rate": [0, 0, 1, 7, 50, 2_000],
    "mqueue_priorities": [
        (),
        (("a/x", 3),),
        (("a/+", 2), ("a/x", 5), ("#", 1)),
        (("b", 255), ("c/#", 2), ("+/y", 2)),
    ],
    "max_mqueue_age": [0, 0, 2 * SECOND, 40 * SECOND],
    "overflow_timeout": [2 * SECOND, 30 * SECOND],
    "overflow_offline_grace": [0, 3 * SECOND],
    "fair": [False, True],
    "conflate": [(), (), ("b",), ("a/+", "c/#"), ("#",)],
    "slow_threshold": [0.0, 0.5, 3.0],
    "slow_check_period": [1 * SECOND, 5 * SECOND],
    "slow_disconnect": [False, True],
    "stalled_window": [0, 2 * SECOND, 2 * SECOND],
    "overflow_patience": [0, 0, SECOND // 2, 5 * SECOND],
    "gate": [True, True, False],
    "addresses": [False, True],
}


def draw_knobs(rng: Random) -> Knobs:
    """Any configuration; about a third of the knobs keep their defaults."""
    return Knobs(**{name: rng.choice(choices) for name, choices in _CHOICES.items() if rng.random() < 0.7})
