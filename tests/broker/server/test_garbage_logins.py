"""Nothing of a login is left to the garbage collector, whoever decides about it."""

import time
from collections.abc import Iterator

import jwt
import pytest

from protocol.connack import Connack
from tests.support.broker.events import events, wait_for_event
from tests.support.broker.garbage import PREPARE, left_by
from tests.support.broker.login_service import LoginService, login_service
from tests.support.broker.logins import NO_LIMITS, log_in, write_users
from tests.support.brokers import TCP_ONLY, start_sluice
from tests.support.process import BrokerProcess

pytest.importorskip("aiohttp", reason="needs the extra `http`")

KEY = "k" * 32


@pytest.fixture(scope="module")
def service() -> Iterator[LoginService]:
    """A service that knows one user, and fails for another."""
    with login_service() as running:
        running.decide = lambda asked: {"carl": (200, {}), "dora": (500, None)}.get(asked["username"], (401, None))
        yield running


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, service: LoginService) -> Iterator[BrokerProcess]:
    """A broker that asks a file, tokens and the service; its collector runs on request only."""
    folder = tmp_path_factory.mktemp("broker")
    key = folder / "key"
    key.write_text(KEY)
    authentication = {
        "password_file": str(write_users(folder / "users")),
        "jwt": {"algorithms": ["HS256"], "key_file": str(key)},
        "http": {"url": service.url},
        **NO_LIMITS,
    }
    with start_sluice(folder, TCP_ONLY, {"authentication": authentication}, prepare=PREPARE) as broker:
        yield broker


def token(seconds: int) -> str:
    """A token that ends in so many seconds."""
    return jwt.encode({"sub": "eve", "exp": int(time.time()) + seconds}, KEY, "HS256")


@pytest.mark.parametrize(
    ("user", "password", "accepted"),
    [
        ("ann", "correct horse", True),
        ("ann", "wrong", False),
        ("eve", token(1_000), True),
        ("eve", token(-1_000), False),
        ("carl", "x", True),
        ("nobody", "x", False),
        ("dora", "x", False),
    ],
    ids=["file", "file-wrong", "token", "token-expired", "service", "service-wrong", "service-fails"],
)
def test_login(running: BrokerProcess, user: str, password: str, accepted: bool) -> None:
    """Of a client that logs in, or is refused, nothing is left."""

    def enter() -> None:
        with log_in(running.address(), user, password) as client:
            assert (client.expect(Connack).reason_code == 0) == accepted

    enter()  # the first one opens connections and loads modules
    assert left_by(running, enter) == {}


def test_file_that_is_missing(running: BrokerProcess) -> None:
    """Of looks at a file of users that is not there nothing is left."""
    file, away = running.folder / "users", running.folder / "away"

    def look() -> None:
        failed, read = len(events(running, "file_not_read")), len(events(running, "file_read"))
        file.rename(away)
        wait_for_event(running, "file_not_read", failed + 1)
        away.rename(file)
        wait_for_event(running, "file_read", read + 1)

    assert left_by(running, look, often=2) == {}
