"""Client ids: which ones are accepted, CONNECT without one, and one that is in use (sections 3.1.3.1, 3.1.4)."""

import string

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.connack import Connack
from protocol.disconnect import Disconnect
from protocol.publish import Publish
from tests.conformance.configured import Configured
from tests.conformance.connecting import connect, refused
from tests.conformance.delivery import messages, unique
from tests.conformance.sessions import KeptSession
from tests.support.process import Address
from tests.support.wire import WireClient, connected

ALPHABET = string.digits + string.ascii_lowercase + string.ascii_uppercase


@pytest.mark.parametrize("client_id", [ALPHABET[at : at + 23] for at in range(0, 62, 23)] + ["0", "Zz", "a" * 23])
def test_client_ids_for_everyone(address: Address, version: int, client_id: str) -> None:
    """Every server accepts client ids of one to twenty-three letters and digits."""
    with WireClient(address, version) as client:
        assert client.connect(client_id).reason_code == 0
        client.disconnect()


def empty(address: Address, version: int) -> WireClient | None:
    """A client without a client id; None if the server refuses such clients, as it may."""
    client = WireClient(address, version)
    connack = client.connect("")
    if connack.reason_code == 0:
        return client
    code = reason_codes.CLIENT_IDENTIFIER_NOT_VALID if version == 5 else 2
    assert connack.reason_code == code
    assert client.expect_close() is None
    client.close()
    return None


def assigned(connack: Connack) -> str:
    """The client id that CONNACK assigns."""
    found = (connack.properties or {})[props.ASSIGNED_CLIENT_IDENTIFIER]
    assert isinstance(found, str)
    return found


def test_no_client_id(address: Address, version: int) -> None:
    """Clients without a client id are different clients: none takes over the connection or subscriptions of another."""
    topic = unique("topic")
    one, other = empty(address, version), empty(address, version)
    if one is None or other is None:
        assert one is other
        return
    with one, other:
        one.subscribe(topic)
        other.publish(topic, b"x")
        assert one.expect(Publish).payload == b"x"
        assert messages(other, one) == []


def test_assigned(address: Address) -> None:
    """CONNACK assigns a client id to a client without one; with this client id the client can resume its session."""
    with WireClient(address, 5) as client:
        connack = client.connect("", properties={props.SESSION_EXPIRY_INTERVAL: 60})
        if connack.reason_code == reason_codes.CLIENT_IDENTIFIER_NOT_VALID:
            return
        name = assigned(connack)
        assert name
        client.disconnect()
    with WireClient(address, 5) as client:
        assert client.connect(name, clean_start=False).session_present
        client.disconnect()


def test_assigned_is_new(address: Address) -> None:
    """Assigned client ids differ from each other, and from those of existing sessions."""
    with connected(address, 5, client_id=unique("c")):
        clients = [WireClient(address, 5) for _ in range(20)]
        answers = [client.connect("", clean_start=False) for client in clients]
        for client in clients:
            client.close()
    if answers[0].reason_code == 0:
        assert len({assigned(connack) for connack in answers}) == len(answers)
        assert not any(connack.session_present for connack in answers)


def test_none_assigned(address: Address) -> None:
    """A client that has a client id is not assigned another."""
    with WireClient(address, 5) as client:
        connack = client.connect(unique("c"))
        assert props.ASSIGNED_CLIENT_IDENTIFIER not in (connack.properties or {})


def test_no_client_id_for_a_session(address: Address) -> None:
    """In 3.1.1 a client without a client id that asks for a kept session is refused with return code 2."""
    with WireClient(address, 4) as client:
        connack = refused(client, connect(4, "", flags=0))
        assert connack is not None
        assert connack.reason_code == 2


def test_client_id_is_refused(configured: Configured, version: int) -> None:
    """A client id that the server does not accept, here a long one, is refused with 2, in MQTT 5 with 0x85."""
    address = configured(mqtt={"max_clientid_len": 23})
    with WireClient(address, version) as client:
        connack = refused(client, connect(version, "a" * 24))
        assert connack is not None
        assert connack.reason_code == (reason_codes.CLIENT_IDENTIFIER_NOT_VALID if version == 5 else 2)


@pytest.mark.parametrize("newer", [4, 5], ids=["by 3.1.1", "by 5.0"])
@pytest.mark.parametrize("clean_start", [False, True])
def test_taken_over(address: Address, version: int, newer: int, clean_start: bool) -> None:
    """When a client id connects that is in use, the older connection is closed, in MQTT 5 with 0x8E."""
    name = unique("c")
    with connected(address, version, client_id=name) as older, WireClient(address, newer) as client:
        assert client.connect(name, clean_start=clean_start).reason_code == 0
        last = older.expect_close()
        if version == 5:
            assert isinstance(last, Disconnect)
            assert last.reason_code == reason_codes.SESSION_TAKEN_OVER
        else:
            assert last is None
        client.expect_nothing_more()


def test_state_goes_to_who_takes_over(address: Address, version: int) -> None:
    """After a take-over the session continues with the newer connection."""
    topic = unique("topic")
    with KeptSession(address, version) as session, connected(address, version) as publisher:
        older = session.connect()
        older.subscribe(topic)
        newer = session.connect()
        older.expect_close()
        publisher.publish(topic, b"x")
        assert newer.expect(Publish).payload == b"x"
