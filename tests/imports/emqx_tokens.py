"""Tokens (JWT): which ones EMQX accepts by its `verify_claims`, and which ones the result of the import does."""

import asyncio
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st
from structlog.testing import capture_logs

from broker.auth.authenticators.authenticator import Login
from broker.auth.authenticators.hashing import HashingPool
from broker.auth.authenticators.token import TokenAuthenticator
from broker.auth.authenticators.token_keys import TokenKeys
from broker.auth.identity import Identity
from config.models import Config
from config.tokens import Jwt
from tests.support.broker.tokens import make_key, public, token

KEY: Final = make_key("ES256")
TENANTS: Final = (None, "a", "ann", "c1", ["a"])
RULES: Final = (None, "acl", "own", "sub")
PRECONDITION: Final = 'precondition = "is_jwt(password)"'
NAMES: Final = tuple(product(("", "ann"), ("", "c1")))


@dataclass(frozen=True)
class Tokens:
    """An authenticator for tokens."""

    claims: tuple[tuple[str, str], ...]
    """`verify_claims`."""
    is_list: bool
    rules: str | None
    """`acl_claim_name`."""
    more: str

    def written(self, folder: Path) -> str:
        """Its settings; the public key is written beside them."""
        pairs = [f'{{ name = {name}, value = "{value}" }}' for name, value in self.claims]
        named = [f'{name} = "{value}"' for name, value in self.claims]
        claims = f"[{', '.join(pairs)}]" if self.is_list else f"{{ {', '.join(named)} }}"
        key = public(KEY, folder / "key.pem")
        lines = [f'mechanism = jwt, use_jwks = false, algorithm = public-key, public_key = "{key}", from = password']
        lines += [f"verify_claims = {claims}"] if self.claims else []
        lines += [] if self.rules is None else [f"acl_claim_name = {self.rules}"]
        return ", ".join([*lines, *([self.more] if self.more else [])])

    def accepts(self, username: str, client_id: str, claims: dict[str, Any]) -> bool:
        """Whether EMQX certainly accepts a token, and applies no rules of it."""
        if self.more == PRECONDITION or (self.rules or "acl") in claims:
            return False
        names = {"${username}": username or None, "${clientid}": client_id or None}
        return all(name in claims and claims[name] == names.get(value, value) for name, value in self.claims)


def tokens() -> st.SearchStrategy[Tokens]:
    """Any authenticator for tokens."""
    values = st.sampled_from(("a", "${username}", "${clientid}", "x{username}", "${zone}"))
    claim = st.tuples(st.sampled_from(("tenant", "sub", "aud", "iss", "exp")), values)
    claims = st.lists(claim, max_size=2, unique_by=lambda each: each[0]).map(tuple)
    more = st.sampled_from(("", "", "", PRECONDITION, "pool_size = 4"))
    return st.builds(Tokens, claims, st.booleans(), st.sampled_from(RULES), more)


def compare(own: Tokens | None, loaded: Config, told: str) -> None:
    """AssertionError says which token is accepted that EMQX would not accept; `own`: None = it asks another first."""
    if loaded.authentication.jwt is not None:
        asyncio.run(_compare(own, loaded.authentication.jwt, told))


async def _compare(own: Tokens | None, result: Jwt, told: str) -> None:
    pool = HashingPool()
    authenticator = TokenAuthenticator(result, TokenKeys(result), pool)
    try:
        with capture_logs():
            for (username, client_id), (claims, sent) in product(NAMES, _sent()):
                login = Login(username, sent, client_id)
                if isinstance(await authenticator.authenticate(login), Identity):
                    assert own is not None, f"{login} {claims}\n{told}"
                    assert own.accepts(username, client_id, claims), f"{login} {claims}\n{told}"
    finally:
        pool.close()


@cache
def _sent() -> list[tuple[dict[str, Any], bytes]]:
    """Tokens with their claims."""
    made: list[tuple[dict[str, Any], bytes]] = []
    for tenant, audience, rules in (*product(TENANTS, (None,), RULES), ("a", "a", None)):
        claims: dict[str, Any] = {"sub": "ann", "iss": "a", "tenant": tenant, "aud": audience}
        claims = {name: value for name, value in claims.items() if value is not None}
        claims |= {} if rules is None else {rules: {}}
        made.append((claims, token(KEY, "ES256", seconds=86_400, **claims).encode()))
    return made
