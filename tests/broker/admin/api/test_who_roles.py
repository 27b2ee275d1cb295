"""Every endpoint of the admin API is for whom it says: a new one without an entry here fails."""

from pathlib import Path
from typing import Final, NamedTuple

import pytest
from fastapi.routing import iter_route_contexts

from broker.admin.api.app import Api
from broker.admin.links import Links
from broker.server.server import Server
from config.models import Config
from tests.broker.admin.api.conftest import OPERATOR, VIEWER
from tests.support.broker.admin import request
from tests.support.process import Address

pytestmark = pytest.mark.once


class Endpoint(NamedTuple):
    """Whom an endpoint is for, and a request to it that changes nothing."""

    role: str
    """The lowest role that may ask: `anyone`, `viewer` or `operator`."""
    target: str
    body: object = None
    allowed: int = 200


V1: Final = "/api/v1"

ENDPOINTS: Final = {
    "GET /": Endpoint("anyone", "/"),
    "GET /dashboard/{name}": Endpoint("anyone", "/dashboard/main.js"),
    "GET /health": Endpoint("anyone", "/health"),
    "GET /ready": Endpoint("anyone", "/ready"),
    f"POST {V1}/login": Endpoint("anyone", f"{V1}/login", {"code": "none"}, 403),
    "GET /metrics": Endpoint("viewer", "/metrics"),
    **{
        f"GET {V1}/{name}": Endpoint("viewer", f"{V1}/{name}")
        for name in (
            "addresses",
            "bridges",
            "broker",
            "clients",
            "configuration",
            "docs",
            "groups",
            "listeners",
            "openapi.json",
            "retained",
            "sessions",
            "subscriptions",
            "who",
        )
    },
    f"GET {V1}/sessions/{{client_id:any}}": Endpoint("viewer", f"{V1}/sessions/nobody", None, 404),
    f"GET {V1}/stream": Endpoint("viewer", f"{V1}/stream?client_id=nobody", None, 404),
    f"GET {V1}/trace": Endpoint("operator", f"{V1}/trace?client_id=nobody&seconds=0.1"),
    f"DELETE {V1}/clients/{{client_id:any}}": Endpoint("operator", f"{V1}/clients/nobody", None, 404),
    f"DELETE {V1}/sessions/{{client_id:any}}": Endpoint("operator", f"{V1}/sessions/nobody", None, 404),
    f"DELETE {V1}/links": Endpoint("operator", f"{V1}/links"),
    f"DELETE {V1}/retained": Endpoint("operator", f"{V1}/retained?topic_filter=none"),
    f"POST {V1}/addresses/drain": Endpoint("operator", f"{V1}/addresses/drain", {"address": "none"}, 404),
    f"POST {V1}/bridges/{{name}}/reconnect": Endpoint("operator", f"{V1}/bridges/none/reconnect", None, 404),
    f"POST {V1}/publish": Endpoint("operator", f"{V1}/publish", {"topic": "none"}),
    f"POST {V1}/reload": Endpoint("operator", f"{V1}/reload"),
    # On the Unix socket only: a token that is taken away must not leave links behind.
    f"POST {V1}/links": Endpoint("unix", f"{V1}/links", {}),
}

REFUSED: Final = {
    "anyone": {},
    "viewer": {"": 401, "wrong": 401},
    "operator": {"": 401, "wrong": 401, VIEWER: 403},
    "unix": {"": 401, "wrong": 401, VIEWER: 403, OPERATOR: 403},
}
"""The answers to tokens that do not suffice, by the role that an endpoint needs; all others are allowed."""


async def nowhere() -> str:
    """There is no dashboard."""
    raise OSError


def test_every_endpoint_has_a_test() -> None:
    """The application has exactly the endpoints that are tested here."""
    app = Api(Server(Config()), Links(lambda: 0), nowhere).app
    found = {
        f"{method} {route.path}"
        for route in iter_route_contexts(app.routes)
        for method in (route.methods or ())
        if method != "HEAD"
    }
    assert found == set(ENDPOINTS)


@pytest.mark.parametrize("name", ENDPOINTS)
def test_roles(path: Path, tcp: Address, name: str) -> None:
    """Without a token, with a wrong one, as a viewer, as an operator, and on the Unix socket."""
    endpoint = ENDPOINTS[name]
    method = name.partition(" ")[0]
    refused = REFUSED[endpoint.role]
    expected = {token: refused.get(token, endpoint.allowed) for token in ("", "wrong", VIEWER, OPERATOR)}
    found = {token: request(tcp, endpoint.target, method, endpoint.body, token).status for token in expected}
    assert found == expected
    assert request(path, endpoint.target, method, endpoint.body).status == endpoint.allowed
