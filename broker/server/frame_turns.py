"""How many WebSocket frames are parsed in each turn of the event loop."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol, final

TURN_FRAMES: Final = 128
"""Frames of all connections of a listener in one turn of the event loop: one takes up to 20 microseconds, also if it
carries nothing, and one chunk may hold tens of thousands."""


class FrameReader(Protocol):
    """A connection whose frames wait."""

    def go_on(self) -> None:
        """Parse as many as `left` allows; wait again if there are more."""

    def abort(self) -> None:
        """Close at once."""


@final
class FrameTurns:
    """Shares the turns among the connections of a listener, one after the other."""

    def __init__(
        self, call_soon: Callable[[Callable[[], None]], object] | None = None, frames: int = TURN_FRAMES
    ) -> None:
        """`call_soon`: instead of that of the running event loop."""
        self._frames = frames
        self.left = frames
        """Frames that may be parsed until the next turn."""
        self._call_soon = call_soon
        self._waiting: OrderedDict[FrameReader, None] = OrderedDict()
        self._scheduled = False

    def spend(self, frames: int) -> None:
        """So many have been parsed."""
        self.left -= frames
        if self.left <= 0:
            self._schedule()

    def wait(self, connection: FrameReader) -> None:
        """Call its `go_on` in a later turn."""
        self._waiting[connection] = None
        self._schedule()

    # -- internal

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            call_soon = self._call_soon or asyncio.get_running_loop().call_soon
            call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        self.left = self._frames
        waiting = self._waiting
        for _turn in range(len(waiting)):
            if self.left <= 0:
                break
            connection, _ = waiting.popitem(last=False)
            try:
                connection.go_on()
            except Exception as error:
                connection.abort()
                context = {"message": "reading the rest of a chunk has failed", "exception": error}
                asyncio.get_running_loop().call_exception_handler(context)
        if waiting:
            self._schedule()
