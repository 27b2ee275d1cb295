"""Runs `sluice` and measures, from one SIGUSR2 to the next, how long each turn of its event loop takes.

As a script, with the arguments of `sluice`. A line of JSON on standard error has the longest turn in milliseconds:
`wall` by the clock, `cpu` in CPU time of the loop's own thread, which other programs on the machine do not lengthen. A
turn that waits for the network counts for what it does then only.
"""

import asyncio
import json
import signal
import sys
import time
from typing import TypedDict

from broker.cli.main import main
from broker.server.server import Server


class Turns(TypedDict):
    """What is printed."""

    turns: int
    wall: float
    cpu: float
    over_2ms: int
    """Turns with more CPU time than that."""


class Ticker:
    """Runs at each turn, so that none waits."""

    def __init__(self) -> None:
        self._running = False
        self._found = Turns(turns=0, wall=0.0, cpu=0.0, over_2ms=0)
        self._last = (0.0, 0.0)

    def toggle(self) -> None:
        """Begin, or end and print."""
        self._running = not self._running
        if self._running:
            self._found = Turns(turns=0, wall=0.0, cpu=0.0, over_2ms=0)
            self._last = (time.perf_counter(), time.thread_time())
            asyncio.get_running_loop().call_soon(self._tick)
        else:
            print(json.dumps(self._found), file=sys.stderr, flush=True)

    def _tick(self) -> None:
        now = (time.perf_counter(), time.thread_time())
        wall, cpu = (1000 * (each - before) for each, before in zip(now, self._last, strict=True))
        found = self._found
        found["turns"] += 1
        found["wall"] = max(found["wall"], wall)
        found["cpu"] = max(found["cpu"], cpu)
        found["over_2ms"] += cpu > 2.0
        self._last = now
        if self._running:
            asyncio.get_running_loop().call_soon(self._tick)


def install() -> None:
    """Have each server measure when it is asked to."""
    ticker = Ticker()
    run = Server.run

    async def watched(self: Server) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, ticker.toggle)
        await run(self)

    Server.run = watched  # type: ignore[method-assign]  # the only way in: the command builds its own server


if __name__ == "__main__":
    install()
    main()
