"""Brokers with users, and clients that authenticate."""

from typing import Any, Final

from protocol import properties as props
from protocol import reason_codes
from protocol.auth import Auth
from protocol.connack import Connack
from protocol.connect import Connect, Will
from protocol.disconnect import Disconnect
from protocol.properties import Properties
from tests.conformance.scram import CONTINUE, REAUTHENTICATE, USER, Scram, settings
from tests.support.broker.logins import NO_LIMITS
from tests.support.process import Address
from tests.support.wire import WireClient

OTHER_USER: Final = "ben"
GUARDED: Final[dict[str, Any]] = {
    "allow_anonymous": None,
    "authentication": {"scram": [*settings()["scram"], *settings(user=OTHER_USER)["scram"]], **NO_LIMITS},
}
"""The sections of a configuration with two users, who have the same password."""


def ask(client: WireClient, scram: Scram, client_id: str = "", *, will: Will | None = None, **more: int) -> None:
    """Begin with CONNECT; `more` are further properties, by their names in small letters."""
    properties: Properties = {**scram.first(), **{getattr(props, name.upper()): more[name] for name in more}}
    client.send(Connect(client_id, True, 0, will=will, properties=properties, version=5))


def answer(client: WireClient, scram: Scram) -> None:
    """Answer the challenge, which has to come next."""
    challenge = client.expect(Auth)
    assert challenge.reason_code == CONTINUE
    client.send(Auth(CONTINUE, scram.final(challenge.properties)))


def authenticated(address: Address, client_id: str = "", user: str = USER, will: Will | None = None) -> WireClient:
    """A client that has been let in as this user."""
    client = WireClient(address, 5)
    scram = Scram(user)
    ask(client, scram, client_id, will=will)
    answer(client, scram)
    connack = client.expect(Connack)
    assert connack.reason_code == reason_codes.SUCCESS, connack
    scram.check(connack.properties)
    return client


def reauthenticate(client: WireClient) -> None:
    """Authenticate again, with nothing else on the way."""
    scram = Scram()
    client.send(Auth(REAUTHENTICATE, scram.first()))
    answer(client, scram)
    outcome = client.expect(Auth)
    assert outcome.reason_code == reason_codes.SUCCESS
    scram.check(outcome.properties)


def expect_refusal(client: WireClient, reason_code: int) -> Connack:
    """The next packet is a CONNACK with this code, and the last."""
    connack = client.expect(Connack)
    assert (connack.reason_code, connack.session_present) == (reason_code, False)
    assert client.expect_close() is None
    return connack


def expect_disconnect(client: WireClient, reason_code: int) -> None:
    """The next packet is a DISCONNECT with this code, and the last."""
    assert client.expect(Disconnect).reason_code == reason_code
    assert client.expect_close() is None
