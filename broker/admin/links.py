"""One-time links to the dashboard, for whoever may open the Unix socket: a browser cannot.

A link has a code, which counts once and for a while. The page exchanges it for a token, which only that tab of the
browser has. The broker keeps digests of both, in memory: they end with the process.
"""

import hashlib
import secrets
from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

from broker.runtime.clock import SECOND

CODE_LIFETIME: Final = 3600 * SECOND
"""Microseconds for which a code can be exchanged."""

TOKEN_LIFETIME: Final = 12 * 3600 * SECOND
"""Microseconds for which a token counts."""

MOST: Final = 64
"""Codes, and tokens, that are kept: one more takes the place of the oldest."""

BYTES: Final = 32
"""Random bytes of each: nobody guesses them, so the digests need no salt."""


class Grant(NamedTuple):
    """What a link allows, and on whose behalf."""

    who: str
    """For the audit log."""
    role: str


T = TypeVar("T")


class Links:
    """The links of one broker."""

    def __init__(self, clock: Callable[[], int]) -> None:
        """`clock`: the monotonic time in microseconds."""
        self._codes: _Kept[Grant] = _Kept(clock, CODE_LIFETIME)
        self._tokens: _Kept[Grant] = _Kept(clock, TOKEN_LIFETIME)

    def url(self, base: str, grant: Grant) -> str:
        """A link to the dashboard at `base`. Browsers do not send what is after #, so that no proxy logs it."""
        return f"{base}#code={self.new_code(grant)}"

    def new_code(self, grant: Grant) -> str:
        """A code that can be exchanged once."""
        return self._codes.add(grant)

    def exchange(self, code: str) -> tuple[str, Grant] | None:
        """The token for a code, with what it allows; None if the code is unknown, used or too old."""
        grant = self._codes.take(code)
        return None if grant is None else (self._tokens.add(grant), grant)

    def find(self, token: str) -> Grant | None:
        """What a token allows; None if it is unknown or too old."""
        return self._tokens.get(token)

    def revoke(self) -> int:
        """From now on no code and no token counts; returns how many there were."""
        return self._codes.clear() + self._tokens.clear()


class _Kept(Generic[T]):
    """Values by the digests of their secrets, the oldest first."""

    def __init__(self, clock: Callable[[], int], lifetime: int) -> None:
        self._clock = clock
        self._lifetime = lifetime
        self._kept: dict[bytes, tuple[int, T]] = {}

    def add(self, value: T) -> str:
        """A new secret for a value."""
        if len(self._kept) >= MOST:
            del self._kept[next(iter(self._kept))]
        secret = secrets.token_urlsafe(BYTES)
        self._kept[_digest(secret)] = (self._clock() + self._lifetime, value)
        return secret

    def get(self, secret: str) -> T | None:
        """The value of a secret."""
        until, value = self._kept.get(_digest(secret), (0, None))
        return value if self._clock() < until else None

    def take(self, secret: str) -> T | None:
        """The value of a secret, which then counts no more."""
        value = self.get(secret)
        self._kept.pop(_digest(secret), None)
        return value

    def clear(self) -> int:
        """Forget all; returns how many still counted."""
        now = self._clock()
        count = sum(now < until for until, _ in self._kept.values())
        self._kept.clear()
        return count


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="surrogatepass")).digest()
