"""The one user of SCRAM-SHA-256 that some of the fuzzed brokers know, and its client's side of the exchange."""

from base64 import b64encode
from functools import cache
from typing import Any, Final

from scramp import ScramClient, ScramException, ScramMechanism

METHOD: Final = "SCRAM-SHA-256"
ITERATIONS: Final = 4096
SALT: Final = bytes(16)
NONCE: Final = "always-the-same"
"""The client's, so that an input does the same each time."""


def _client() -> Any:
    return ScramClient([METHOD], "user", "pencil", c_nonce=NONCE)


CLIENT_FIRST: Final[bytes] = _client().get_client_first().encode()


def client_final(server_first: bytes) -> bytes | None:
    """Return what an honest client answers; None if this is no answer to CLIENT_FIRST."""
    client = _client()
    client.get_client_first()
    try:
        client.set_server_first(server_first.decode())
        answer: str = client.get_client_final()
    except (ScramException, ValueError):
        return None
    return answer.encode()


@cache
def settings() -> dict[str, Any]:
    """Return the section `authentication` of a broker that knows the user."""
    salt, stored_key, server_key, iterations = ScramMechanism(METHOD).make_auth_info(
        "pencil", iteration_count=ITERATIONS, salt=SALT
    )
    texts = {"salt": salt, "stored_key": stored_key, "server_key": server_key}
    user: dict[str, Any] = {key: b64encode(value).decode() for key, value in texts.items()}
    return {"scram": [user | {"username": "user", "iterations": iterations}]}
