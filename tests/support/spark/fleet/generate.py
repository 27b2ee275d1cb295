"""Generates the brokers of a fleet in parallel, and reports progress."""

import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from queue import Empty
from typing import Any, Final

from tests.support.spark.fleet.broker import Broker
from tests.support.spark.fleet.model import Model
from tests.support.spark.fleet.planted import Planted, save

EVERY: Final = 5.0
"""Seconds from one report of progress to the next."""

Progress = Callable[[int], None]
"""Called with the number of rows so far."""


def generate(
    model: Model, root: Path, processes: int | None = None, progress: Progress = lambda _rows: None
) -> Planted:
    """Write the metrics of a fleet below `root`, with planted.json; returns its content.

    Args:
        model: what to make.
        root: the metrics folder; made if missing.
        processes: how many to use; None: as many as there are processors. 1 stays in this one.
        progress: told the number of rows every few seconds.

    Raises:
        ModelError: the model does not go together.
    """
    model.check()
    root.mkdir(parents=True, exist_ok=True)
    count = min(processes or len(os.sched_getaffinity(0)), model.brokers)
    parts = _alone(model, root, progress) if count == 1 else _side_by_side(model, root, count, progress)
    planted = Planted()
    for part in parts:
        planted.add(part)
    save(planted, model, root)
    return planted


def _alone(model: Model, root: Path, progress: Progress) -> list[Planted]:
    rows = 0
    told = time.monotonic()

    def tell(more: int) -> None:
        nonlocal rows, told
        rows += more
        if time.monotonic() - told >= EVERY:
            told = time.monotonic()
            progress(rows)

    parts = []
    for number in range(model.brokers):
        broker = Broker(model, number, root)
        broker.run(tell)
        parts.append(broker.planted)
    progress(rows)
    return parts


def _run(model: Model, number: int, root: Path, queue: Any) -> Planted:
    broker = Broker(model, number, root)
    broker.run(queue.put)
    return broker.planted


def _side_by_side(model: Model, root: Path, processes: int, progress: Progress) -> list[Planted]:
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, ProcessPoolExecutor(processes, context) as pool:
        queue = manager.Queue()
        running = [pool.submit(_run, model, number, root, queue) for number in range(model.brokers)]
        rows = 0
        told = time.monotonic()
        while not all(future.done() for future in running) or not queue.empty():
            try:
                rows += queue.get(timeout=0.2)
            except Empty:
                continue
            if time.monotonic() - told >= EVERY:
                told = time.monotonic()
                progress(rows)
        progress(rows)
        return [future.result() for future in running]
