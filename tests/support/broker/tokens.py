"""Keys and tokens (JWT) of every kind, and an address that serves keys."""

import json
import time
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import get_default_algorithms

from tests.support.broker.serving import serving

SECRET = b"s" * 64


def make_key(algorithm: str) -> Any:
    """A private key."""
    if algorithm.startswith("HS"):
        return SECRET
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    if algorithm.startswith("ES"):
        return ec.generate_private_key(ec.SECP256R1())
    return rsa.generate_private_key(65_537, 2_048)


def public(key: Any, path: Path) -> Path:
    """Write what verifies the tokens of a key."""
    if isinstance(key, bytes):
        path.write_bytes(key + b"\n")
    else:
        path.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return path


def token(key: Any, algorithm: str, key_id: str | None = None, seconds: float = 300, **claims: Any) -> str:
    """A token for ann that lasts so many seconds; a claim that is None is left out."""
    body = {"sub": "ann", "exp": time.time() + seconds, **claims}
    chosen = {name: value for name, value in body.items() if value is not None}
    return jwt.encode(chosen, key, algorithm, headers=None if key_id is None else {"kid": key_id})


def key_set(**keys: tuple[Any, str]) -> dict[str, Any]:
    """A set of public keys by id, each with its algorithm."""
    listed = []
    for key_id, (key, algorithm) in keys.items():
        own = get_default_algorithms()[algorithm]
        text = own.to_jwk(key if isinstance(key, bytes) else key.public_key())
        listed.append({**json.loads(text), "kid": key_id, "alg": algorithm, "use": "sig"})
    return {"keys": listed}


class KeyServer(ThreadingHTTPServer):
    """Serves what `answer` is."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer: tuple[int, bytes] = (503, b"")
        self.location = ""
        self.raw = b""
        """What it sends in place of an answer."""
        self.asked = 0

    @property
    def url(self) -> str:
        """Where."""
        return f"http://127.0.0.1:{self.server_address[1]}/keys"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, KeyServer)
        self.server.asked += 1
        if self.server.raw:
            self.wfile.write(self.server.raw)
            self.close_connection = True
            return
        code, body = self.server.answer
        self.send_response(code)
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def key_server() -> AbstractContextManager[KeyServer]:
    """An address that serves keys."""
    return serving(KeyServer())
