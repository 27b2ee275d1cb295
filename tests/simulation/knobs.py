"""What differs between runs besides their steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

FILTERS: Final = ("a/0", "a/1", "b/0", "b/1", "a/+", "b/#", "+/0", "#", "r/0", "r/+")


@dataclass
class Knobs:
    """What differs between runs besides their steps."""

    cells: int
    clients: int
    steps: int
    crash: float
    """How often in a step a cell is killed."""
    cut: float
    """How often in a step a link breaks."""
    small: bool
    """Whether links have small queues (CL-4)."""
    chop: float
    """How often bytes are read in pieces of any size."""
    pace: float
    """How often in a step a client does something."""
    slow_links: float
    """How often links wait for all other connections."""
    slow_disks: float
    """The same of disks, and all else."""
    filters: Sequence[str]
    """What clients subscribe to: of few filters each begins and ends often."""
    fickle: float
    """How often what they do is SUBSCRIBE or UNSUBSCRIBE."""


def draw(rng: Random) -> Knobs:
    """Those of a run."""
    return Knobs(
        cells=rng.choice((2, 2, 3, 3, 4)),
        clients=rng.randrange(3, 8),
        steps=rng.choice((150, 300, 600)),
        crash=rng.choice((0.0, 0.0, 0.004, 0.015)),
        cut=rng.choice((0.0, 0.0, 0.005, 0.02)),
        small=rng.random() < 0.15,
        chop=rng.choice((0.0, 0.1, 0.5)),
        pace=rng.choice((0.1, 0.25, 0.5)),
        slow_links=rng.choice((0.0, 0.0, 0.9)),
        slow_disks=rng.choice((0.0, 0.0, 0.9)),
        filters=rng.choice((FILTERS, FILTERS, FILTERS[:5], FILTERS[:1])),
        fickle=rng.choice((0.0, 0.0, 0.3)),
    )
