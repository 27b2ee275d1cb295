"""The sessions of a broker: client ids, listeners, rates, start and end."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from broker.sessions import Ended
from session.counters import Counters
from session.host import NoHost
from session.limits import Limits
from session.session import Session
from tests.support.spark.fleet.model import Model

FOREVER: Final = 1 << 40
LISTENERS: Final = ("tcp", "tls", "ws")

GROUPS: Final = (
    ("meter-", (0.9, 0.1, 0.0), 40),
    ("lamp/", (0.5, 0.5, 0.0), 20),
    ("cart.", (0.3, 0.6, 0.1), 120),
    ("gate_", (0.2, 0.3, 0.5), 60),
    ("truck:", (0.6, 0.3, 0.1), 200),
    ("desk-", (0.7, 0.2, 0.1), 400),
)
"""Prefix of a group's client ids, its shares of QoS 0, 1 and 2, and the bytes of a payload."""


@dataclass(frozen=True)
class Population:
    """The sessions of one broker; arrays have one element, or row, for each."""

    who: list[Ended]
    """The columns of a row about its session, without counters."""
    rates: NDArray[np.float64]
    """Deliveries offered in one row on average, by QoS."""
    sizes: list[int]
    born: NDArray[np.int64]
    """The interval in which the session was created."""
    dies: NDArray[np.int64]
    """The interval in which it ended, or FOREVER."""


def populate(model: Model, broker: int, rng: np.random.Generator, to_monotonic: int) -> Population:
    """Generate the sessions of one broker; `to_monotonic` converts a time of day to the monotonic clock."""
    count = model.sessions_of(broker)
    ranks = rng.permutation(count) + 1
    offered = np.maximum(model.busiest / ranks**model.exponent, model.calmest)
    groups = rng.integers(0, len(GROUPS), count).tolist()
    mixes = np.array([GROUPS[group][1] for group in groups])
    born, dies = _lives(model, count, rng)
    moments = rng.integers(1, model.interval_us, count)
    created = (model.start_us + born * model.interval_us + moments).tolist()
    session = Session("", Limits(), NoHost(), 0)
    who = []
    for number, (group, created_us) in enumerate(zip(groups, created, strict=True)):
        session.client_id = f"{GROUPS[group][0]}{broker:02}-{number:07}"
        session.listener = LISTENERS[number % len(LISTENERS)]
        session.version = 5 if number % 4 else 4
        session.created_at = created_us + to_monotonic
        who.append(Ended(session, Counters(0), []))
    sizes = [GROUPS[group][2] for group in groups]
    return Population(who, offered[:, None] * mixes, sizes, born, dies)


def _lives(model: Model, count: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first and last interval of each session; visitors are the last ones of the population."""
    visitors = int(count * model.visitors)
    born = np.zeros(count, np.int64)
    dies = np.full(count, FOREVER, np.int64)
    if visitors:
        first = rng.integers(1, model.intervals - 1, visitors)
        stay = rng.geometric(6 / model.intervals, visitors) - 1
        born[-visitors:] = first
        dies[-visitors:] = np.minimum(first + stay, model.intervals - 1)
    return born, dies
