"""The chain: each authenticator is asked in turn, until one says yes or no."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

import structlog

from broker.auth.authenticators.authenticator import Answer, Authenticator, Busy, Hashing, Login, No, Unavailable
from broker.auth.authenticators.guard import Guard
from broker.auth.authenticators.outage import where
from broker.auth.authenticators.turn import Turn
from broker.auth.identity import Identity
from broker.runtime.clock import SECOND, monotonic_us
from protocol import reason_codes
from protocol.errors import MQTTError

T = TypeVar("T")

NOT_NOW: Final = "authentication is not possible now"

NAMELESS: Final = "CONNECT has no user name, and clients without one are not allowed (allow_anonymous)"

GRID: Final = 0.1
"""Seconds. Denials are answered at whole multiples of it, so that the time does not tell which authenticator denied."""

Outcome = Identity | None | MQTTError
"""Who a client is; None for one that is let in without a user name; or why it is refused."""


class Chain:
    """The authenticators of a broker, in the order in which they are asked."""

    def __init__(
        self,
        authenticators: Sequence[Authenticator],
        guard: Guard | None = None,
        clock: Callable[[], int] = monotonic_us,
    ) -> None:
        """`guard`: None = passwords can be tried without a limit; `clock` in microseconds."""
        self._authenticators = authenticators
        self._guard = Guard(0, 0, SECOND) if guard is None else guard
        self._clock = clock
        self._log = structlog.get_logger("sluice")
        self._asking: set[asyncio.Task[None]] = set()  # the loop itself keeps no reference to its tasks
        self.asked_about_nameless = any(each.asked_about_nameless for each in authenticators)
        """Whether there is anybody to ask about clients that send neither a user name nor a password."""

    def begin(self, login: Login, anonymous: bool, done: Callable[[Outcome], None]) -> Turn:
        """Ask; `done` is called later, in the event loop. `anonymous` as in `ask`. Returns the login's turn."""
        turn = self._guard.enter(login, self._clock())
        task = asyncio.get_running_loop().create_task(self._ask_for(turn, anonymous, done))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)
        return turn

    async def ask(self, login: Login, anonymous: bool = False) -> Identity | None:
        """Return who it is; None if it is let in without a user name. Raises MQTTError with the code for CONNACK.

        `anonymous`: whether a client is let in that sends neither a user name nor a password, and that nobody knows.
        """
        return await self._ask(self._guard.enter(login, self._clock()), anonymous)

    async def _ask(self, turn: Turn, anonymous: bool) -> Identity | None:
        login = turn.login
        delay = 0
        try:
            await turn.come()
            began = asyncio.get_running_loop().time()
            answer = await self._decide(login)
            if answer is No.NOT_MINE and login.is_nameless:
                if not anonymous:
                    raise MQTTError(reason_codes.NOT_AUTHORIZED, NAMELESS)
                return None
            if isinstance(answer, Identity):
                self._guard.succeeded(login, answer.user)
                return answer if answer.user else None
            delay = self._guard.failed(login, self._clock())
        finally:
            self._guard.leave(turn, self._clock())
        await _sleep_to_grid(began, delay / SECOND)
        if login.is_nameless:
            raise MQTTError(reason_codes.NOT_AUTHORIZED, NAMELESS)
        # The same words whether the user is unknown or the password wrong.
        raise MQTTError(reason_codes.BAD_USER_NAME_OR_PASSWORD, f"user name {login.shown} or its password is wrong")

    async def _decide(self, login: Login) -> Answer:
        """The first yes or no; `No.NOT_MINE` if nobody knows the client. Raises MQTTError if that cannot be told."""
        unhashed: Hashing | None = None
        for authenticator in self._authenticators:
            if login.is_nameless and not authenticator.asked_about_nameless:
                continue
            answer = await self._try(authenticator, authenticator.authenticate(login))
            if isinstance(answer, Identity):
                return answer
            if isinstance(authenticator, Hashing):
                if answer is No.DENIED:
                    return answer
                unhashed = unhashed or authenticator
            elif answer is No.DENIED:
                break
        else:
            answer = No.NOT_MINE
        if unhashed is not None:  # a denial takes the time of one hash, whoever knows the name or does not
            await self._try(unhashed, unhashed.waste(login))
        return answer

    async def _try(self, authenticator: Authenticator, asking: Coroutine[Any, Any, T]) -> T:
        """What it says. Raises MQTTError if it says nothing."""
        try:
            return await asking
        except Busy as busy:
            raise MQTTError(reason_codes.SERVER_BUSY, f"{authenticator.name}: {busy}") from None
        except Unavailable:
            raise MQTTError(reason_codes.SERVER_UNAVAILABLE, NOT_NOW) from None
        except Exception as error:
            # The error may quote what it was asked: only its type and place are logged.
            self._log.error("authenticator_failed", authenticator=authenticator.name, detail=where(error))
            raise MQTTError(reason_codes.SERVER_UNAVAILABLE, NOT_NOW) from None

    async def _ask_for(self, turn: Turn, anonymous: bool, done: Callable[[Outcome], None]) -> None:
        call_soon = asyncio.get_running_loop().call_soon  # the loop reports what `done` raises
        try:
            answer = await self._ask(turn, anonymous)
        except MQTTError as error:
            call_soon(done, error)  # not kept in this frame: the error's traceback refers to it, a cycle
        else:
            call_soon(done, answer)


async def _sleep_to_grid(began: float, delay: float) -> None:
    """Sleep for `delay` and to the next multiple of GRID after `began`; all in seconds."""
    passed = asyncio.get_running_loop().time() - began + delay
    await asyncio.sleep(delay + GRID - passed % GRID)
