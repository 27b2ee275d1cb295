"""The section `authentication.postgres`: users in a PostgreSQL database."""

import re
from pathlib import Path
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from config import units
from config.urls import is_local
from config.value_types import FiniteCount, FiniteDuration, Model, check_path

MOST_CONNECTIONS: Final = 100

_USERNAME: Final = re.compile(r"\$1(?![0-9])")


def _check_host(value: object) -> object:
    if isinstance(value, str) and not value.startswith("/"):
        try:
            is_local(value)
        except ValueError:
            found = units.found(value)
            raise ValueError(f"found {found}: write a host, or the folder of a Unix socket (/run/postgresql)") from None
    return value


def _check_query(value: object) -> object:
    if isinstance(value, str) and not _USERNAME.search(value):
        raise ValueError("found no $1: write a query in which $1 is the user name, and $2, if needed, the client id")
    return value


class Postgres(Model):
    """The database, and the query that finds a user."""

    host: Annotated[str, BeforeValidator(_check_host)]
    """Its name or IP address, or the folder of its Unix socket. Beyond this machine TLS is required."""
    port: int = Field(default=5432, ge=1, le=65_535)
    database: str = Field(min_length=1)
    user: str = Field(min_length=1)
    """The database's user, whom the broker connects as."""
    password_file: Annotated[Path | None, BeforeValidator(check_path)] = None
    """A file with that user's password; None = PGPASSWORD, PGPASSFILE or ~/.pgpass, if the database asks for one."""
    cafile: Annotated[Path | None, BeforeValidator(check_path)] = None
    """The authorities that may have signed the database's certificate; None = those of this machine."""
    query: Annotated[str, BeforeValidator(_check_query)]
    """Finds the row of a user: `$1` is the user name, `$2` the client id."""
    max_connections: FiniteCount = Field(default=4, ge=1, le=MOST_CONNECTIONS)
    """Connections to the database at the same time; further logins wait."""
    timeout: FiniteDuration = Field(default=5.0, ge=0.1, le=60)
    """Seconds within which the database has to answer."""

    @property
    def is_local(self) -> bool:
        """Whether the database is on this machine, so that nobody can listen."""
        return self.host.startswith("/") or is_local(self.host)
