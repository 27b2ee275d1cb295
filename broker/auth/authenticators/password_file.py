"""Users with passwords in a file: `authentication.password_file`."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from secrets import token_bytes
from typing import Final

import structlog

from broker.auth.authenticators import password_hash, users_file
from broker.auth.authenticators.authenticator import Answer, Login, No
from broker.auth.authenticators.hashing import HashingPool
from broker.auth.authenticators.passwords import Passwords
from broker.auth.authenticators.users_file import Contents, User
from broker.auth.identity import Identity
from broker.auth.watched_file import WatchedFile

SOURCE: Final = "password_file"

_MOST_LOGGED: Final = 20
"""Mistakes of one file that are logged."""


class PasswordFile:
    """Compares passwords with the hashes of a file."""

    name = users_file.KEY
    asked_about_nameless = False

    def __init__(self, path: Path, pool: HashingPool) -> None:
        """Read the file. Raises OSError."""
        self.file = WatchedFile(
            {self.name: path}, partial(users_file.read, path), self.update, self._takes_away
        )
        self.on_changed: Callable[[set[str]], None] = lambda _: None
        """Called with the names of users who are gone, or have another password or other roles."""
        self._path = path
        self._passwords = Passwords(pool)
        self._log = structlog.get_logger("sluice")
        self._users: dict[str, User] = {}
        self._likes: list[User] = []
        self._nobody = User("", password_hash.make(token_bytes(16)))
        self.update(self.file.read())

    async def authenticate(self, login: Login) -> Answer:
        """Return who it is. Raises Busy if too many passwords wait to be hashed."""
        user = self._users.get(login.username)
        if user is None:
            return No.NOT_MINE
        if not await self._passwords.match(user.name, user.hash, login):
            return No.DENIED
        if self._users.get(user.name) != user:  # the file has changed meanwhile
            return No.DENIED
        return Identity(user.name, frozenset(user.roles), SOURCE)

    async def waste(self, login: Login) -> None:
        """Hash like a user's password, always the same user's for one name. Raises Busy."""
        like = self._likes[self._passwords.choice(login.username, len(self._likes))]
        await self._passwords.waste(like.hash, login)

    def _takes_away(self, contents: Contents) -> bool:
        """Whether users are gone or changed; in a thread."""
        return any(contents.users.get(name) != user for name, user in self._users.items())

    def update(self, contents: Contents) -> None:
        """Use what the file holds now."""
        old, new = self._users, contents.users
        changed = {name for name, user in old.items() if new.get(name) != user}
        for name in changed:
            self._passwords.forget(name)
        self._users = new
        self._likes = list(new.values()) or [self._nobody]
        for mistake in contents.mistakes[:_MOST_LOGGED]:
            self._log.warning("password_file_mistake", file=str(self._path), detail=str(mistake))
        if changed:
            self.on_changed(changed)
