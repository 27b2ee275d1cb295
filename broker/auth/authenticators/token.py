"""Clients that log in with a JSON Web Token: `authentication.jwt`."""

import time
from typing import Any, Final

import jwt
import structlog

from broker.auth.authenticators.authenticator import Answer, Login, No
from broker.auth.authenticators.hashing import HashingPool
from broker.auth.authenticators.token_keys import KEY, TokenKeys, UnknownKeyError
from broker.auth.identity import SUPERUSER, Identity
from config.tokens import CLAIM_PLACEHOLDER, Jwt

SOURCE: Final = "jwt"

MOST_BYTES: Final = 16_384
"""The longest token that is looked at."""
MOST_ROLES: Final = 100
_LONGEST: Final = 255
"""Characters of the longest user name and role."""
_LONGEST_LIFE: Final = 10 * 365 * 86_400
"""Seconds for which a token counts at most: timers end somewhere."""


class TokenAuthenticator:
    """Verifies tokens and reads who the client is."""

    name = KEY
    asked_about_nameless = False

    def __init__(self, own: Jwt, keys: TokenKeys, pool: HashingPool) -> None:
        self._own = own
        self._keys = keys
        self._pool = pool
        self._log = structlog.get_logger("sluice")

    async def authenticate(self, login: Login) -> Answer:
        """Return who it is. Raises Busy if too many logins wait for the threads."""
        token = login.username.encode() if self._own.sent_as == "username" else login.password or b""
        if not looks_like_token(token):
            return No.NOT_MINE
        if len(token) > MOST_BYTES:
            return self._denied(login, f"longer than {MOST_BYTES} bytes")
        try:
            key = await self._keys.find(_key_id(token))
            claims = await self._pool.run(lambda: self._verify(token, key), login.network)
        except UnknownKeyError:
            return self._denied(login, "signed by an unknown key")
        except _WrongTokenError as error:
            return self._denied(login, str(error))
        for name, expected in self._own.claims.items():
            if not _holds(name, expected, claims, login):
                return self._denied(login, f"with another value of the claim {name} than it must have")
        user = claims.get(self._own.user_claim)
        if not isinstance(user, str) or not 0 < len(user) <= _LONGEST or not user.isprintable():
            return self._denied(login, f"without a user name in the claim {self._own.user_claim}")
        if self._own.sent_as == "password" and login.username not in ("", user):
            return self._denied(login, "of another user than the user name")
        expires_at = int((float(claims["exp"]) + self._own.leeway) * 1_000_000)
        return Identity(user, self._roles(claims), SOURCE, expires_at)

    def _verify(self, token: bytes, key: Any) -> dict[str, Any]:
        """The claims. Raises _WrongTokenError."""
        own = self._own
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=list(own.algorithms),
                audience=own.audience,
                issuer=own.issuer,
                leeway=own.leeway,
                options={"require": ["exp"]},
            )
            claims["exp"] = min(float(claims["exp"]), time.time() + _LONGEST_LIFE)
        except Exception as error:  # whatever a library thinks of it, its client has sent what is no token
            raise _WrongTokenError(type(error).__name__) from None  # the text might quote a claim
        return claims

    def _roles(self, claims: dict[str, Any]) -> frozenset[str]:
        found: Any = claims
        for name in (self._own.roles_claim or "").split("."):
            found = found.get(name) if isinstance(found, dict) and name else None
        listed = found.split() if isinstance(found, str) else found if isinstance(found, list) else []
        roles = [each for each in listed if isinstance(each, str) and 0 < len(each) <= _LONGEST and each.isprintable()]
        return frozenset(roles[:MOST_ROLES]) - {SUPERUSER}

    def _denied(self, login: Login, reason: str) -> No:
        """Say why in the log: clients get the same answer for everything. No part of the token is in it."""
        self._log.info("token_refused", peer=login.host, listener=login.listener, reason=reason)
        return No.DENIED


def _holds(name: str, expected: str | None, claims: dict[str, Any], login: Login) -> bool:
    """Whether a claim is what it must be. A name that CONNECT does not have equals nothing."""
    if expected is None:
        return name not in claims
    names = {"username": login.username, "client_id": login.client_id}
    used = [names[place] for place in CLAIM_PLACEHOLDER.findall(expected)]
    found = claims.get(name)
    filled = CLAIM_PLACEHOLDER.sub(lambda place: names[place[1]], expected)
    return all(used) and isinstance(found, str) and found == filled


class _WrongTokenError(Exception):
    """What a client has sent is no token that counts; the text quotes nothing of it."""


def _key_id(token: bytes) -> Any:
    """The `kid`. Raises _WrongTokenError."""
    try:
        return jwt.get_unverified_header(token).get("kid")
    except Exception as error:  # as in `_verify`
        raise _WrongTokenError(type(error).__name__) from None


def looks_like_token(text: bytes) -> bool:
    """Whether it begins as a token does, with a JSON object in base64, and has three parts."""
    return text.startswith(b"eyJ") and text.count(b".") == 2
