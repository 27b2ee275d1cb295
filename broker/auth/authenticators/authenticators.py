"""The configured authenticators, and the files that they follow."""

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from broker.auth.authenticators import password_file
from broker.auth.authenticators.authenticator import Authenticator
from broker.auth.authenticators.chain import Chain
from broker.auth.authenticators.guard import Guard
from broker.auth.authenticators.hashing import HashingPool
from broker.auth.authenticators.password_file import PasswordFile
from broker.auth.watched_file import WatchedFile
from config.models import Config


class Authenticators:
    """What decides about user names and passwords in one broker."""

    def __init__(self, config: Config, guard: Guard, close_users: Callable[[str, set[str]], None]) -> None:
        """Open everything. `close_users` disconnects users of a source. Raises OSError."""
        own = config.authentication
        self.names_may_be_tokens = own.names_may_be_tokens
        """Whether clients send tokens as user names."""
        self._pool = HashingPool()
        self.files: list[WatchedFile[Any]] = []
        """What has to be read again when it changes."""
        asked: list[Authenticator] = []
        if own.password_file is not None:
            users = PasswordFile(own.password_file, self._pool)
            users.on_changed = partial(close_users, password_file.SOURCE)
            self.files.append(users.file)
            asked.append(users)
        self.jobs: list[Callable[[], Coroutine[Any, Any, None]]] = []
        """What has to run beside the broker."""
        if own.jwt is not None:
            from broker.auth.authenticators.token import TokenAuthenticator  # slow to import, and few brokers need it
            from broker.auth.authenticators.token_keys import TokenKeys

            keys = TokenKeys(own.jwt)
            self.files += keys.files
            self.jobs += keys.jobs
            asked.insert(0, TokenAuthenticator(own.jwt, keys, self._pool))  # it costs less than hashing a password
        if own.postgres is not None:
            with _needed("authentication.postgres", "asyncpg", "postgres"):
                from broker.auth.authenticators.postgres import PostgresAuthenticator
            database = PostgresAuthenticator(own.postgres, self._pool)
            self.jobs += database.jobs
            asked.append(database)
        if own.http is not None:
            with _needed("authentication.http", "aiohttp", "http"):
                from broker.auth.authenticators.http import HttpAuthenticator
            service = HttpAuthenticator(own.http)
            self.files += service.files
            self.jobs += service.jobs
            asked.append(service)
        if own.plugins:
            from broker.auth.plugins.authenticator import AuthenticatorPlugin

            plugins = [AuthenticatorPlugin(each, close_users) for each in own.plugins]
            self.jobs += [plugin.run for plugin in plugins]
            asked += plugins
        self.chain = Chain(asked, guard)

    def close(self) -> None:
        """Stop hashing."""
        self._pool.close()


@contextmanager
def _needed(key: str, package: str, extra: str) -> Iterator[None]:
    """Import what only an extra brings. Raises OSError if it is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise OSError(f"{key} needs {package}, which is not installed: pip install 'sluice-mqtt[{extra}]'") from error
