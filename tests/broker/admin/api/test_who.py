"""Who may ask the admin API: the broker's user on the Unix socket, tokens by role over TCP."""

import http.client
from contextlib import ExitStack, closing
from hashlib import sha256
from pathlib import Path

import pytest

from tests.broker.admin.api.conftest import OPERATOR, VIEWER
from tests.broker.conftest import Start
from tests.support.broker.admin import TIMEOUT, request
from tests.support.broker.events import wait_for_event
from tests.support.broker.reloads import reload, rewrite
from tests.support.process import Address, BrokerProcess
from tests.support.wire import connected

pytestmark = pytest.mark.once

READING = [
    "/api/v1/clients",
    "/api/v1/sessions",
    "/api/v1/subscriptions",
    "/api/v1/groups",
    "/api/v1/addresses",
    "/api/v1/retained",
    "/api/v1/openapi.json",
    "/metrics",
]


@pytest.mark.parametrize("target", READING)
def test_reading(path: Path, tcp: Address, target: str) -> None:
    """Lists are for the broker's user, viewers and operators, and for nobody else."""
    answers = [request(path, target), *(request(tcp, target, token=token) for token in (VIEWER, OPERATOR))]
    assert [answer.status for answer in answers] == [200, 200, 200]
    for token in ("", "wrong", VIEWER + "x"):
        refused = request(tcp, target, token=token)
        assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")


@pytest.mark.parametrize("target", ["/health", "/ready"])
def test_probes_need_no_token(tcp: Address, target: str) -> None:
    """Programs that start brokers, or send clients to them, need no token."""
    assert request(tcp, target).status == 200


def test_nothing_is_known_before_the_token(tcp: Address) -> None:
    """Without a token a path that does not exist says no more than one that does not: 404, without a list of paths."""
    answer = request(tcp, "/api/v1/nothing")
    assert (answer.status, answer.json) == (404, {"detail": "Not Found"})


def test_headers(tcp: Address) -> None:
    """Every answer forbids a browser to run or load anything that is not ours, or to keep it."""
    for target in ("/health", "/api/v1/sessions", "/nothing"):
        headers = request(tcp, target).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe-inline" not in headers["content-security-policy"]
        assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")


def counted(path: Path, reason: str) -> float:
    """How many requests the metric has for a reason."""
    (line,) = [
        each
        for each in request(path, "/metrics").text.splitlines()
        if each.startswith(f'sluice_admin_refused_total{{reason="{reason}"}}')
    ]
    return float(line.rpartition(" ")[2])


def test_refusals_are_counted(broker: BrokerProcess, path: Path, tcp: Address) -> None:
    """A metric counts requests without a token, with a wrong one and without the role; a wrong one is in the log."""
    before = {reason: counted(path, reason) for reason in ("missing", "unknown", "role")}
    for token in ("", "wrong", VIEWER):
        request(tcp, "/api/v1/reload", "POST", token=token)
    assert {reason: counted(path, reason) for reason in before} == {name: count + 1 for name, count in before.items()}
    assert wait_for_event(broker, "admin_token_refused")[-1]["peer"] == "127.0.0.1"
    assert "wrong" not in str(wait_for_event(broker, "admin_token_refused"))


@pytest.mark.parametrize("role", [None, "viewer"])
def test_tokens_that_are_taken_away(start: Start, role: str | None) -> None:
    """A stream and a trace end when a reload takes their token away, or the role that they need."""
    own = {"name": "ann", "role": "operator", "sha256": sha256(OPERATOR.encode()).hexdigest()}
    admin = {"socket": "a.sock", "listen": "127.0.0.1:0"}
    broker = start(sections={"admin": admin | {"tokens": [own]}})
    (event,) = wait_for_event(broker, "admin_listening")
    where = Address("127.0.0.1", int(str(event["port"])))
    with ExitStack() as stack:
        answers = []
        for target in ("/api/v1/stream", "/api/v1/trace?topic_filter=%23&seconds=3600"):
            connection = stack.enter_context(closing(http.client.HTTPConnection(*where, timeout=TIMEOUT)))
            connection.request("GET", target, headers={"Authorization": f"Bearer {OPERATOR}"})
            answers.append(connection.getresponse())
        assert [each.status for each in answers] == [200, 200]
        assert answers[0].readline().startswith(b"data: ")
        rewrite(broker, admin=admin | {"tokens": [own | {"role": role}] if role else []})
        assert reload(broker).status == 200
        with connected(broker.address(), 5, client_id="later") as client:
            client.publish("secret", b"x", 1)
        assert b"later" not in b"".join(each.read() for each in answers)
