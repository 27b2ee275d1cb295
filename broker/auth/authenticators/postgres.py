"""Users in a PostgreSQL database: `authentication.postgres`. The query is the operator's; each login runs it.

A row has the columns `password_hash`, and if wanted `username`, `roles`, `superuser` and `limits`. Without an answer
in time nobody is let in. Connections that the database has closed are opened again by the next login.
"""

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from secrets import token_bytes
from typing import Any, Final

import asyncpg
import structlog
from pydantic import ValidationError

from broker.auth import claimed_name
from broker.auth.authenticators import password_hash
from broker.auth.authenticators.authenticator import Answer, Login, No
from broker.auth.authenticators.grant import UserGrant, load, text
from broker.auth.authenticators.hashing import HashingPool
from broker.auth.authenticators.outage import Outage
from broker.auth.authenticators.passwords import Passwords
from broker.auth.authenticators.slots import Slots
from broker.runtime.os_errors import text_of
from config.file_sizes import read_bytes
from config.postgres import Postgres

SOURCE: Final = "postgres"

HASH: Final = "password_hash"
COLUMNS: Final = (HASH, "username", "roles", "superuser", "limits")

_MOST_ARGUMENTS: Final = 2


class PostgresAuthenticator:
    """Finds the row of a user, and compares the password with its hash."""

    name = f"authentication.{SOURCE}"
    asked_about_nameless = False

    def __init__(self, own: Postgres, hashing: HashingPool) -> None:
        """Read the authorities. Raises OSError."""
        self._own = own
        self._tls = False if own.is_local else ssl.create_default_context(cafile=own.cafile)
        self._slots = Slots(own.max_connections)
        self._outage = Outage(self.name)
        self._passwords = Passwords(hashing)
        self._like = password_hash.make(token_bytes(16))
        """The hash that stands for those of users who are not there: the last that was."""
        self._pool: asyncpg.Pool | None = None
        self._arguments = 0
        self._log = structlog.get_logger("sluice")
        self.jobs: list[Callable[[], Coroutine[Any, Any, None]]] = [self._run]
        """What has to run beside the broker."""

    async def authenticate(self, login: Login) -> Answer:
        """Return who it is. Raises Busy and Unavailable."""
        async with self._slots.of(login.network):
            row = await self._find(login)
        if row is None:
            return No.NOT_MINE
        encoded = row[HASH]
        try:
            password_hash.check(encoded if isinstance(encoded, str) else "")
        except ValueError as error:
            self._mistake(login, str(error))
            await self.waste(login)
            return No.DENIED
        self._like = encoded
        if not await self._passwords.match(login.claimed, encoded, login):
            return No.DENIED
        try:
            return _grant(row).identity(login.username, SOURCE)
        except ValidationError as error:
            self._mistake(login, text(error))
        except ValueError as error:
            self._mistake(login, str(error))
        return No.DENIED

    async def waste(self, login: Login) -> None:
        """Hash as for the last user that was found. Raises Busy."""
        await self._passwords.waste(self._like, login)

    async def _find(self, login: Login) -> asyncpg.Record | None:
        """The row of a user; None if there is none. Raises Unavailable."""
        rows: list[asyncpg.Record] = []
        try:
            async with asyncio.timeout(self._own.timeout):
                pool = await self._open()
                async with pool.acquire() as connection:
                    names = (login.username, login.client_id)
                    rows = await connection.fetch(self._own.query, *names[: self._arguments])
        except asyncpg.DataError:
            pass  # a name that the query cannot take, such as letters for a number, is nobody's
        except TimeoutError:
            self._outage.failed(f"no answer within {self._own.timeout:g} s")
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, ValueError) as error:
            self._outage.failed(f"{type(error).__name__}: {text_of(error)}"[:500])
        if len(rows) > 1:
            self._outage.failed("the query has found more than one row for a user name")
        self._outage.over()
        return rows[0] if rows else None

    async def _open(self) -> asyncpg.Pool:
        if self._pool is None:
            own = self._own
            self._pool = asyncpg.create_pool(
                host=own.host,
                port=own.port,
                user=own.user,
                database=own.database,
                password=None if own.password_file is None else self._password,
                ssl=self._tls,
                min_size=0,
                max_size=own.max_connections,
                timeout=own.timeout,
                command_timeout=own.timeout,
                init=self._look,
            )
        return await self._pool  # at once, but for the first time

    def _password(self) -> str:
        """The broker's own password, at each connection: it may have changed. Raises OSError, ValueError."""
        assert self._own.password_file is not None  # it is called then only
        return read_bytes(self._own.password_file, f"{self.name}.password_file").decode().rstrip("\r\n")

    async def _look(self, connection: "asyncpg.Connection[Any]") -> None:
        """Look at the query, at each new connection. Raises ValueError if it cannot be used."""
        statement = await connection.prepare(self._own.query)
        arguments = len(statement.get_parameters())
        names = [attribute.name for attribute in statement.get_attributes()]
        if not 0 < arguments <= _MOST_ARGUMENTS:
            raise ValueError(f"the query has {arguments} parameters; expected $1, the user name, and perhaps $2")
        if HASH not in names or set(names) - set(COLUMNS) or len(set(names)) < len(names):
            found, others = ", ".join(names) or "none", ", ".join(COLUMNS[1:])
            raise ValueError(f"the query has the columns {found}; expected {HASH}, and perhaps {others}")
        self._arguments = arguments

    def _mistake(self, login: Login, detail: str) -> None:
        may_be_shown = claimed_name.may_be_shown(login.username, login.name_may_be_token)
        user = login.username[: claimed_name.MOST_SHOWN] if may_be_shown else claimed_name.HIDDEN
        self._log.warning("postgres_mistake", user=user, detail=detail)

    async def _run(self) -> None:
        """Close the connections at the end."""
        try:
            await asyncio.Event().wait()
        finally:
            if self._pool is not None:
                self._pool.terminate()


def _grant(row: asyncpg.Record) -> UserGrant:
    """What a row says besides the hash; NULL is as no column. Raises ValueError."""
    given = {key: value for key, value in row.items() if key != HASH and value is not None}
    if isinstance(given.get("roles"), str):
        given["roles"] = given["roles"].split()
    if isinstance(given.get("limits"), str):
        given["limits"] = load(given["limits"])  # as asyncpg returns JSON
    return UserGrant.model_validate(given)
