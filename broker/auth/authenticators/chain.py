"""The chain: each authenticator is asked in turn, until one says yes or no."""

import asyncio
from collections.abc import Callable, Sequence

import structlog

from broker.auth.authenticators.authenticator import Authenticator, Busy, Login, No
from broker.auth.identity import Identity
from protocol import reason_codes
from protocol.errors import MQTTError


class Chain:
    """The authenticators of a broker, in the order in which they are asked."""

    def __init__(self, authenticators: Sequence[Authenticator]) -> None:
        self._authenticators = authenticators
        self._log = structlog.get_logger("sluice")
        self._asking: set[asyncio.Task[None]] = set()  # the loop itself keeps no reference to its tasks

    def begin(self, login: Login, done: Callable[[Identity | MQTTError], None]) -> None:
        """Ask; `done` is called later, in the event loop, with the identity or the refusal."""
        task = asyncio.get_running_loop().create_task(self._ask_for(login, done))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def ask(self, login: Login) -> Identity:
        """Return who it is. Raises MQTTError with the reason code for CONNACK."""
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
                break
        # The same words whether the user is unknown or the password wrong.
        raise MQTTError(
            reason_codes.BAD_USER_NAME_OR_PASSWORD, f"user name {login.username!r:.80} or its password is wrong"
        )

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
