"""Users with passwords in a file: `authentication.password_file`."""

import hmac
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from secrets import token_bytes
from typing import Final

import structlog

from broker.auth.authenticators import password_hash, users_file
from broker.auth.authenticators.authenticator import Answer, Login, No
from broker.auth.authenticators.hashing import HashingPool
from broker.auth.authenticators.users_file import Contents, User
from broker.auth.identity import Identity
from broker.auth.watched_file import WatchedFile

SOURCE: Final = "password_file"

_MOST_LOGGED: Final = 20
"""Mistakes of one file that are logged."""


class PasswordFile:
    """Compares passwords with the hashes of a file."""

    name = f"authentication.{SOURCE}"

    def __init__(self, path: Path, pool: HashingPool) -> None:
        """Read the file. Raises OSError."""
        self.file = WatchedFile(self.name, path, users_file.read, self.update)
        self.on_changed: Callable[[set[str]], None] = lambda _: None
        """Called with the names of users who are gone, or have another password or other roles."""
        self._pool = pool
        self._log = structlog.get_logger("sluice")
        self._users: dict[str, User] = {}
        self._likes: list[User] = []
        # Random in each process: digests of the last process tell nothing about passwords.
        self._secret = token_bytes(32)
        self._verified: dict[str, bytes] = {}
        self._nobody = User("", password_hash.make(token_bytes(16)))
        self.update(self.file.read())

    async def authenticate(self, login: Login) -> Answer:
        """Return who it is. Raises Busy if too many passwords wait to be hashed."""
        user = self._users.get(login.username)
        password = login.password or b""
        if user is None:
            # Hash like a user's password, always the same user's for one name: the time does not tell who exists.
            await self._matches(self._like(login.username), password)
            return No.NOT_MINE
        digest = self._digest(user, password)
        if not hmac.compare_digest(self._verified.get(user.name, b""), digest):
            if not await self._matches(user, password) or login.password is None:
                return No.DENIED
            if self._users.get(user.name) != user:  # the file has changed meanwhile
                return No.DENIED
            self._verified[user.name] = digest
        return Identity(user.name, frozenset(user.roles), SOURCE)

    def update(self, contents: Contents) -> None:
        """Use what the file holds now."""
        old, new = self._users, contents.users
        changed = {name for name, user in old.items() if new.get(name) != user}
        for name in changed:
            self._verified.pop(name, None)
        self._users = new
        self._likes = list(new.values()) or [self._nobody]
        for mistake in contents.mistakes[:_MOST_LOGGED]:
            self._log.warning("password_file_mistake", file=str(self.file.path), detail=str(mistake))
        if changed:
            self.on_changed(changed)

    async def _matches(self, user: User, password: bytes) -> bool:
        return await self._pool.run(lambda: password_hash.verify(user.hash, password))

    def _like(self, name: str) -> User:
        digest = blake2b(name.encode(), key=self._secret, digest_size=8).digest()
        return self._likes[int.from_bytes(digest) % len(self._likes)]

    def _digest(self, user: User, password: bytes) -> bytes:
        """What stands for a verified password, so that a client that comes again costs no hashing."""
        return blake2b(user.hash.encode() + b"\0" + password, key=self._secret, digest_size=32).digest()
