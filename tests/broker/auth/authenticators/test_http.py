"""A service that decides about logins: what it is asked, what its answers mean, and that failures let nobody in."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from broker.auth.authenticators.authenticator import Answer, Busy, Login, No, Unavailable
from broker.auth.identity import SUPERUSER, Identity
from config.http import Http
from protocol import reason_codes
from protocol.acknowledgements import Puback
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.publish import Publish
from tests.broker.conftest import Start
from tests.support.broker.events import events, wait_for_event
from tests.support.broker.login_service import LOGIN, LoginService, asking, login_service
from tests.support.broker.logins import NO_LIMITS, code, log_in
from tests.support.brokers import Listener
from tests.support.certificates import Certificates
from tests.support.process import Address
from tests.support.waiting import wait_until
from tests.support.wire import WireClient

pytest.importorskip("aiohttp", reason="needs the extra `http`")
from broker.auth.authenticators.http import HttpAuthenticator

pytestmark = pytest.mark.once


@pytest.fixture
def service() -> Iterator[LoginService]:
    """A service that lets everybody in."""
    with login_service() as running:
        yield running


async def ask(service: LoginService, login: Login = LOGIN, **own: Any) -> Answer:
    """The answer to one login."""
    async with asking(service.url, **own) as authenticator:
        return await authenticator.authenticate(login)


async def test_request(service: LoginService) -> None:
    """The service gets what is known of the client, as JSON."""
    assert await ask(service) == Identity("ann", frozenset(), "http")
    (asked,) = service.asked
    assert asked.path == "/login"
    assert asked.headers["Content-Type"] == "application/json"
    assert "Authorization" not in asked.headers
    assert asked.body == {
        "client_id": "sensor",
        "username": "ann",
        "password": "hunter2",
        "ip_address": "10.0.0.9",
        "listener": "tcp",
        "common_name": "box",
    }


@pytest.mark.parametrize(
    ("status", "content", "expected"),
    [
        (200, None, Identity("ann", frozenset(), "http")),
        (200, {}, Identity("ann", frozenset(), "http")),
        (200, {"roles": ["ops", "night"]}, Identity("ann", frozenset({"ops", "night"}), "http")),
        (200, {"superuser": True}, Identity("ann", frozenset({SUPERUSER}), "http")),
        (200, {"username": "Ann"}, Identity("Ann", frozenset(), "http")),
        (
            200,
            {"limits": {"max_connections": 2, "max_retained_bytes": "1KiB"}},
            Identity("ann", frozenset(), "http", limits=(("max_connections", 2), ("max_retained_bytes", 1024))),
        ),
        (401, None, No.DENIED),
        (403, b"<html>", No.DENIED),
        (204, None, No.NOT_MINE),
    ],
)
async def test_answers(service: LoginService, status: int, content: object, expected: Answer) -> None:
    """The status decides, and the body of 200 has what else is known of the user."""
    service.decide = lambda _: (status, content)
    assert await ask(service) == expected


@pytest.mark.parametrize(
    ("status", "content", "reason"),
    [
        (500, None, "status 500"),
        (404, None, "status 404"),
        (302, None, "status 302"),
        (201, {}, "status 201"),
        (200, b"<html>Welcome", "no JSON: Expecting value at character 0"),
        (200, b"[" * 60_000, "JSON with too many levels"),
        (200, b"\xff", "can't decode byte 0xff"),
        (200, [], "expected a JSON object"),
        (200, b"true", "expected a JSON object"),
        (200, b'{"superuser": false, "superuser": true}', "the key 'superuser' is there more than once"),
        (200, b'{"limits": {"max_inflight": 1, "max_inflight": 2}}', "the key 'max_inflight' is there more than once"),
        (200, {"username": "root\0"}, "username: "),
        (200, {"username": "root\nadmin"}, "username: "),
        (200, {"username": ""}, "username: "),
        (200, {"username": 7}, "username: "),
        (200, {"roles": [7]}, "roles.0: "),
        (200, {"roles": ["a\n"]}, "roles.0: "),
        (200, {"superuser": "yes"}, "superuser: "),
        (200, {"superuser": 1}, "superuser: "),
        (200, {"superuser": None}, "superuser: "),
        (200, {"limits": {"max_connections": True}}, "limits: "),
        (200, {"limits": {"max_connections": -1}}, "limits: "),
        (200, {"limits": {"max_connections": 1.5}}, "limits: "),
        (200, b'{"limits": {"max_connections": 1e400}}', "limits: "),
        (200, {"result": "deny"}, "result: is unknown: leave it out"),
        (200, {"roles": ["$superuser"]}, "roles.0: "),
        (200, {"roles": "ops"}, "roles: "),
        (200, {"limits": {"max_connection": 2}}, "limits: "),
        (200, {"limits": {"users": ["ann"]}}, "limits: "),
        (200, b" " * 70_000, "more than 65536 bytes"),
    ],
    ids=str,
)
async def test_answers_that_mean_nothing(service: LoginService, status: int, content: object, reason: str) -> None:
    """What is not understood lets nobody in, and the log says once what it was."""
    service.decide = lambda _: (status, content)
    service.location = service.url if status == 302 else ""
    with capture_logs() as logged:
        async with asking(service.url) as authenticator:
            for _ in range(2):
                with pytest.raises(Unavailable):
                    await authenticator.authenticate(LOGIN)
    (event,) = logged
    assert event["event"] == "authenticator_failed"
    assert event["authenticator"] == "authentication.http"
    assert reason in event["detail"]
    assert "hunter2" not in str(logged)
    assert len(service.asked) == 2


async def test_failures_do_not_tell_the_query() -> None:
    """What the log quotes of the address has no secret of it."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"no HTTP\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with capture_logs() as logged:
            async with asking(f"http://127.0.0.1:{port}/login?key=battery") as authenticator:
                with pytest.raises(Unavailable):
                    await authenticator.authenticate(LOGIN)
    (event,) = logged
    assert f"http://127.0.0.1:{port}/login?key=***" in event["detail"]
    assert "battery" not in str(logged)


async def test_without_a_user_name(service: LoginService) -> None:
    """The service may say who it is, or let it in without a name, but roles and limits are those of a user.

    A password that is no text is not asked about.
    """
    for content in ({"roles": ["ops"]}, {"superuser": True}, {"limits": {"max_connections": 1}}):
        service.decide = lambda _, content=content: (200, content)  # type: ignore[misc]  # used at once
        with pytest.raises(Unavailable):
            await ask(service, Login("", b"token"))
    service.asked.clear()
    service.decide = lambda _: (200, {})
    assert await ask(service, Login("", None, "sensor")) == Identity("", frozenset(), "http")
    service.decide = lambda _: (200, {"username": "ann"})
    assert await ask(service, Login("", b"token")) == Identity("ann", frozenset(), "http")
    assert await ask(service, Login("ann", None)) == Identity("ann", frozenset(), "http")
    assert service.asked[-1].body["password"] is None
    assert await ask(service, Login("ann", b"\xff")) is No.NOT_MINE
    assert len(service.asked) == 3


async def test_no_answer(service: LoginService) -> None:
    """A service that does not answer in time, or is not there, lets nobody in; when it is back the log says so."""
    go_on = threading.Event()
    service.decide = lambda _: (go_on.wait(60), (200, None))[1]
    with capture_logs() as logged:
        async with asking(service.url, timeout=0.2) as authenticator:
            for _ in range(2):
                with pytest.raises(Unavailable):
                    await authenticator.authenticate(LOGIN)
            go_on.set()
            while True:
                try:
                    await authenticator.authenticate(LOGIN)
                except Unavailable:  # this machine is slow
                    continue
                break
    assert [event["event"] for event in logged] == ["authenticator_failed", "authenticator_recovered"]
    assert logged[0]["detail"] == "no answer within 0.2 s"
    with login_service() as gone:
        pass
    with capture_logs() as logged, pytest.raises(Unavailable):
        await ask(gone)
    assert "ClientConnectorError" in logged[0]["detail"]


async def test_connection_that_was_closed(service: LoginService) -> None:
    """A service may close a connection after any answer without a word: the next login is asked about once more."""
    service.drop = 1
    async with asking(service.url, cache_time=0) as authenticator:
        for _ in range(5):
            assert isinstance(await authenticator.authenticate(LOGIN), Identity)


async def test_cache(service: LoginService) -> None:
    """An answer counts for the same login, also a refusal; anything else that is asked is another one."""
    service.decide = lambda body: (200 if body["password"] == "hunter2" else 403, None)
    others = [
        Login("ann", b"wrong", "sensor", "tcp", "10.0.0.9", "box"),
        Login("ann", b"hunter2", "other", "tcp", "10.0.0.9", "box"),
        Login("ann", b"hunter2", "sensor", "tls", "10.0.0.9", "box"),
        Login("ann", b"hunter2", "sensor", "tcp", "10.0.0.8", "box"),
        Login("ann", b"hunter2", "sensor", "tcp", "10.0.0.9", ""),
        Login("ben", b"hunter2", "sensor", "tcp", "10.0.0.9", "box"),
    ]
    async with asking(service.url) as authenticator:
        for _ in range(3):
            assert isinstance(await authenticator.authenticate(LOGIN), Identity)
            assert await authenticator.authenticate(others[0]) is No.DENIED
            for other in others[1:]:
                assert isinstance(await authenticator.authenticate(other), Identity)
    assert len(service.asked) == 1 + len(others)
    async with asking(service.url, cache_time=0) as authenticator:
        await authenticator.authenticate(LOGIN)
        await authenticator.authenticate(LOGIN)
    assert len(service.asked) == 3 + len(others)


async def test_limits(service: LoginService) -> None:
    """Only so many requests are made at once, and only so many logins wait for that."""
    go_on = threading.Event()
    service.decide = lambda _: (go_on.wait(60), (200, None))[1]
    async with asking(service.url, max_requests=2) as authenticator:
        logins = [Login(f"user{number}", b"x", host=LOGIN.host) for number in range(2 + 256)]
        waiting = [asyncio.create_task(authenticator.authenticate(login)) for login in logins]
        await asyncio.sleep(0)
        with pytest.raises(Busy):
            await authenticator.authenticate(LOGIN)
        await asyncio.to_thread(wait_until, lambda: service.at_once == 2, "two are asked about")
        go_on.set()
        answers = await asyncio.gather(*waiting)
    assert all(isinstance(answer, Identity) for answer in answers)
    assert service.most_at_once == 2


async def test_tls(certificates: Certificates) -> None:
    """The service's certificate is verified by the configured authorities."""
    with login_service(certificates.server) as service:
        assert isinstance(await ask(service, cafile=str(certificates.cafile)), Identity)
        with capture_logs() as logged, pytest.raises(Unavailable):
            await ask(service)
        assert "ClientConnectorCertificateError" in logged[0]["detail"]
        assert len(service.asked) == 1


async def test_header(service: LoginService, tmp_path: Path) -> None:
    """A header from a file tells the service who asks; a file that is no header is a mistake that is not quoted."""
    path = tmp_path / "header"
    path.write_text("Bearer 1234\n")
    await ask(service, header_file=str(path))
    assert service.asked[-1].headers["Authorization"] == "Bearer 1234"
    await ask(service, header_file=str(path), header="X-Api-Key")
    assert service.asked[-1].headers["X-Api-Key"] == "Bearer 1234"
    for content in (b"", b"Bearer 1\nX-Other: 2", "Bearer ä".encode()):
        path.write_bytes(content)
        with pytest.raises(OSError, match=r"authentication\.http\.header_file") as caught:
            HttpAuthenticator(Http(url=service.url, header_file=path))
        assert "Bearer" not in str(caught.value)
    path.unlink()
    with pytest.raises(OSError, match="No such file"):
        HttpAuthenticator(Http(url=service.url, header_file=path))


# -- in a broker


@pytest.mark.parametrize("anonymous", [None, True])
def test_by_client_id(start: Start, service: LoginService, anonymous: bool | None) -> None:
    """A client that sends neither user name nor password is let in by its client id, as a user or as nobody.

    Nobody's is let in as allow_anonymous says, one that the service refuses is not, and neither is any while it fails.
    """
    answers: dict[str, tuple[int, object]] = {
        "pump": (200, {"username": "ann", "roles": ["ops"]}),
        "valve": (200, None),
        "thief": (403, None),
    }
    service.decide = lambda body: answers.get(body["client_id"], (204, None))
    rules = [{"permit": "allow", "topics": [f"{each}/{{{each}}}"]} for each in ("username", "client_id", "role")]
    address = start(
        sections={
            "allow_anonymous": anonymous,
            "authentication": {"http": {"url": service.url, "cache_time": "0s", "timeout": "60s"}, **NO_LIMITS},
            "authorization": {"rules": rules},
        }
    ).address()
    for version in (4, 5):
        found = {name: _may(address, name, version) for name in ("pump", "valve", "thief", "other")}
        expected: dict[str, list[str] | int] = {
            "pump": ["username/ann", "client_id/pump", "role/ops"],
            "valve": ["client_id/valve"],
            "thief": 0x87 if version == 5 else 5,
            "other": ["client_id/other"] if anonymous else 0x87 if version == 5 else 5,
        }
        assert found == expected
    assert all(each.body["username"] == "" and each.body["password"] is None for each in service.asked)
    service.decide = lambda _: (503, None)
    assert code(address, None, None) == reason_codes.SERVER_UNAVAILABLE


def _may(address: Address, client_id: str, version: int) -> list[str] | int:
    """On which topics a client without a user name gets its own messages; the code of CONNACK if it is refused."""
    topics = ["username/ann", f"client_id/{client_id}", "role/ops"]
    with log_in(address, None, None, version, client_id) as client:
        refused = client.expect(Connack).reason_code
        if refused:
            return refused
        granted = client.subscribe(*topics).reason_codes
        return [topic for topic, each in zip(topics, granted, strict=True) if each < 0x80]


def test_in_a_broker(start: Start, service: LoginService, certificates: Certificates, tmp_path: Path) -> None:
    """Roles, a user's own limits and superusers count; a failure is 0x88 and nobody's end; no log has a secret."""
    (tmp_path / "header").write_text("Bearer sesame\n")
    users: dict[str, dict[str, Any]] = {
        "ann": {"roles": ["ops"], "limits": {"max_connections": 1}},
        "ben": {},
        "zoe": {"superuser": True},
    }
    service.decide = lambda body: (200, users[body["username"]]) if body["password"] == "hunter2" else (403, None)
    own = {"url": service.url, "header_file": str(tmp_path / "header"), "cache_time": "0s", "timeout": "60s"}
    broker = start(
        (Listener(), Listener("mutual", certificates, True)),
        sections={
            "allow_anonymous": None,
            "authentication": {"http": own, **NO_LIMITS},
            "authorization": {"rules": [{"permit": "allow", "topics": ["of/{role}"]}]},
            "log": {"level": "debug", "format": "json"},
        },
    )
    address = broker.address()
    for user, topic, expected in (
        ("ann", b"of/ops", 0x10),
        ("ann", b"other", reason_codes.NOT_AUTHORIZED),
        ("ben", b"of/ops", reason_codes.NOT_AUTHORIZED),
        ("zoe", b"other", 0x10),
    ):
        with log_in(address, user, "hunter2") as client:
            assert client.expect(Connack).reason_code == 0
            client.send(Publish(topic, b"", 1, packet_id=1))
            assert client.expect(Puback).reason_code == expected
    assert code(address, "ann", "wrong one") == reason_codes.BAD_USER_NAME_OR_PASSWORD
    with log_in(address, "ann", "hunter2", client_id="a") as client:
        assert client.expect(Connack).reason_code == 0
        assert code(address, "ann", "hunter2") == reason_codes.QUOTA_EXCEEDED
        service.decide = lambda _: (503, None)
        assert code(address, "ben", "hunter2") == reason_codes.SERVER_UNAVAILABLE
        assert code(address, "ben", "hunter2", 4) == 3
        client.expect_nothing_more()
    assert len(wait_for_event(broker, "authenticator_failed")) == 1
    with WireClient(broker.address("mutual"), 5, tls=certificates.client_context(with_certificate=True)) as client:
        client.send(Connect("", True, username="ann", password=b"hunter2", version=5))
        client.expect(Connack)
    assert service.asked[-1].body["common_name"] == "client"
    (tmp_path / "header").write_text("Bearer other\n")
    wait_for_event(broker, "file_read")
    code(address, "ben", "hunter2")
    assert service.asked[-1].headers["Authorization"] == "Bearer other"
    assert not events(broker, "crash")
    for secret in ("hunter2", "wrong one", "sesame"):
        assert secret not in broker.stderr
