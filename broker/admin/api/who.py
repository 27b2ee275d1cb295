"""Who asks, and what they may do."""

import hashlib
import hmac
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Final, NamedTuple

from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from broker.admin.links import Links
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


_bearer = HTTPBearer(auto_error=False, description="A token of `admin.tokens`; none is needed on the Unix socket.")

Bearer = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


Finder = Callable[..., Awaitable[Asker]]


def still_valid(asker: Asker, links: Links) -> Callable[[], bool]:
    """Whether an answer that lasts may go on: links may be revoked meanwhile. On the Unix socket it always may."""
    before = links.revocations
    return lambda: asker.peer == "unix" or links.revocations == before


def who_asks(tokens: Callable[[], Sequence[Token]], links: Links) -> Finder:
    """The dependency that finds out who asks; `tokens` returns those that are valid now, `links` has others."""

    async def find(request: Request, bearer: Bearer) -> Asker:
        uid = request.state.uid
        if request.state.trusted:
            return Asker("unix" if uid is None else f"uid {uid}", OPERATOR, "unix")
        if bearer is not None:
            peer = request.client.host if request.client else ""
            grant = links.find(bearer.credentials)
            if grant is not None:
                return Asker(grant.who, grant.role, peer)
            digest = hashlib.sha256(bearer.credentials.encode()).hexdigest()
            for token in tokens():
                if hmac.compare_digest(digest, token.sha256.get_secret_value()):
                    return Asker(f"token {token.name}", token.role, peer)
        raise HTTPException(401, "a token is needed: Authorization: Bearer TOKEN", {"WWW-Authenticate": "Bearer"})

    return find
