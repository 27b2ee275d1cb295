"""What a run has given: the books of its messages, and the figures that are shown."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.fairness.cases import Case
from tests.fairness.clients import Sent


@dataclass(frozen=True)
class Run:
    """One run of a case. `received`: for each reader, the latency of each message, by publisher and number."""

    case: Case
    sent: Sequence[Sent]
    received: Sequence[Mapping[tuple[int, int], float]]
    memory: int = 0
    """Bytes: the peak of resident memory of the broker's processes."""
    at_start: int = 0
    """Bytes: resident memory before the first client."""


@dataclass(frozen=True)
class Books:
    """Deliveries, one for each message and reader of its topic. Always sent = arrived + lost."""

    sent: int
    arrived: int
    lost: int
    acknowledged_lost: int
    """Of the lost ones: the publisher had been told that the broker has them."""
    others_lost: int
    """Of these: between those who disturb nobody."""


def books(run: Run) -> Books:
    """Count each delivery by itself. Raises ValueError if something has arrived that nobody has sent."""
    sent = arrived = lost = acknowledged = others = 0
    for reader, got in zip(run.case.readers, run.received, strict=True):
        expected = set()
        for number, (plan, done) in enumerate(zip(run.case.publishers, run.sent, strict=True)):
            if plan.topic != reader.topic:
                continue
            expected |= {(number, each) for each in range(done.count)}
            missing = [each for each in range(done.count) if (number, each) not in got]
            lost += len(missing)
            told = sum(each in done.acknowledged for each in missing)
            acknowledged += told
            if not (plan.disturbs or reader.disturbs):
                others += told
        if unknown := got.keys() - expected:
            raise ValueError(f"{len(unknown)} messages have arrived that nobody has sent: {sorted(unknown)[:3]}")
        sent += len(expected)
        arrived += len(got)
    return Books(sent, arrived, lost, acknowledged, others)


def p99(run: Run) -> float | None:
    """Seconds, over the messages of those who disturb nobody that have arrived at readers who disturb nobody."""
    quiet = {number for number, plan in enumerate(run.case.publishers) if not plan.disturbs}
    found = sorted(
        latency
        for reader, got in zip(run.case.readers, run.received, strict=True)
        if not reader.disturbs
        for (publisher, _), latency in got.items()
        if publisher in quiet
    )
    return found[math.ceil(0.99 * len(found)) - 1] if found else None


def fair_shares(demands: Sequence[int], capacity: float) -> list[float]:
    """The max-min fair shares: the same for all who want more, and what it wants for each who wants less."""
    shares = [0.0] * len(demands)
    left = sorted(range(len(demands)), key=lambda number: demands[number])
    while left:
        number, even = left[0], capacity / len(left)
        shares[number] = min(float(demands[number]), even)
        capacity -= shares[number]
        del left[0]
    return shares


def jain(run: Run) -> float | None:
    """Jain's index over publishers of what has arrived of each, divided by its max-min fair share of all that has.

    Shares of what the publishers want: it is 1 if none who wants more has less than another.
    """
    arrived = [0] * len(run.sent)
    for got in run.received:
        for publisher, _ in got:
            arrived[publisher] += 1
    readers = [sum(reader.topic == plan.topic for reader in run.case.readers) for plan in run.case.publishers]
    demands = [done.count * each for done, each in zip(run.sent, readers, strict=True)]
    shares = fair_shares(demands, sum(arrived))
    return jains([got / share for got, share in zip(arrived, shares, strict=True) if share]) or None


def jains(amounts: Sequence[float]) -> float:
    """Jain's index: 1 if all have the same, 1 / n if one of n has everything; 0 if nobody has anything."""
    squares = sum(each**2 for each in amounts)
    return sum(amounts) ** 2 / (len(amounts) * squares) if squares else 0.0
