"""Fuzzing without a view of the code: seeds changed at random, by the targets' own mutators."""

import contextlib
import random
import time
from collections.abc import Callable

from tests.fuzz import mutation, watch
from tests.fuzz.target import Target, seeds

POOL = 500
"""Inputs that others are made from: the seeds, and some of what came after."""
KEEP = 0.05
"""How much of what was tried joins the pool."""


class FailureError(Exception):
    """An input that breaks a promise; the cause says which."""

    def __init__(self, data: bytes) -> None:
        super().__init__("an input breaks a promise of the target")
        self.data = data


def fuzz(target: Target, seconds: float, seed: int, report: Callable[[int], None] | None = None) -> int:
    """Try changed seeds for some time; returns how many.

    Raises FailureError at the first that fails, and GrowthError if they take more and more memory.

    `report` is called now and then with the number so far. The same seed makes the same inputs in the same order.
    """
    source = random.Random(seed)
    pool = list(seeds(target).values()) or [b""]
    until = time.monotonic() + seconds
    count = 0
    growth = watch.Growth()
    while time.monotonic() < until:
        data = source.choice(pool)
        if source.random() < 0.1:
            data = target.cross(source, data, source.choice(pool))
        for _ in range(source.choice((1, 1, 2, 4))):
            data = target.mutate(source, data, lambda part: mutation.damage(source, part))
        try:
            _check(target, data)
        except Exception as error:
            raise FailureError(data) from error
        count += 1
        growth.count()
        if report is not None:
            report(count)
        if source.random() < KEEP:
            if len(pool) < POOL:
                pool.append(data)
            else:
                pool[source.randrange(POOL)] = data
    return count


def _check(target: Target, data: bytes) -> None:
    with watch.limited():
        target.check(data)


def reduce(target: Target, data: bytes, seconds: float = 20.0) -> bytes:
    """Return the smallest input found within some time that fails in the same way."""
    failure = _failure(target, data)
    until = time.monotonic() + seconds
    smaller = failure is not None
    while smaller:
        smaller = False
        for candidate in target.smaller(data):
            if time.monotonic() > until:
                return data
            if len(candidate) < len(data) and _failure(target, candidate) == failure:
                data, smaller = candidate, True
                break
    return data


def _failure(target: Target, data: bytes) -> tuple[str, str, int] | None:
    """What tells failures apart: the error and where it was raised."""
    with contextlib.suppress(KeyboardInterrupt):
        try:
            _check(target, data)
        except Exception as error:
            trace = error.__traceback__
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            place = ("", 0) if trace is None else (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
            return (type(error).__name__, *place)
    return None
