"""The section `authentication.jwt`: clients that log in with a JSON Web Token."""

import re
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from config.urls import refusal
from config.value_types import FiniteDuration, Model, check_path

Algorithm = Literal[
    "HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]

CLAIM_PLACEHOLDER: Final = re.compile(r"\{(username|client_id)\}")
"""What in the value of a claim stands for a name in CONNECT."""

_BRACES: Final = re.compile(r"[{}]")
_TIMES: Final = ("exp", "iat", "nbf")
_NO_NAME: Final = "with sent_as: username it is the token, which no claim has: write {client_id} or a text"
_CLAIM: Final = "write a name, and a text, perhaps with {username} or {client_id}, or null for tokens without the claim"


def _kind(algorithm: Algorithm) -> str:
    """The kind of key that an algorithm takes; each ES has a curve of its own."""
    return algorithm if algorithm.startswith("ES") else {"PS": "RS"}.get(algorithm[:2], algorithm[:2])


class Jwt(Model):
    """Which tokens are accepted, and where the keys are that verify them."""

    algorithms: list[Algorithm] = Field(min_length=1)
    """The algorithms that are accepted; those with a shared secret (HS) and others must not be mixed."""
    key_file: Annotated[Path | None, BeforeValidator(check_path)] = None
    """The secret (HS), or a public key or certificate in PEM form."""
    jwks_file: Annotated[Path | None, BeforeValidator(check_path)] = None
    """A set of keys (JWKS)."""
    jwks_url: str | None = None
    """The same, at an https address."""
    jwks_cafile: Annotated[Path | None, BeforeValidator(check_path)] = None
    """The authorities that may have signed the certificate of that address; None = those of this machine."""
    refresh: FiniteDuration = Field(default=300.0, ge=10)
    """Seconds between two fetches from that address."""
    sent_as: Literal["password", "username"] = "password"
    """Where CONNECT has the token."""
    user_claim: str = Field(default="sub", min_length=1)
    """The claim with the user name."""
    roles_claim: str | None = Field(default=None, min_length=1)
    """The claim with the roles: a list, or names with spaces between them; dots lead into objects. None = no roles."""
    issuer: str | None = Field(default=None, min_length=1)
    """What `iss` must be; None = anything."""
    audience: str | None = Field(default=None, min_length=1)
    """What `aud` must be, or have; None = tokens with an audience are refused."""
    claims: dict[str, str | None] = Field(default_factory=dict)
    """What other claims must be: a text, in which `{username}` and `{client_id}` are those of CONNECT; None: a token
    that has the claim is refused."""
    leeway: FiniteDuration = 0.0
    """Seconds by which clocks may differ."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        sources = [self.key_file, self.jwks_file, self.jwks_url]
        if sum(source is not None for source in sources) != 1:
            raise ValueError("write one of key_file, jwks_file and jwks_url")
        if len({algorithm.startswith("HS") for algorithm in self.algorithms}) > 1:
            raise ValueError("write algorithms with a shared secret (HS) or others, not both")
        kinds = {_kind(algorithm): algorithm for algorithm in reversed(self.algorithms)}
        if self.key_file is not None and len(kinds) > 1:
            each = " and ".join(reversed(kinds.values()))
            raise ValueError(f"one key_file cannot serve {each}: write one of these algorithms, or jwks_file")
        for name, expected in self.claims.items():
            if (why := self._never(name, expected)) is not None:
                raise ValueError(f"claims: found {expected!r:.80} for {name!r:.80}: {why}")
            if not name or expected == "" or _BRACES.search(CLAIM_PLACEHOLDER.sub("", expected or "")):
                raise ValueError(f"claims: found {expected!r:.80} for {name!r:.80}: {_CLAIM}")
            if self.sent_as == "username" and "{username}" in (expected or ""):
                raise ValueError(f"claims: found {expected!r:.80} for {name!r:.80}: {_NO_NAME}")
        if self.jwks_url is not None and (why := refusal(self.jwks_url)):
            raise ValueError(f"jwks_url: {why}")
        return self

    def _never(self, name: str, expected: str | None) -> str | None:
        """Why no token could be accepted with this claim; None if one can."""
        if name == "exp" or (name in _TIMES and expected is not None):
            return "the broker compares this time with its clock: remove it"
        if name == self.user_claim and expected is None:
            return f"each token has the user name in it: write a text, or another user_claim than {name}"
        own = {"iss": self.issuer, "aud": self.audience}.get(name)
        if own is not None and expected != own and not CLAIM_PLACEHOLDER.search(expected or ""):
            return f"{'issuer' if name == 'iss' else 'audience'} asks for {own!r:.80}: remove one"
        if name == "aud" and own is None and expected is not None:
            return "without audience, tokens with this claim are refused: write audience too"
        return None
