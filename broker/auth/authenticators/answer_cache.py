"""Answers about logins that have been given a moment ago."""

from collections.abc import Callable
from hashlib import blake2b
from secrets import token_bytes
from sys import getsizeof
from typing import Final

from broker.auth.authenticators.authenticator import Answer, Login
from broker.auth.identity import Identity

LARGEST: Final = 2_048
"""Bytes of the largest answer that is kept: the service is asked each time about a user of very many roles."""


class AnswerCache:
    """Keeps answers by all that was asked. The logins themselves are not kept, only keyed digests of them."""

    def __init__(self, size: int, seconds: float, clock: Callable[[], float]) -> None:
        """At most `size` answers, each for so many seconds; 0 = none. `clock` in seconds."""
        self._size = size
        self._seconds = seconds
        self._clock = clock
        self._secret = token_bytes(32)
        self._answers: dict[bytes, tuple[Answer, float]] = {}  # with the time until which it counts, oldest first

    def __len__(self) -> int:
        return len(self._answers)

    def key(self, login: Login) -> bytes:
        """What stands for a login."""
        digest = blake2b(key=self._secret, digest_size=32)
        texts = (login.username, login.client_id, login.listener, login.host, login.common_name)
        for part in (*(text.encode() for text in texts), login.password):
            digest.update(b"-" if part is None else b"%d:" % len(part) + part)
        return digest.digest()

    def get(self, key: bytes) -> Answer | None:
        """The answer; None if there is none that still counts."""
        answer, until = self._answers.get(key, (None, 0.0))
        return answer if self._clock() < until else None

    def put(self, key: bytes, answer: Answer) -> None:
        """Keep an answer, unless it is large."""
        if self._seconds <= 0 or _size(answer) > LARGEST:
            return
        self._answers.pop(key, None)
        if len(self._answers) >= self._size:
            del self._answers[next(iter(self._answers))]
        self._answers[key] = (answer, self._clock() + self._seconds)


def _size(answer: Answer) -> int:
    """Bytes of what an answer refers to; a refusal is one of a few."""
    if not isinstance(answer, Identity):
        return 0
    return getsizeof(answer.user) + getsizeof(answer.roles) + sum(map(getsizeof, answer.roles))
