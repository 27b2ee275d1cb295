"""The users of the table, each known by one method, and the sections of a configuration that knows them all."""

import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

from tests.conformance.scram import settings as scram_settings
from tests.support.broker import tokens
from tests.support.broker.logins import NO_LIMITS, write_users
from tests.support.broker.postgres import PostgresServer

USERS: Final = {
    "password": "ann",
    "mosquitto": "mia",
    "jwt": "joe",
    "certificate": "client",
    "scram": "sam",
    "http": "hal",
    "client_id": "ida",
    "postgres": "pia",
}
"""By method; the certificate's is its common name."""

SECRET: Final = "correct horse"
WRONG: Final = "battery staple"
KNOWN: Final = "known-"
"""How client ids begin that the service lets in without a user name."""

PATIENCE: Final = "60s"
"""For the parts of a login: nothing here tests time limits."""

MOSQUITTO_PASSWD: Final = shutil.which("mosquitto_passwd")


def decide(body: dict[str, Any]) -> tuple[int, object]:
    """What the service says of a login."""
    if body["username"] == USERS["http"]:
        return (200, None) if body["password"] == SECRET else (401, None)
    if not body["username"]:
        known = body["password"] is None and body["client_id"].startswith(KNOWN)
        return (200, {"username": USERS["client_id"]}) if known else (403, None)
    return 204, None


def token(secret: bytes = tokens.SECRET) -> str:
    """The token of its user; with another secret nobody's."""
    return tokens.token(secret, "HS256", sub=USERS["jwt"], seconds=3_600)


def password_file(folder: Path) -> Path:
    """A file with a line of ours, and one of mosquitto_passwd's if that is there."""
    path = write_users(folder / "users", {USERS["password"]: SECRET})
    if MOSQUITTO_PASSWD is not None:
        subprocess.run([MOSQUITTO_PASSWD, "-b", str(path), USERS["mosquitto"], SECRET], check=True)
    return path


def fill(server: PostgresServer) -> None:
    """Make the table of users in a new database."""
    from tests.support.broker.logins import fast_hash

    server.sql("create database devices", "postgres")
    server.sql("create table users (name text, password_hash text)")
    server.sql(f"insert into users values ('{USERS['postgres']}', '{fast_hash(SECRET)}')")


def authentication(folder: Path, service: str, server: PostgresServer | None) -> dict[str, Any]:
    """The section `authentication`; `service`: its address; `server`: None where there is no database."""
    key = tokens.public(tokens.SECRET, folder / "tokens.key")
    found: dict[str, Any] = {
        "password_file": str(password_file(folder)),
        "jwt": {"algorithms": ["HS256"], "key_file": str(key)},
        "http": {"url": service, "timeout": PATIENCE},
        **scram_settings(user=USERS["scram"], password=SECRET),
        **NO_LIMITS,
    }
    if server is not None:
        found["postgres"] = {
            "host": str(server.folder),
            "port": server.port,
            "database": "devices",
            "user": "sluice",
            "query": "select password_hash from users where name = $1",
            "timeout": PATIENCE,
        }
    return found
