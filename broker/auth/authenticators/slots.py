"""How many logins may be decided about at once, and how many may wait for that.

Addresses take turns, and the one with most of those that wait makes room: whoever tries many passwords from few
addresses delays the logins from other addresses by one for each of these, and has none of them refused.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from broker.auth.authenticators.authenticator import Busy

MOST_WAITING: Final = 256
"""Logins that may wait. More would be refused by their time limit anyway (mqtt.connect_timeout)."""

Turn = asyncio.Future[None]
"""Of a login that waits: it is done when there is a slot for it."""


class Slots:
    """So many at once; the others wait."""

    def __init__(self, number: int, most_waiting: int = MOST_WAITING) -> None:
        self._free = number
        self._most_waiting = most_waiting
        self._number = 0
        """Of those that wait."""
        self._waiting: dict[bytes, deque[Turn]] = {}
        """By address; the first one is next."""

    @asynccontextmanager
    async def of(self, address: bytes) -> AsyncIterator[None]:
        """Have a slot in this block. `address`: the client's network. Raises Busy if too many wait."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(address)
        try:
            yield
        finally:
            self._next()

    def close(self) -> None:
        """Discard what waits."""
        waiting, self._waiting, self._number = self._waiting, {}, 0
        for turns in waiting.values():
            for turn in turns:
                turn.cancel()

    async def _wait(self, address: bytes) -> None:
        if self._number >= self._most_waiting:
            self._make_room(address)
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(address, deque()).append(turn)
        self._number += 1
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._next()  # it had the slot already
            raise

    def _make_room(self, address: bytes) -> None:
        """Refuse the last login of the address with most of them, unless that is this one. Raises Busy."""
        busiest = max(self._waiting, key=lambda each: len(self._waiting[each]), default=address)
        own = len(self._waiting.get(address, ()))
        if busiest == address or len(self._waiting[busiest]) <= own + 1:
            raise self._busy()
        turn = self._waiting[busiest].pop()  # it has others: its place among the addresses stays
        self._number -= 1
        if not turn.done():
            turn.set_exception(self._busy())

    def _busy(self) -> Busy:
        return Busy(f"{self._number} logins wait for an answer")

    def _next(self) -> None:
        """A slot is free: the next address has its turn."""
        while self._waiting:
            address = next(iter(self._waiting))
            turns = self._waiting.pop(address)
            turn = turns.popleft()
            self._number -= 1
            if turns:
                self._waiting[address] = turns  # behind the others
            if not turn.done():  # nobody has given up waiting
                turn.set_result(None)
                return
        self._free += 1
