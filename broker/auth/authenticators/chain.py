"""The chain: each authenticator is asked in turn, until one says yes or no."""

import asyncio
from collections.abc import Callable, Sequence

import structlog

from broker.auth.authenticators.authenticator import Authenticator, Busy, Login, No
from broker.auth.authenticators.guard import Guard
from broker.auth.identity import Identity
from broker.runtime.clock import SECOND, monotonic_us
from protocol import reason_codes
from protocol.errors import MQTTError


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
        self._guard = guard
        self._clock = clock
        self._log = structlog.get_logger("sluice")
        self._asking: set[asyncio.Task[None]] = set()  # the loop itself keeps no reference to its tasks

    def begin(self, login: Login, done: Callable[[Identity | MQTTError], None]) -> None:
        """Ask; `done` is called later, in the event loop, with the identity or the refusal."""
        task = asyncio.get_running_loop().create_task(self._ask_for(login, done))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def ask(self, login: Login) -> Identity:
        """Return who it is. Raises MQTTError with the reason code for CONNACK."""
        guard = self._guard
        if guard is not None and (refusal := guard.refusal(login, self._clock())):
            raise MQTTError(reason_codes.CONNECTION_RATE_EXCEEDED, refusal)
        identity = await self._decide(login)
        if identity is None:
            if guard is not None and (delay := guard.failed(login, self._clock())):
                await asyncio.sleep(delay / SECOND)
            # The same words whether the user is unknown or the password wrong.
            raise MQTTError(
                reason_codes.BAD_USER_NAME_OR_PASSWORD, f"user name {login.username!r:.80} or its password is wrong"
            )
        if guard is not None:
            guard.succeeded(login)
        return identity

    async def _decide(self, login: Login) -> Identity | None:
        """Who it is; None if nobody says yes. Raises MQTTError if that cannot be told."""
        for authenticator in self._authenticators:
            try:
                answer = await authenticator.authenticate(login)
            except Busy as busy:
                raise MQTTError(reason_codes.SERVER_BUSY, f"{authenticator.name}: {busy}") from None
            except Exception as error:
                # The error may quote what it was asked: only its type and place are logged.
                self._log.error("authenticator_failed", authenticator=authenticator.name, detail=_where(error))
                raise MQTTError(reason_codes.SERVER_UNAVAILABLE, "authentication is not possible now") from None
            if isinstance(answer, Identity):
                return answer
            if answer is No.DENIED:
                return None
        return None

    async def _ask_for(self, login: Login, done: Callable[[Identity | MQTTError], None]) -> None:
        try:
            answer: Identity | MQTTError = await self.ask(login)
        except MQTTError as error:
            answer = error
        # Called by the loop, which reports what it raises.
        asyncio.get_running_loop().call_soon(done, answer)


def _where(error: Exception) -> str:
    """The type of an error, and the line that raised it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else ""
    return type(error).__name__ + place
