"""A client of SCRAM-SHA-256 (RFC 7677) at the level of AUTH packets, and the broker's settings for its user."""

from base64 import b64encode
from typing import Any, Final

from scramp import ScramClient, ScramMechanism

from protocol import properties as props
from protocol.auth import Auth
from protocol.properties import Properties
from tests.support.wire import WireClient

METHOD: Final = "SCRAM-SHA-256"
USER: Final = "user"
PASSWORD: Final = "pencil"
ITERATIONS: Final = 4096

CONTINUE: Final = 0x18
REAUTHENTICATE: Final = 0x19


def settings(*, user: str = USER, password: str = PASSWORD) -> dict[str, Any]:
    """Return the section `authentication` of a broker that knows one user."""
    salt, stored_key, server_key, iterations = ScramMechanism(METHOD).make_auth_info(
        password, iteration_count=ITERATIONS
    )
    known = {
        "username": user,
        "salt": _text(salt),
        "iterations": iterations,
        "stored_key": _text(stored_key),
        "server_key": _text(server_key),
    }
    return {"scram": [known]}


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def with_data(data: str | bytes | None, method: str = METHOD) -> Properties:
    """Return the properties of CONNECT or AUTH for this step."""
    found: Properties = {props.AUTHENTICATION_METHOD: method}
    if data is not None:
        found[props.AUTHENTICATION_DATA] = data.encode() if isinstance(data, str) else data
    return found


def data_of(properties: Properties | None) -> str:
    """Return the Authentication Data as text, the form that SCRAM has."""
    data = (properties or {})[props.AUTHENTICATION_DATA]
    assert isinstance(data, bytes)
    return data.decode()


class Scram:
    """One exchange. The steps are RFC 5802's: client-first, server-first, client-final, server-final."""

    def __init__(self, user: str = USER, password: str = PASSWORD) -> None:
        self._client = ScramClient([METHOD], user, password)

    def first(self) -> Properties:
        """Return the client-first message, for CONNECT or AUTH."""
        return with_data(self._client.get_client_first())

    def final(self, challenge: Properties | None) -> Properties:
        """Return the answer to the server-first message."""
        self._client.set_server_first(data_of(challenge))
        return with_data(self._client.get_client_final())

    def check(self, outcome: Properties | None) -> None:
        """Raise unless the server has proved that it knows the user's key."""
        self._client.set_server_final(data_of(outcome))

    def answer(self, client: WireClient) -> Auth:
        """Receive the server-first message and answer it; returns the message."""
        challenge = client.expect(Auth)
        client.send(Auth(CONTINUE, self.final(challenge.properties)))
        return challenge
