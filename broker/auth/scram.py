"""SCRAM-SHA-256 (RFC 5802 and 7677): the client proves that it knows the password, the broker that it knows the user.

The password is neither sent nor stored, an exchange cannot be replayed, and the client does the expensive part of the
computation.
"""

from base64 import b64decode
from collections import Counter
from collections.abc import Sequence
from hashlib import shake_256
from math import log
from typing import Any, Final, NamedTuple

from scramp import ScramException, ScramMechanism

from broker.auth.claimed_name import shown
from broker.auth.method import Answer, Exchange, Method
from config.access import ScramUser
from config.credentials import KEY_BYTES
from protocol import reason_codes
from protocol.errors import MQTTError

NAME: Final = "SCRAM-SHA-256"

MESSAGE_BYTES: Final = 2_048
"""The longest message that is accepted. No user name needs more, and normalizing long ones is slow."""


class _Entry(NamedTuple):
    """A user's keys, in the order that scramp expects."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class _Shape(NamedTuple):
    """What of an entry a client sees before it has proved anything, beside the salt itself."""

    salt_bytes: int
    iterations: int


class Scram(Method):
    """The method, with the configured users. The last step of an exchange asks those that are in effect by then."""

    name = NAME

    def __init__(self, users: Sequence[ScramUser], secret: bytes) -> None:
        """`secret`: what decoys are made from, see `decoy_secret`."""
        self._mechanism: Any = ScramMechanism(NAME)
        self._entries: dict[str, _Entry] = {}
        self._shapes: Counter[_Shape] = Counter()
        self._secret = secret
        self.use(users)

    def use(self, users: Sequence[ScramUser]) -> None:
        """Use these users from now on; without any, every login fails."""
        self._entries = {user.username: _entry(user) for user in users}
        shapes = Counter(_Shape(len(each.salt), each.iterations) for each in self._entries.values())
        self._shapes = shapes or self._shapes

    def begin(self) -> "_ScramExchange":
        """Return a new exchange."""
        return _ScramExchange(self, self._mechanism)

    def holds(self, username: str, entry: _Entry | None) -> bool:
        """Whether there is such a user, with this entry."""
        return entry is not None and self._entries.get(username) == entry

    def entry(self, username: str) -> _Entry:
        """The user's entry; for an unknown user a decoy that looks the same and that no password matches.

        A decoy is computed in both cases, so that not even the time shows whether the user exists.
        """
        decoy = self._decoy(username)
        return self._entries.get(username, decoy)

    def _decoy(self, username: str) -> _Entry:
        """A decoy: always the same for one name, with the iterations and the length of salt of a real user."""
        seed = self._secret + username.encode()
        shape = self._shape(seed)
        stream = shake_256(seed).digest(2 * KEY_BYTES + shape.salt_bytes)
        return _Entry(stream[2 * KEY_BYTES :], stream[:KEY_BYTES], stream[KEY_BYTES : 2 * KEY_BYTES], shape.iterations)

    def _shape(self, seed: bytes) -> _Shape:
        """A shape, as often as real users have it.

        By weighted rendezvous hashing: a user who comes or goes changes the shape of few decoys, where a remainder
        would change most, and show by that which names are decoys.
        """

        def score(shape: _Shape) -> float:
            drawn = int.from_bytes(shake_256(seed + repr(tuple(shape)).encode()).digest(6)) + 1
            return log(drawn / 2**48) / self._shapes[shape]

        return max(self._shapes, key=score)


class _ScramExchange(Exchange):
    """Two steps: client-first is answered by server-first, client-final by server-final."""

    def __init__(self, method: Scram, mechanism: Any) -> None:
        self._method = method
        self._server: Any = mechanism.make_server(self._entry)
        self._begun = False
        self._used: _Entry | None = None

    def step(self, data: bytes) -> Answer:
        """Check a message of the client and answer it."""
        if len(data) > MESSAGE_BYTES:
            raise self._failed(f"a message of {len(data)} bytes")
        try:
            message = data.decode()
            if not self._begun:
                self._server.set_client_first(message)
                return Answer(self._server.get_server_first().encode())
            self._server.set_client_final(message)
            server_final: str = self._server.get_server_final()
        except (ScramException, UnicodeDecodeError) as error:
            raise self._failed(str(error)) from error
        if not self._method.holds(self.claimed, self._used):
            raise self._failed("there is no such user, or the password has changed since the exchange began")
        return Answer(server_final.encode(), self.claimed)

    def _entry(self, username: str) -> _Entry:
        self._begun = True
        self.claimed = username
        self._used = self._method.entry(username)
        return self._used

    def _failed(self, reason: str) -> MQTTError:
        """The refusal. It may reach the client, so it does not tell whether the user exists."""
        return MQTTError(
            reason_codes.NOT_AUTHORIZED, f"{NAME} has failed for {shown(self.claimed or '?', False)}: {reason}"
        )


def _entry(user: ScramUser) -> _Entry:
    return _Entry(
        b64decode(user.salt),
        b64decode(user.stored_key.get_secret_value()),
        b64decode(user.server_key.get_secret_value()),
        user.iterations,
    )
