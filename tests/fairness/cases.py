"""The cases: who publishes what, who reads how fast, and what happens meanwhile."""

import math
from dataclasses import dataclass, replace
from typing import Final

SMALL: Final = 64
LARGE: Final = 65_536
TOPIC: Final = "fairness/t"


@dataclass(frozen=True)
class Publisher:
    """One publisher at QoS 1; `rate` messages a second, or with `count` so many as fast as it can."""

    rate: float = 0.0
    count: int = 0
    topic: str = TOPIC
    size: int = SMALL
    disturbs: bool = False
    """Whether it is what the others are protected from."""

    def messages(self, seconds: float) -> int:
        """How many it publishes."""
        return self.count or max(1, round(self.rate * seconds))


@dataclass(frozen=True)
class Reader:
    """One subscriber at QoS 1. `rate`: messages a second that it takes; infinite: as fast as they come."""

    rate: float = math.inf
    topic: str = TOPIC
    kept: bool = False
    stalls: bool = False
    """Whether it takes nothing until it is released."""
    silent: bool = False
    """Whether it acknowledges nothing until it is told to."""
    disturbs: bool = False


@dataclass(frozen=True)
class Step:
    """What a reader does, at a share of the time for which the publishers publish; a method of `SlowReader`."""

    at: float
    reader: int
    does: str


@dataclass(frozen=True)
class Case:
    """One case; `alone`: whether the others are also measured without those who disturb them."""

    name: str
    title: str
    publishers: tuple[Publisher, ...]
    readers: tuple[Reader, ...]
    steps: tuple[Step, ...] = ()
    alone: bool = True
    even: bool = True
    """Whether several publishers share a reader, so that they can be treated unequally."""

    def undisturbed(self) -> "Case":
        """The same without those who disturb."""
        return replace(
            self,
            publishers=tuple(each for each in self.publishers if not each.disturbs),
            readers=tuple(each for each in self.readers if not each.disturbs),
            steps=tuple(step for step in self.steps if not self.readers[step.reader].disturbs),
        )


def _case(name: str, title: str, publishers: list[Publisher], readers: list[Reader], *steps: Step) -> Case:
    return Case(name, title, tuple(publishers), tuple(readers), steps)


STALLED: Final = _case(
    "stalled",
    "A reader stalls beside one that reads; 10 publishers, 500 messages of 1 KiB a second",
    [Publisher(50, size=1024)] * 10,
    [Reader(), Reader(stalls=True, disturbs=True)],
    Step(1.0, 1, "release"),
)
SLOW: Final = _case(
    "slow",
    "One of ten readers takes half of 200 messages a second; 10 publishers",
    [Publisher(20)] * 10,
    [Reader()] * 9 + [Reader(100, disturbs=True)],
)
BURST: Final = replace(
    _case(
        "burst",
        "20,000 messages at once, from 10 publishers to a reader that takes them as fast as it can",
        [Publisher(count=2_000)] * 10,
        [Reader()],
    ),
    alone=False,
)
FULL: Final = replace(
    _case(
        "full",
        "100 publishers, ten of them 10 times louder, to a topic whose reader is away for half of the time, then slow",
        [Publisher(2)] * 90 + [Publisher(20, disturbs=True)] * 10,
        [Reader(190, kept=True)],
        Step(0.0, 0, "leave"),
        Step(0.5, 0, "come_back"),
    ),
    alone=False,
)
LOUD: Final = _case(
    "loud",
    "A publisher a hundred times louder than each of its 99 neighbours; the reader takes 60 % of all",
    [Publisher(4)] * 99 + [Publisher(400, disturbs=True)],
    [Reader(0.6 * 796)],
)
RESUME: Final = replace(
    _case(
        "resume",
        "A kept session with a full window of messages of 64 KiB comes back, twice, beside a pair of clients",
        [Publisher(50, topic="fairness/pair"), Publisher(40, size=LARGE, disturbs=True)],
        [Reader(topic="fairness/pair"), Reader(kept=True, silent=True, disturbs=True)],
        Step(0.3, 1, "cut"),
        Step(0.6, 1, "cut"),
        Step(0.9, 1, "acknowledge"),
    ),
    even=False,
)
CASES: Final = {case.name: case for case in (STALLED, SLOW, BURST, FULL, LOUD, RESUME)}
