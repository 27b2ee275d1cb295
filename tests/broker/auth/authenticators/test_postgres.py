"""Users in a database: a real PostgreSQL, what its rows mean, wrong queries, and a database that is away or slow."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from broker.auth.authenticators.authenticator import Answer, Busy, Login, No, Unavailable
from broker.auth.authenticators.hashing import HashingPool
from broker.auth.identity import SUPERUSER, Identity
from config.postgres import Postgres
from protocol import reason_codes
from protocol.acknowledgements import Puback
from protocol.connack import Connack
from protocol.publish import Publish
from tests.broker.conftest import Start
from tests.support.broker.events import events, wait_for_event
from tests.support.broker.logins import NO_LIMITS, code, fast_hash, log_in, paho_login
from tests.support.broker.postgres import PASSWORD, PostgresServer, find_programs
from tests.support.certificates import Certificates
from tests.support.waiting import wait_until

pytest.importorskip("asyncpg", reason="needs the extra `postgres`")
from broker.auth.authenticators.postgres import PostgresAuthenticator

PROGRAMS = find_programs()
pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(PROGRAMS is None, reason="needs PostgreSQL (Debian: apt install postgresql)"),
    pytest.mark.timeout(300),
]

QUERY = "select password_hash, roles, superuser, limits from users where name = $1"
OLD_KINDS = {
    # password_hash of Mosquitto 2.0 and 1, both of "hunter2"
    "seven": "$7$101$c2FsdHNhbHQ=$",
    "six": "$6$c2FsdHNhbHQ=$",
}


def _hashes() -> dict[str, str]:
    import hashlib
    from base64 import b64encode

    seven = hashlib.pbkdf2_hmac("sha512", b"hunter2", b"saltsalt", 101)
    six = hashlib.sha512(b"hunter2" + b"saltsalt").digest()
    return {name: OLD_KINDS[name] + b64encode(made).decode() for name, made in (("seven", seven), ("six", six))}


@pytest.fixture(scope="module")
def database(certificates: Certificates) -> Iterator[PostgresServer]:
    """A database with users whose password is hunter2."""
    assert PROGRAMS is not None
    server = PostgresServer(PROGRAMS, certificates.server)
    try:
        server.start()
        server.sql("create database devices", "postgres")
        good = fast_hash("hunter2")
        rows = {
            "ann": (good, "'{ops,night shift}'", "null", "null"),
            "zoe": (good, "null", "true", "null"),
            "few": (good, "null", "false", """'{"max_connections": 1, "max_retained_bytes": "1KiB"}'"""),
            "none": (None, "null", "null", "null"),
            "plain": ("hunter2", "null", "null", "null"),
            "typo": (good, "null", "null", """'{"max_connection": 1}'"""),
            "grand": (good, "'{$superuser}'", "null", "null"),
            "twice": (good, "null", "null", "null"),
            **{name: (made, "null", "null", "null") for name, made in _hashes().items()},
        }
        server.sql("create table users (name text, password_hash text, roles text[], superuser bool, limits jsonb)")
        for name, (made, *others) in rows.items():
            shown = "null" if made is None else f"'{made}'"
            server.sql(f"insert into users values ('{name}', {shown}, {', '.join(others)})")
        yield server
    finally:
        server.remove()


def settings(server: PostgresServer, **more: Any) -> dict[str, Any]:
    """The section of a configuration, by the Unix socket."""
    own = {"host": str(server.folder), "port": server.port, "database": "devices", "user": "sluice", "query": QUERY}
    return {**own, "timeout": 60, **more}


@asynccontextmanager
async def asking(server: PostgresServer, **more: Any) -> AsyncIterator[PostgresAuthenticator]:
    """An authenticator that asks the database, and ends as with the broker."""
    hashing = HashingPool()
    authenticator = PostgresAuthenticator(Postgres.model_validate(settings(server, **more)), hashing)
    jobs = [asyncio.create_task(job()) for job in authenticator.jobs]
    try:
        await asyncio.sleep(0)  # they have begun
        yield authenticator
    finally:
        hashing.close()
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)


def login(name: str, password: bytes | None = b"hunter2", client_id: str = "") -> Login:
    """A login by user name and password."""
    return Login(name, password, client_id)


def identity(name: str, *roles: str, limits: tuple[tuple[str, int], ...] = ()) -> Identity:
    """Who has been found."""
    return Identity(name, frozenset(roles), "postgres", limits=limits)


async def test_rows(database: PostgresServer) -> None:
    """A row has a hash as in a password file, roles, limits and whether rules apply; mistakes in it let nobody in."""
    expected: dict[str, Answer] = {
        "ann": identity("ann", "ops", "night shift"),
        "seven": identity("seven"),
        "six": identity("six"),
        "zoe": identity("zoe", SUPERUSER),
        "few": identity("few", limits=(("max_connections", 1), ("max_retained_bytes", 1024))),
        "nobody": No.NOT_MINE,
        "": No.NOT_MINE,
        "x'; drop table users; --": No.NOT_MINE,
        "none": No.DENIED,
        "plain": No.DENIED,
        "typo": No.DENIED,
        "grand": No.DENIED,
    }
    with capture_logs() as logged:
        async with asking(database) as authenticator:
            assert {name: await authenticator.authenticate(login(name)) for name in expected} == expected
            for password in (b"wrong", b"", None):
                for name in ("ann", "ann", "six", "seven", "plain", "none"):
                    assert await authenticator.authenticate(login(name, password)) is No.DENIED
            assert await authenticator.authenticate(login("nobody", None)) is No.NOT_MINE
            assert await authenticator.authenticate(login("ann")) == expected["ann"]
    assert {event["event"] for event in logged} == {"postgres_mistake"}
    details = {event["user"]: event["detail"] for event in logged}
    assert set(details) == {"none", "plain", "typo", "grand"}
    assert "max_connection" in details["typo"]
    assert "hunter2" not in str(logged)


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        ("'no' as superuser", "superuser: "),
        ("1 as superuser", "superuser: "),
        ("E'root\\n' as username", "username: "),
        ("""'{"max_inflight": 1, "max_inflight": 9}'::json as limits""", "'max_inflight' is there more than once"),
        ("'[1' as limits", "no JSON: "),
    ],
)
async def test_columns_of_other_types(database: PostgresServer, column: str, reason: str) -> None:
    """A column is what it says, or lets nobody in: the text `no` is neither true nor false."""
    query = f"select password_hash, {column} from users where name = $1"
    with capture_logs() as logged:
        async with asking(database, query=query) as authenticator:
            assert await authenticator.authenticate(login("ann")) is No.DENIED
    (event,) = logged
    assert event["event"] == "postgres_mistake"
    assert reason in event["detail"]


async def test_changes_count_at_once(database: PostgresServer) -> None:
    """Each login asks: another password, other roles and a user who is gone count for the next one."""
    database.sql(f"insert into users values ('new', '{fast_hash('first')}', '{{a}}')")
    async with asking(database) as authenticator:
        assert await authenticator.authenticate(login("new", b"first")) == identity("new", "a")
        database.sql(f"update users set password_hash = '{fast_hash('second')}', roles = '{{b}}' where name = 'new'")
        assert await authenticator.authenticate(login("new", b"first")) is No.DENIED
        assert await authenticator.authenticate(login("new", b"second")) == identity("new", "b")
        database.sql("delete from users where name = 'new'")
        assert await authenticator.authenticate(login("new", b"second")) is No.NOT_MINE


async def test_client_id(database: PostgresServer) -> None:
    """$2 is the client id; roles may be names with spaces between them; names that a query cannot take are nobody's."""
    query = "select password_hash, $2 || ' other' as roles from users where name = $1 and $2 <> ''"
    async with asking(database, query=query) as authenticator:
        assert await authenticator.authenticate(login("ann", client_id="x")) == identity("ann", "x", "other")
        assert await authenticator.authenticate(login("ann")) is No.NOT_MINE
    by_id = "select password_hash from users where $1 = '7b3c0d5e-0000-4000-8000-000000000000'::uuid limit 1"
    by_cast = "select password_hash from users where $1::text::uuid is not null limit 1"
    for query in (by_id, by_cast):
        async with asking(database, query=query) as authenticator:
            assert await authenticator.authenticate(login("ann")) is No.NOT_MINE
            assert isinstance(await authenticator.authenticate(login("7b3c0d5e-0000-4000-8000-000000000000")), Identity)


async def test_password_of_a_client_id(database: PostgresServer) -> None:
    """A password without a user name is one of a client id, if the query says so, and the row may name the user."""
    query = "select password_hash, name as username from users where $1 in ('', name) and name = $2"
    async with asking(database, query=query) as authenticator:
        assert await authenticator.authenticate(login("", client_id="twice")) == identity("twice")
        assert await authenticator.authenticate(login("", b"wrong", "twice")) is No.DENIED
        assert await authenticator.authenticate(login("", client_id="nobody")) is No.NOT_MINE
        assert not authenticator.asked_about_nameless  # without a password there is nothing to compare
    query = "select password_hash from users where $1 = '' and name = $2"
    async with asking(database, query=query) as authenticator:
        assert await authenticator.authenticate(login("", client_id="twice")) == identity("")


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("select name from users where name = $1", "the query has the columns name; expected password_hash"),
        ("select password_hash, name from users where name = $1", "the columns password_hash, name"),
        ("select password_hash from users where name in ($1, $2, $3)", "the query has 3 parameters"),
        ("select password_hash from user where name = $1", "UndefinedColumnError"),
        ("selekt $1", "PostgresSyntaxError"),
        ("delete from users where name = $1 and false", "the query has the columns none"),
        ("select password_hash from users where name <> $1", "more than one row"),
    ],
)
async def test_wrong_queries(database: PostgresServer, query: str, reason: str) -> None:
    """A query that cannot be used lets nobody in, and the log says once why."""
    with capture_logs() as logged:
        async with asking(database, query=query) as authenticator:
            for _ in range(2):
                with pytest.raises(Unavailable):
                    await authenticator.authenticate(login("nobody"))
    (event,) = logged
    assert (event["event"], event["authenticator"]) == ("authenticator_failed", "authentication.postgres")
    assert reason in event["detail"]


async def test_password_of_the_database(
    database: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker's own password is in a file, which is read at each connection, or in libpq's variables."""
    path = tmp_path / "password"
    path.write_text("wrong one\n")
    with capture_logs() as logged:
        async with asking(database, host="127.0.0.1", password_file=str(path)) as authenticator:
            with pytest.raises(Unavailable):
                await authenticator.authenticate(login("ann"))
            path.write_text(f"{PASSWORD}\n")
            assert isinstance(await authenticator.authenticate(login("ann")), Identity)
    assert "InvalidPasswordError" in logged[0]["detail"]
    assert "wrong one" not in str(logged)
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    async with asking(database, host="127.0.0.1") as authenticator:
        assert isinstance(await authenticator.authenticate(login("ann")), Identity)


async def test_tls(
    database: PostgresServer, certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond this machine the connection is by TLS, and the database's certificate is verified."""
    monkeypatch.setattr(Postgres, "is_local", False)
    path = tmp_path / "password"
    path.write_text(PASSWORD)
    query = (
        "select password_hash, case when ssl then 'by-tls' end as roles "
        "from users, pg_stat_ssl where name = $1 and pid = pg_backend_pid()"
    )
    own: dict[str, Any] = {"host": "localhost", "password_file": str(path), "query": query}
    async with asking(database, **own, cafile=str(certificates.cafile)) as authenticator:
        assert await authenticator.authenticate(login("ann")) == identity("ann", "by-tls")
    with capture_logs() as logged:
        async with asking(database, **own) as authenticator:
            with pytest.raises(Unavailable):
                await authenticator.authenticate(login("ann"))
    assert "certificate verify failed" in logged[0]["detail"]


async def test_limits(database: PostgresServer) -> None:
    """Only so many connections are open, only so many logins wait for one, and none waits for ever."""
    slow = f"{QUERY} and pg_sleep(0.01) is not null"
    async with asking(database, query=slow, max_connections=2) as authenticator:
        waiting = [asyncio.create_task(authenticator.authenticate(login("nobody"))) for _ in range(2 + 256)]
        await asyncio.sleep(0)
        with pytest.raises(Busy):
            await authenticator.authenticate(login("ann"))
        answers = await asyncio.gather(*waiting)
        assert set(answers) == {No.NOT_MINE}
        count = "select count(*) from pg_stat_activity where datname = 'devices' and query like '%pg_sleep(0.01)%'"
        assert int(database.sql(f"{count} and pid <> pg_backend_pid()")) <= 2
    with capture_logs() as logged:
        for_ever = f"{QUERY} and pg_sleep(600) is not null"
        async with asking(database, query=for_ever, timeout=1) as authenticator:
            with pytest.raises(Unavailable):
                await authenticator.authenticate(login("ann"))
    assert logged[0]["detail"] == "no answer within 1 s"


async def test_database_that_restarts(database: PostgresServer) -> None:
    """Without the database nobody is let in; when it is back logins go on by new connections."""
    with capture_logs() as logged:
        async with asking(database) as authenticator:
            assert isinstance(await authenticator.authenticate(login("ann")), Identity)
            await asyncio.to_thread(database.stop)
            for _ in range(2):
                with pytest.raises(Unavailable):
                    await authenticator.authenticate(login("ann"))
            await asyncio.to_thread(database.start)
            assert isinstance(await authenticator.authenticate(login("ann")), Identity)
    assert [event["event"] for event in logged] == ["authenticator_failed", "authenticator_recovered"]


def test_in_a_broker(start: Start, database: PostgresServer, tmp_path: Path) -> None:
    """A real client logs in; roles and limits count, the file's users go before, and nothing secret is shown."""
    word = tmp_path / "password"
    word.write_text(PASSWORD)
    users = tmp_path / "users"
    users.write_text(f"ben:{fast_hash('battery')}\n")
    own = settings(database, host="127.0.0.1", password_file=str(word), timeout="60s")
    broker = start(
        sections={
            "allow_anonymous": None,
            "authentication": {"postgres": own, "password_file": str(users), **NO_LIMITS},
            "authorization": {"rules": [{"permit": "allow", "topics": ["of/{role}"]}]},
            "log": {"level": "debug", "format": "json"},
        }
    )
    address = broker.address()
    for version in (4, 5):
        assert not paho_login(address, "ann", "hunter2", version).is_failure
    assert code(address, "ben", "battery") == 0
    for user, password in (("ann", "wrong one"), ("ben", "hunter2"), ("nobody", "hunter2")):
        assert code(address, user, password) == reason_codes.BAD_USER_NAME_OR_PASSWORD
    for user, topic, expected in (("ann", b"of/ops", 0x10), ("few", b"of/ops", 0x87), ("zoe", b"other", 0x10)):
        with log_in(address, user, "hunter2") as client:
            assert client.expect(Connack).reason_code == 0
            client.send(Publish(topic, b"", 1, packet_id=1))
            assert client.expect(Puback).reason_code == expected
            if user == "few":
                assert code(address, user, "hunter2") == reason_codes.QUOTA_EXCEEDED
    database.stop()
    assert code(address, "ann", "hunter2") == reason_codes.SERVER_UNAVAILABLE
    assert code(address, "ben", "battery") == 0
    database.start()
    wait_until(lambda: code(address, "ann", "hunter2") == 0, "the database is asked again")
    assert len(wait_for_event(broker, "authenticator_recovered")) == 1
    assert not events(broker, "crash")
    for secret in ("hunter2", "wrong one", PASSWORD, "$argon2id$"):
        assert secret not in broker.stderr
