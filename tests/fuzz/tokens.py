"""Tokens (JWT) as targets, and the sets of keys that verify them.

An input of a token is text: its header, its claims and who signs it, a line each; or a token as it is, if that is less.
"""

import hashlib
import hmac
import json
import tempfile
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from broker.auth.authenticators.authenticator import Login, No
from broker.auth.authenticators.hashing import HashingPool
from broker.auth.authenticators.token import MOST_ROLES, TokenAuthenticator
from broker.auth.authenticators.token_keys import TokenKeys, UnknownKeyError
from broker.auth.identity import Identity
from config.tokens import Jwt
from tests.fuzz.raw import Raw, check_message

T = TypeVar("T")

PRIVATE: Final = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
PUBLIC: Final = PRIVATE.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
SECRET: Final = b"s" * 64
FAR: Final = 4_102_444_800
"""2100-01-01, in seconds since 1970."""


def encoded(data: bytes) -> bytes:
    """Base64 as in tokens."""
    return urlsafe_b64encode(data).rstrip(b"=")


def key_set() -> dict[str, Any]:
    """A set of one public key."""
    key = {"kty": "OKP", "crv": "Ed25519", "x": encoded(PUBLIC).decode(), "kid": "e", "alg": "EdDSA", "use": "sig"}
    return {"keys": [key]}


class AtOnce:
    """In place of the threads: an input is over when `check` returns."""

    async def run(self, job: Callable[[], T], _: bytes) -> T:
        """Run the job."""
        return job()


class Token(Raw):
    """An identity only for a token that the right key has signed and that has not expired; never an exception."""

    name = "token"
    most_bytes = 20_000
    parts = (
        b'{"alg": "EdDSA", "kid": "e"}\n',
        b'{"alg": "HS256"}\n',
        b'{"alg": "none"}\n',
        b'{"typ": "JWT", "alg": "EdDSA", "crit": ["b64"], "b64": false}\n',
        b'{"sub": "ann", "exp": 4102444800}\n',
        b'"exp": ',
        b'"nbf": ',
        b'"iat": 1, ',
        b'"aud": ["mqtt"], ',
        b'"realm": {"roles": ["ops", "\\ud800", "a\\nb", 1]}, ',
        b'"sub": null, ',
        b"1e400",
        b"NaN",
        b"-Infinity",
        b"9" * 400,
        b"[" * 2_000,
        b'{"a":' * 2_000,
        b"key\n",
        b"public\n",
        b"secret\n",
        b".",
        b"eyJ",
    )

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="sluice-fuzz-")
        folder = Path(self._folder.name)
        (folder / "keys").write_text(json.dumps(key_set()))
        (folder / "secret").write_bytes(SECRET)
        settings = (
            Jwt(algorithms=["EdDSA"], jwks_file=folder / "keys", roles_claim="realm.roles"),
            Jwt(algorithms=["HS256", "HS384"], key_file=folder / "secret", sent_as="username", leeway=1.0),
        )
        pool = cast("HashingPool", AtOnce())
        self._asked = [(own, TokenAuthenticator(own, TokenKeys(own), pool)) for own in settings]

    def check(self, data: bytes) -> None:
        """Log in with the token as password, and as user name, with keys of two kinds."""
        token, signed_by = made(data)
        for own, authenticator in self._asked:
            answer = over(authenticator.authenticate(_login(own, token)))
            if not isinstance(answer, Identity):
                assert isinstance(answer, No)
                continue
            right = {"password": ("key",), "username": ("secret", "secret384")}[own.sent_as]
            assert signed_by in right, "nobody who may has signed it"
            claims = json.loads(data.split(b"\n")[1])
            assert answer.user == claims["sub"]
            assert answer.user.isprintable()
            assert answer.expires_at > 0
            assert len(answer.roles) <= MOST_ROLES
            assert all(role.isprintable() for role in answer.roles)

    def trace(self, data: bytes) -> Iterator[str]:
        """Tell the token, and what the authenticators answer."""
        token, signed_by = made(data)
        yield f"{token!r}, signed by {signed_by or 'nobody'}"
        for own, authenticator in self._asked:
            yield f"{own.algorithms}: {over(authenticator.authenticate(_login(own, token)))}"
        self.check(data)


class KeySet(Raw):
    """Keys that verify something, or ValueError; looking for one of them never fails otherwise."""

    name = "keys"
    parts = (
        b'{"keys": [',
        b'{"kty": "RSA", "n": "AQAB", "e": "AQAB"}',
        b'{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}',
        b'{"kty": "oct", "k": "c2VjcmV0", "alg": "HS256"}',
        b'"kid": ["e"], ',
        b'"use": 1, ',
        b'"alg": "none", ',
        b'"x": "\xff", ',
        b"null",
        b"[" * 2_000,
        b"]}",
        b"9" * 5_000,
    )

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="sluice-fuzz-")
        self._path = Path(self._folder.name) / "keys"

    def check(self, data: bytes) -> None:
        """Read the keys of two kinds."""
        self._path.write_bytes(data)
        for own in (
            Jwt(algorithms=["EdDSA", "RS256", "ES256"], jwks_file=self._path),
            Jwt(algorithms=["HS256"], jwks_file=self._path),
        ):
            try:
                keys = TokenKeys(own)
            except OSError as error:
                check_message(error)
                continue
            for key_id in (None, "e", ""):
                try:
                    over(keys.find(key_id))
                except UnknownKeyError:
                    pass


def made(data: bytes) -> tuple[bytes, str]:
    """The token of an input, and who has signed it."""
    lines = data.split(b"\n")
    if len(lines) < 3:
        return data, ""
    text = encoded(lines[0]) + b"." + encoded(lines[1])
    signed_by = lines[2].decode(errors="replace")
    if signed_by == "key":
        signature = PRIVATE.sign(text)
    elif signed_by in ("secret", "secret384", "public"):
        kind = hashlib.sha384 if signed_by.endswith("384") else hashlib.sha256
        signature = hmac.digest(PUBLIC if signed_by == "public" else SECRET, text, kind)
    else:
        signature = lines[2]
    return text + b"." + encoded(signature), signed_by


def _login(own: Jwt, token: bytes) -> Login:
    return Login("", token) if own.sent_as == "password" else Login(token.decode(errors="replace"), None)


def over(coroutine: Any) -> Any:
    """What a coroutine returns that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("it waits for something")
