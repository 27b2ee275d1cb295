"""The guard of a cell: the keeper counts the failed logins of all cells, so that a limit is one of the host.

While the keeper does not answer, the cell counts for itself: nobody is locked out for that.
"""

from functools import partial
from typing import Any

from broker.auth.authenticators.authenticator import Login
from broker.auth.authenticators.guard import Guard, digest
from broker.auth.authenticators.turn import Turn
from broker.runtime.clock import SECOND
from broker.server.questions import Questions
from config.access import FailedLogins
from protocol.errors import MQTTError


class AskedGuard(Guard):
    """Asks the keeper about each login. Names do not go there, but their digests."""

    def __init__(self, settings: FailedLogins, questions: Questions) -> None:
        super().__init__(0, 0, int(settings.period * SECOND))
        self._own = Guard.of(settings)
        self._limited = settings.per_address > 0 or settings.per_user > 0
        self._questions = questions
        self._numbers: dict[Turn, int] = {}
        """The questions of turns, which the keeper has to know when they end."""
        self._delays: dict[tuple[str, str], int] = {}
        """By how much the answer to a failure would be delayed, of logins that are decided about."""

    def enter(self, login: Login, now: int) -> Turn:
        """The turn of a login: it waits for the keeper."""
        if not self._limited:
            return self._own.enter(login, now)
        turn = Turn(login)
        turn.wait_in({})
        self._numbers[turn] = self._questions.ask("enter", *_place(login), then=partial(self._told, turn, now))
        return turn

    def _told(self, turn: Turn, now: int, answer: Any) -> None:
        if not turn.waits:
            return
        if answer is None:
            self._questions.tell("leave", self._numbers.pop(turn))
            self._own.place(turn, now)
        elif isinstance(answer, int):
            self._delays[_place(turn.login)] = answer
            turn.begin([])
        else:
            code, why = answer
            turn.refuse(MQTTError(code, why))

    def leave(self, turn: Turn, now: int) -> None:
        """The login is decided, or nobody waits for it any longer."""
        number = self._numbers.pop(turn, None)
        if number is None:
            self._own.leave(turn, now)
            return
        turn.give_up()
        self._delays.pop(_place(turn.login), None)
        self._questions.forget(number)
        self._questions.tell("leave", number)

    def refusal(self, login: Login, now: int) -> str:
        """Nothing: the keeper says so when the login has its turn."""
        return ""

    def failed(self, login: Login, now: int) -> int:
        """Count a failed login; returns by how many microseconds its answer is to be delayed."""
        own = self._own.failed(login, now)
        if self._limited:
            self._questions.tell("failed", *_place(login))
        return max(own, self._delays.get(_place(login), 0))

    def succeeded(self, login: Login, user: str) -> None:
        """Remember where a login has succeeded."""
        self._own.succeeded(login, user)
        if self._limited:
            self._questions.tell("succeeded", *_place(login), digest(user).hex() if user else "")


def _place(login: Login) -> tuple[str, str]:
    """For whom a password is tried, and from where."""
    return digest(login.claimed).hex() if login.claimed else "", login.host
