"""Who asks, and what they may do."""

import hashlib
import hmac
import json
from collections.abc import Callable, Sequence
from typing import Annotated, Final, NamedTuple

import structlog
from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from broker.admin.links import Grant, Links
from broker.totals import MISSING, UNKNOWN, Totals
from config.admin import Token

VIEWER: Final = "viewer"
OPERATOR: Final = "operator"

ASKED_FOR: Final = "sluice-asked-for"
"""The header in which the keeper tells a cell who has asked it. Only the keeper's user may open the cell's socket."""


class Asker(NamedTuple):
    """Whoever has sent a request."""

    name: str
    """For the audit log: `uid 1000`, or `token grafana`."""
    role: str
    peer: str
    """Where from: `unix`, or an IP address."""
    still: Callable[[], bool] = lambda: True
    """Whether that holds yet, for answers that last: a token may be taken away, or get another role."""


def on_behalf_of(who: Asker) -> bytes:
    """The value of the header ASKED_FOR."""
    return json.dumps(who[:3]).encode()


_bearer = HTTPBearer(auto_error=False, description="A token of `admin.tokens`; none is needed on the Unix socket.")

Bearer = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


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


class Finder:
    """The dependency that finds out who asks, and counts who is refused."""

    def __init__(self, tokens: Tokens, totals: Totals, for_others: bool = False) -> None:
        """`for_others`: whoever asks on the Unix socket may ask on behalf of another."""
        self._tokens = tokens
        self._totals = totals
        self._for_others = for_others
        self._log = structlog.get_logger("sluice")

    async def __call__(self, request: Request, bearer: Bearer) -> Asker:
        """Who asks. Raises HTTPException without a valid token."""
        peer = where_from(request)
        if request.state.trusted:
            asked_for = request.headers.get(ASKED_FOR) if self._for_others else None
            if asked_for is not None:
                return Asker(*json.loads(asked_for))
            uid = request.state.uid
            return Asker("unix" if uid is None else f"uid {uid}", OPERATOR, peer)
        if bearer is None:
            self.refused(MISSING)
        else:
            token = bearer.credentials
            grant = self._tokens.find(token)
            if grant is not None:
                return Asker(grant.who, grant.role, peer, lambda: self._tokens.find(token) == grant)
            self.refused(UNKNOWN)
            self._log.info("admin_token_refused", peer=peer)
        raise HTTPException(401, "a token is needed: Authorization: Bearer TOKEN", {"WWW-Authenticate": "Bearer"})

    def refused(self, reason: str) -> None:
        """Count it."""
        self._totals.admin_refused[reason] += 1


def where_from(request: Request) -> str:
    """Where a request comes from: `unix`, or an IP address."""
    if request.state.trusted:
        return "unix"
    return request.client.host if request.client else ""
