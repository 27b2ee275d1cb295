"""Compares passwords with hashes, in threads. One that has been verified costs no hashing when it comes again."""

import hmac
from hashlib import blake2b
from secrets import token_bytes
from typing import Final

from broker.auth.authenticators import password_hash
from broker.auth.authenticators.authenticator import Login
from broker.auth.authenticators.hashing import HashingPool

MOST_VERIFIED: Final = 100_000
"""Passwords whose digests are kept, of about 250 bytes each; past that the oldest goes."""


class Passwords:
    """The passwords of one source of users."""

    def __init__(self, pool: HashingPool) -> None:
        self._pool = pool
        # Random in each process: digests of the last process tell nothing about passwords.
        self._secret = token_bytes(32)
        self._verified: dict[bytes, bytes] = {}  # by the digest of the user's name, oldest first

    async def match(self, user: str, encoded: str, login: Login) -> bool:
        """Whether a login has the password of a user with this hash. Raises Busy if too many wait to be hashed.

        No password is not the empty one, which a hash may be of: it takes the same time, and is never right.
        """
        given = login.password
        if given is None:
            await self.waste(encoded, login)
            return False
        digest, name = self._digest(encoded, given), self._name(user)
        if hmac.compare_digest(self._verified.get(name, b""), digest):
            return True
        if not await self._pool.run(lambda: password_hash.verify(encoded, given), login.network):
            return False
        if name not in self._verified and len(self._verified) >= MOST_VERIFIED:
            del self._verified[next(iter(self._verified))]
        self._verified[name] = digest
        return True

    async def waste(self, encoded: str, login: Login) -> None:
        """Take the time of `match`, for an unknown user: so it does not tell who exists. Raises Busy."""
        await self._pool.run(lambda: password_hash.verify(encoded, login.password or b""), login.network)

    def forget(self, user: str) -> None:
        """The user is gone, or has another password."""
        self._verified.pop(self._name(user), None)

    def choice(self, name: str, number: int) -> int:
        """One of `number`, always the same for a name; nobody outside can tell which."""
        return int.from_bytes(blake2b(name.encode(), key=self._secret, digest_size=8).digest()) % number

    def _name(self, user: str) -> bytes:
        """What stands for a name, which may be long."""
        return blake2b(user.encode(), key=self._secret, digest_size=16).digest()

    def _digest(self, encoded: str, password: bytes) -> bytes:
        """What stands for a verified password. With another hash it is another one."""
        return blake2b(encoded.encode() + b"\0" + password, key=self._secret, digest_size=32).digest()
