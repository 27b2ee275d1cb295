"""The keys that verify tokens: in a file, or at an address from which they are fetched again and again."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

import structlog
from jwt import PyJWK, PyJWKSet, PyJWTError
from jwt.algorithms import get_default_algorithms

from broker.auth.authenticators.key_download import MOST_BYTES, download
from broker.auth.watched_file import WatchedFile
from broker.runtime.own_thread import in_own_thread
from config.tokens import Jwt
from config.urls import masked_in
from protocol.replies import shortened

KEY: Final = "authentication.jwt"

RETRY: Final = 30.0
"""Seconds after a failure until the next fetch; a token with an unknown key id leads to one, but not sooner."""

_LEAST_SECRET: Final = {"HS256": 32, "HS384": 48, "HS512": 64}
"""Bytes (RFC 7518, 3.2): a shorter secret can be guessed from one token."""

_BY_CURVE: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}


class UnknownKeyError(Exception):
    """There is no key of this id."""


class TokenKeys:
    """The keys in use."""

    def __init__(self, own: Jwt) -> None:
        """Read the file, if it is one. Raises OSError."""
        self._own = own
        self._keys: list[PyJWK] = []
        self._single: Any = None
        self._log = structlog.get_logger("sluice")
        self._fetching: asyncio.Task[None] | None = None
        self._fetched_at = float("-inf")
        self._failing = False
        self.files: list[WatchedFile[Any]] = []
        """What has to be read again when it changes."""
        self.jobs: list[Callable[[], Coroutine[Any, Any, None]]] = []
        """What has to run beside the broker."""
        if own.key_file is not None:
            self._follow("key_file", own.key_file, self._read_key, self._use_single)
        elif own.jwks_file is not None:
            self._follow("jwks_file", own.jwks_file, lambda path: self._parse(path.read_bytes()), self._use)
        else:
            self.jobs.append(self._renew)

    async def find(self, key_id: str | None) -> Any:
        """The key for a token with this `kid`. Raises UnknownKeyError."""
        if self._single is not None:
            return self._single
        key = self._named(key_id)
        if key is None and self._own.jwks_url is not None:
            await self._fetch_again()  # perhaps the key is new
            key = self._named(key_id)
        if key is None:
            if not self._keys:
                raise RuntimeError("there are no keys yet")  # nobody can be verified: that is no verdict on the token
            raise UnknownKeyError
        return key

    def _named(self, key_id: str | None) -> PyJWK | None:
        if key_id is None:  # [RFC 7515, 4.1.4]: optional
            return self._keys[0] if len(self._keys) == 1 else None
        return next((key for key in self._keys if key.key_id == key_id), None)

    def _follow(self, name: str, path: Path, load: Callable[[Path], Any], use: Callable[[Any], None]) -> None:
        file = WatchedFile({f"{KEY}.{name}": path}, partial(load, path), use)
        use(file.read())
        self.files.append(file)

    def _read_key(self, path: Path) -> Any:
        """The one key of a file. Raises OSError, ValueError; no message quotes the key."""
        content = path.read_bytes()
        first = self._own.algorithms[0]
        if first.startswith("HS"):
            secret = content.rstrip(b"\r\n")
            least = max(_LEAST_SECRET[algorithm] for algorithm in self._own.algorithms)
            if len(secret) < least:
                raise ValueError(f"a secret of {len(secret)} bytes; {least} or more are needed")
            if b"-----BEGIN" in secret:
                raise ValueError("a key in PEM form, which is no shared secret: the algorithm is not HS")
            return secret
        if b"PRIVATE KEY" in content:
            raise ValueError("a private key; the public one is enough to verify tokens")
        try:
            return get_default_algorithms()[first].prepare_key(_without_certificate(content))
        except (PyJWTError, ValueError, TypeError):
            raise ValueError(f"no public key in PEM form for {first}") from None

    def _parse(self, content: bytes) -> list[PyJWK]:
        """The keys of a set that verify one of the algorithms. Raises ValueError."""
        if len(content) > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES} bytes")
        try:
            found = PyJWKSet.from_dict(json.loads(content)).keys
        except (PyJWTError, ValueError, TypeError, AttributeError, KeyError, RecursionError, NotImplementedError):
            raise ValueError("not a set of keys (JWKS)") from None
        wanted = [key for key in found if key.public_key_use in (None, "sig") and self._accepts(key)]
        if not wanted:
            raise ValueError(f"no key in the set is for {', '.join(self._own.algorithms)}")
        return wanted

    def _accepts(self, key: PyJWK) -> bool:
        """Whether a key is of the kind of the algorithms: a public key is never a shared secret."""
        return any(type(key.Algorithm) is type(get_default_algorithms()[each]) for each in self._own.algorithms)

    def _use(self, keys: list[PyJWK]) -> None:
        self._keys = keys

    def _use_single(self, key: Any) -> None:
        self._single = key

    # -- at an address

    async def _renew(self) -> None:
        """Fetch the keys again and again, until cancelled."""
        try:
            while True:
                await self._fetch_now()
                await asyncio.sleep(RETRY if self._failing else self._own.refresh)
        finally:
            if self._fetching is not None:
                self._fetching.cancel()

    async def _fetch_again(self) -> None:
        """Fetch the keys, unless that was a moment ago."""
        if asyncio.get_running_loop().time() >= self._fetched_at + RETRY or self._fetching is not None:
            await self._fetch_now()

    async def _fetch_now(self) -> None:
        """Fetch the keys; whoever asks meanwhile waits for the same answer. Those in use stay if that fails."""
        if self._fetching is None:
            self._fetching = asyncio.get_running_loop().create_task(self._fetch())
        await asyncio.shield(self._fetching)

    async def _fetch(self) -> None:
        self._fetched_at = asyncio.get_running_loop().time()
        try:
            content = await download(self._own)
            self._use(await in_own_thread(lambda: self._parse(content), "keys"))
        except (OSError, ValueError, HTTPException) as error:  # URLError and TimeoutError are OSErrors
            if not self._failing:
                self._failing = True
                detail = shortened(masked_in(str(error), str(self._own.jwks_url))) or type(error).__name__
                self._log.error("keys_not_fetched", key=f"{KEY}.jwks_url", detail=detail)
        else:
            if self._failing:
                self._log.info("keys_fetched", key=f"{KEY}.jwks_url")
            self._failing = False
        finally:
            self._fetching = None


def _without_certificate(content: bytes) -> bytes:
    """The public key of a certificate; what is none stays as it is. Raises ValueError."""
    if b"-----BEGIN CERTIFICATE" not in content:
        return content
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
    from cryptography.x509 import load_pem_x509_certificate

    public = load_pem_x509_certificate(content).public_key()
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def algorithms_of(path: Path) -> list[str]:
    """The algorithms of tokens that the public key in this file verifies. Raises OSError, ValueError."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(_without_certificate(path.read_bytes()))
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError("no public key or certificate in PEM form") from None
    if isinstance(key, rsa.RSAPublicKey):
        return [f"{family}{bits}" for family in ("RS", "PS") for bits in (256, 384, 512)]
    if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in _BY_CURVE:
        return [_BY_CURVE[key.curve.name]]
    if isinstance(key, ed25519.Ed25519PublicKey):
        return ["EdDSA"]
    raise ValueError("no key of RSA, of the curves P-256, P-384 and P-521, or of Ed25519")
