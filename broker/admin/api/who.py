"""Who asks, and what they may do."""

import hashlib
import hmac
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Final, NamedTuple

from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from broker.admin.links import Grant, Links
from config.admin import Token

VIEWER: Final = "viewer"
OPERATOR: Final = "operator"


class Asker(NamedTuple):
    """Whoever has sent a request."""

    name: str
    """For the audit log: `uid 1000`, or `token grafana`."""
    role: str
    peer: str
    """Where from: `unix`, or an IP address."""
    still: Callable[[], bool] = lambda: True
    """Whether that holds yet, for answers that last: a token may be taken away, or get another role."""


_bearer = HTTPBearer(auto_error=False, description="A token of `admin.tokens`; none is needed on the Unix socket.")

Bearer = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


Finder = Callable[..., Awaitable[Asker]]


class Tokens:
    """The tokens that are valid now: those of the configuration, and those that links have been exchanged for."""

    def __init__(self, configured: Callable[[], Sequence[Token]], links: Links) -> None:
        """`configured` returns those that apply now."""
        self._configured = configured
        self._links = links

    def find(self, token: str) -> Grant | None:
        """What a token allows; None if it is not valid."""
        grant = self._links.find(token)
        if grant is not None:
            return grant
        digest = hashlib.sha256(token.encode()).hexdigest()
        for each in self._configured():
            if hmac.compare_digest(digest, each.sha256.get_secret_value()):
                return Grant(f"token {each.name}", each.role)
        return None


def who_asks(tokens: Tokens) -> Finder:
    """The dependency that finds out who asks."""

    async def find(request: Request, bearer: Bearer) -> Asker:
        uid = request.state.uid
        if request.state.trusted:
            return Asker("unix" if uid is None else f"uid {uid}", OPERATOR, "unix")
        if bearer is not None:
            peer = request.client.host if request.client else ""
            token = bearer.credentials
            grant = tokens.find(token)
            if grant is not None:
                return Asker(grant.who, grant.role, peer, lambda: tokens.find(token) == grant)
        raise HTTPException(401, "a token is needed: Authorization: Bearer TOKEN", {"WWW-Authenticate": "Bearer"})

    return find
