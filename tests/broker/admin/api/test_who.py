"""Who may ask the admin API: the broker's user on the Unix socket, tokens by role over TCP."""

from pathlib import Path

import pytest

from tests.broker.admin.api.conftest import OPERATOR, VIEWER
from tests.support.broker.admin import request
from tests.support.process import Address

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
