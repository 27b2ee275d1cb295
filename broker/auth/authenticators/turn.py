"""The turn of a login to be decided about."""

import asyncio
from collections.abc import Hashable
from typing import TYPE_CHECKING

from broker.auth.authenticators.authenticator import Login
from protocol import reason_codes
from protocol.errors import MQTTError

if TYPE_CHECKING:
    from broker.auth.authenticators.failures import Failures


class Turn:
    """One login: it may have to wait, and is then decided about or refused. The guard says which."""

    def __init__(self, login: Login) -> None:
        self.login = login
        self.refusal: MQTTError | None = None
        """Why it is refused without a look at its password."""
        self.counted: list[tuple[Failures, Hashable]] = []
        """Where it counts while it is decided about."""
        self.waiting: asyncio.Future[None] | None = None
        """Done when it need not wait any longer; None if it has not had to."""
        self._queue: dict[Turn, None] = {}

    @property
    def waits(self) -> bool:
        """Whether it has to wait still."""
        return self.waiting is not None and not self.waiting.done()

    async def come(self) -> None:
        """Wait for it. Raises MQTTError if the login is refused."""
        if self.waiting is not None:
            await self.waiting
        if self.refusal is not None:
            raise self.refusal

    def wait_in(self, queue: "dict[Turn, None]") -> None:
        """Wait behind the others in a queue."""
        if self.waiting is None:
            self.waiting = asyncio.get_running_loop().create_future()
        self._queue = queue
        queue[self] = None

    def begin(self, counted: "list[tuple[Failures, Hashable]]") -> None:
        """The login is decided about now."""
        self.counted = counted
        self._end_waiting()

    def refuse(self, refusal: MQTTError) -> None:
        """The login is not decided about."""
        self.refusal = refusal
        self._end_waiting()

    def give_up(self) -> None:
        """Wait no longer: the connection is closed. A login that is decided about already is, and counts."""
        if self.waits:
            self._queue.pop(self, None)
            self.refuse(MQTTError(reason_codes.UNSPECIFIED_ERROR, "the connection was closed"))

    def _end_waiting(self) -> None:
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_result(None)
