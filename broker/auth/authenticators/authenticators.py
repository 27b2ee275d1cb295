"""The configured authenticators, and the files that they follow."""

from collections.abc import Callable
from functools import partial
from typing import Any

from broker.auth.authenticators import password_file
from broker.auth.authenticators.authenticator import Authenticator
from broker.auth.authenticators.chain import Chain
from broker.auth.authenticators.guard import Guard
from broker.auth.authenticators.hashing import HashingPool
from broker.auth.authenticators.password_file import PasswordFile
from broker.auth.watched_file import WatchedFile
from broker.runtime.clock import SECOND
from config.models import Config


class Authenticators:
    """What decides about user names and passwords in one broker."""

    def __init__(self, config: Config, close_users: Callable[[str, set[str]], None]) -> None:
        """Open everything. `close_users` disconnects users of a source. Raises OSError."""
        own = config.authentication
        self._pool = HashingPool()
        self.files: list[WatchedFile[Any]] = []
        """What has to be read again when it changes."""
        asked: list[Authenticator] = []
        if own.password_file is not None:
            users = PasswordFile(own.password_file, self._pool)
            users.on_changed = partial(close_users, password_file.SOURCE)
            self.files.append(users.file)
            asked.append(users)
        failed = own.failed_logins
        period = int(failed.period * SECOND)
        self.chain = Chain(asked, Guard(failed.per_address, failed.per_user, period))

    def close(self) -> None:
        """Stop hashing."""
        self._pool.close()
