"""What a cell asks and tells its keeper, which counts for the host: lines of JSON on their channel.

A question has a number, and its answer has the same. A keeper that has left one unanswered is asked no more until it
answers: clients do not wait for it.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final

import structlog

from broker.runtime.clock import SECOND, monotonic_us

PATIENCE: Final = 2 * SECOND
"""Microseconds for which a question waits."""
WAITS: Final = "waits"
"""The answer that another one follows, at some time."""
_EPISODE: Final = 60 * SECOND

Then = Callable[[Any], None]
"""What gets the answer; None = there was none in time."""


class Questions:
    """The questions of one cell."""

    def __init__(self) -> None:
        self._write: Callable[[bytes], None] | None = None
        self._last = 0
        self._open: dict[int, tuple[int, Then]] = {}
        """Until when each waits, the oldest first."""
        self._waiting: dict[int, Then] = {}
        """Those that are known to take longer."""
        self._late: dict[int, Then] = {}
        """Those that were not answered in time, and whose answers count nevertheless."""
        self._silent = False
        """Whether the keeper has left a question unanswered, and has answered none since."""
        self._told_at = -_EPISODE
        self._log = structlog.get_logger("sluice")

    def begin(self, write: Callable[[bytes], None]) -> None:
        """The channel is open."""
        self._write = write

    def tell(self, what: str, *more: object) -> None:
        """Tell the keeper something."""
        if self._write is not None:
            self._write(json.dumps([what, *more]).encode() + b"\n")

    def ask(self, what: str, *more: object, then: Then, late: Then | None = None) -> int:
        """Ask; `then` is called once. `late` gets an answer that comes after that. Returns the question's number."""
        self._last += 1
        if self._silent:
            asyncio.get_running_loop().call_soon(then, None)
            return self._last
        self._open[self._last] = (monotonic_us() + PATIENCE, then)
        if late is not None:
            self._late[self._last] = late
        self.tell(what, self._last, *more)
        return self._last

    def forget(self, number: int) -> None:
        """Nobody waits for this answer any more."""
        self._open.pop(number, None)
        self._waiting.pop(number, None)

    def answered(self, line: bytes) -> None:
        """The keeper has answered."""
        number, answer = json.loads(line)
        self._silent = False
        asked = self._open.pop(number, None)
        then = self._waiting.pop(number, None) if asked is None else asked[1]
        if answer == WAITS:
            if then is not None:
                self._waiting[number] = then
            return
        late = self._late.pop(number, None)
        if then is None:
            then = late
        if then is not None:
            then(answer)

    def look(self, now: int) -> None:
        """Give up what has waited for too long."""
        while self._open:
            number, (until, then) = next(iter(self._open.items()))
            if now < until:
                return
            del self._open[number]
            self._silent = True
            if now >= self._told_at + _EPISODE:
                self._told_at = now
                detail = f"no answer for {PATIENCE // SECOND} s: this cell counts failed logins and rates for itself"
                self._log.error("keeper_unanswered", detail=detail)
            then(None)
