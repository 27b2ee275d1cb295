"""Enhanced authentication (section 4.12 of 5.0), with SCRAM-SHA-256 where a method is needed."""

from collections.abc import Callable, Iterator

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.auth import Auth
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.disconnect import Disconnect
from protocol.packet import Packet
from protocol.ping import Pingreq, Pingresp
from protocol.properties import Properties
from protocol.subscribe import Subscription
from tests.conformance.delivery import REFUSED, subscribe, unique
from tests.conformance.scram import CONTINUE, METHOD, REAUTHENTICATE, Scram, settings, with_data
from tests.support.brokers import start_sluice
from tests.support.process import Address
from tests.support.wire import WireClient


@pytest.fixture(scope="module")
def scram_address(given: Address | None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """A broker that knows one user of SCRAM-SHA-256; all tests here share it."""
    if given:
        pytest.skip("needs settings of its own")
    with start_sluice(tmp_path_factory.mktemp("scram"), sections={"authentication": settings()}) as broker:
        yield broker.address()


def begin(client: WireClient, properties: Properties) -> None:
    """Send a CONNECT that asks for enhanced authentication."""
    client.send(Connect(unique("client"), True, 0, properties=properties, version=5))


def authenticate(client: WireClient) -> Connack:
    """Carry out a complete exchange."""
    scram = Scram()
    begin(client, scram.first())
    scram.answer(client)
    connack = client.expect(Connack)
    assert connack.reason_code == reason_codes.SUCCESS
    scram.check(connack.properties)
    return connack


def reauthenticate(client: WireClient) -> Auth:
    """Carry out another complete exchange; returns the AUTH that ends it."""
    scram = Scram()
    client.send(Auth(REAUTHENTICATE, scram.first()))
    scram.answer(client)
    outcome = client.expect(Auth)
    assert outcome.reason_code == reason_codes.SUCCESS
    scram.check(outcome.properties)
    return outcome


def method(properties: Properties | None) -> object:
    """The Authentication Method, if there is one."""
    return (properties or {}).get(props.AUTHENTICATION_METHOD)


def check_refused(client: WireClient, codes: set[int] | None = None) -> None:
    """The next packet is a CONNACK that refuses with one of these codes, or there is none; then the server closes."""
    try:
        packet = client.receive()
    except ConnectionError:
        return
    assert isinstance(packet, Connack)
    assert packet.reason_code >= REFUSED
    assert codes is None or packet.reason_code in codes
    assert client.expect_close() is None


def check_disconnected(client: WireClient, codes: set[int]) -> None:
    """Before the close there is nothing, or a DISCONNECT with one of these codes."""
    last = client.expect_close()
    assert last is None or (isinstance(last, Disconnect) and last.reason_code in codes), last


# -- no method, or an unknown one


@pytest.mark.parametrize("data", [None, b"", b"anything"])
def test_unknown_method(address: Address, data: bytes | None) -> None:
    """A client that requests a method that the server does not have is refused."""
    with WireClient(address, 5) as client:
        begin(client, with_data(data, "no such method"))
        check_refused(client, {reason_codes.BAD_AUTHENTICATION_METHOD, reason_codes.NOT_AUTHORIZED})


@pytest.mark.parametrize("name", ["SCRAM-SHA-1", "scram-sha-256", "SCRAM-SHA-256-PLUS", "PLAIN", ""])
def test_unknown_method_where_there_is_one(scram_address: Address, name: str) -> None:
    """The name of a method has to match exactly [MQTT-4.12.0-1]."""
    with WireClient(scram_address, 5) as client:
        begin(client, with_data(b"n,,n=user,r=nonce", name))
        check_refused(client, {reason_codes.BAD_AUTHENTICATION_METHOD, reason_codes.NOT_AUTHORIZED})


def _connect_without_method(address: Address) -> None:
    with WireClient(address, 5) as client:
        client.send(Connect(unique("client"), True, 0, version=5))
        connack = client.expect(Connack)
        assert method(connack.properties) is None
        if connack.reason_code == reason_codes.SUCCESS:
            client.send(Pingreq())
            client.expect(Pingresp)


def test_no_method(address: Address) -> None:
    """A client without a method gets its CONNACK at once, without a method."""
    _connect_without_method(address)


def test_no_method_where_there_is_one(scram_address: Address) -> None:
    """A server that has a method accepts clients without one as before."""
    _connect_without_method(scram_address)


@pytest.mark.parametrize("code", [CONTINUE, REAUTHENTICATE])
def test_auth_out_of_the_blue(address: Address, code: int) -> None:
    """AUTH from a client that connected without a method closes the connection."""
    with WireClient(address, 5) as client:
        client.connect()
        client.send(Auth(code, with_data(b"x")))
        check_disconnected(client, {reason_codes.PROTOCOL_ERROR, reason_codes.BAD_AUTHENTICATION_METHOD})


def test_auth_first(address: Address) -> None:
    """AUTH before CONNECT closes the connection without an answer [MQTT-3.1.0-1]."""
    with WireClient(address, 5) as client:
        client.send(Auth(CONTINUE, with_data(b"x")))
        assert client.expect_close() is None


# -- the exchange


def test_exchange(scram_address: Address) -> None:
    """The server sends AUTH 0x18, the client AUTH 0x18, the server CONNACK; each names the method, and has its data."""
    with WireClient(scram_address, 5) as client:
        scram = Scram()
        begin(client, scram.first())
        challenge = scram.answer(client)
        assert (challenge.reason_code, method(challenge.properties)) == (CONTINUE, METHOD)
        connack = client.expect(Connack)
        assert (connack.reason_code, method(connack.properties)) == (reason_codes.SUCCESS, METHOD)
        scram.check(connack.properties)


def test_authenticated_client_is_served(scram_address: Address) -> None:
    """After the exchange the client can publish and subscribe as usual."""
    topic = unique("served")
    with WireClient(scram_address, 5) as client:
        authenticate(client)
        subscribe(client, Subscription(topic))
        client.publish(topic, b"x")
        assert client.receive_message().payload == b"x"


def test_wrong_password(scram_address: Address) -> None:
    """A proof made with another password is refused."""
    with WireClient(scram_address, 5) as client:
        scram = Scram(password="pen")
        begin(client, scram.first())
        scram.answer(client)
        check_refused(client, {reason_codes.NOT_AUTHORIZED, reason_codes.BAD_USER_NAME_OR_PASSWORD})


def test_unknown_user(scram_address: Address) -> None:
    """A user whom the server does not know is refused, at either step."""
    with WireClient(scram_address, 5) as client:
        scram = Scram(user="nobody")
        begin(client, scram.first())
        packet = client.receive()
        if isinstance(packet, Auth):
            client.send(Auth(CONTINUE, scram.final(packet.properties)))
            packet = client.receive()
        assert isinstance(packet, Connack)
        assert packet.reason_code in (reason_codes.NOT_AUTHORIZED, reason_codes.BAD_USER_NAME_OR_PASSWORD)
        assert client.expect_close() is None


@pytest.mark.parametrize(
    "data", [b"", b"nonsense", b"\xff\xfe", b"n,,", b"n,,n=user", b"n,,r=nonce", b"p=tls-unique,,n=user,r=nonce"]
)
def test_nonsense(scram_address: Address, data: bytes) -> None:
    """Data that are no client-first message are refused."""
    with WireClient(scram_address, 5) as client:
        begin(client, with_data(data))
        check_refused(client)


@pytest.mark.parametrize("data", [None, b"", b"c=biws", b"c=biws,r=other,p=AAAA", b"\xff"])
def test_nonsense_at_the_end(scram_address: Address, data: bytes | None) -> None:
    """Data that are no client-final message are refused [MQTT-4.12.0-4]."""
    with WireClient(scram_address, 5) as client:
        begin(client, Scram().first())
        client.expect(Auth)
        client.send(Auth(CONTINUE, with_data(data)))
        check_refused(client)


def _after_challenge(address: Address, packet: Callable[[Properties], Packet]) -> None:
    """Answer the challenge correctly, but in a wrong packet."""
    with WireClient(address, 5) as client:
        scram = Scram()
        begin(client, scram.first())
        challenge = client.expect(Auth)
        client.send(packet(scram.final(challenge.properties)))
        check_refused(client)


@pytest.mark.parametrize("code", [reason_codes.SUCCESS, REAUTHENTICATE])
def test_answer_with_another_reason_code(scram_address: Address, code: int) -> None:
    """A correct answer with a wrong reason code is not accepted."""
    _after_challenge(scram_address, lambda proof: Auth(code, proof))


def test_answer_with_another_method(scram_address: Address) -> None:
    """A correct answer with another method is not accepted."""
    _after_challenge(
        scram_address, lambda proof: Auth(CONTINUE, proof | {props.AUTHENTICATION_METHOD: "SCRAM-SHA-512"})
    )


def test_other_packets_before_the_end(scram_address: Address) -> None:
    """Before CONNACK the server accepts only AUTH and DISCONNECT [MQTT-3.1.2-30]."""
    _after_challenge(scram_address, lambda _: Pingreq())


def test_leaving_before_the_end(scram_address: Address) -> None:
    """The client may disconnect in the middle of the exchange."""
    with WireClient(scram_address, 5) as client:
        begin(client, Scram().first())
        client.expect(Auth)
        client.send(Disconnect())
        assert client.expect_close() is None


def test_proof_is_good_once(scram_address: Address) -> None:
    """Messages of one exchange cannot be replayed in another: the server's nonce is new each time."""
    with WireClient(scram_address, 5) as client, WireClient(scram_address, 5) as thief:
        scram = Scram()
        first = scram.first()
        begin(client, first)
        proof = scram.final(client.expect(Auth).properties)
        client.send(Auth(CONTINUE, proof))
        assert client.expect(Connack).reason_code == reason_codes.SUCCESS
        begin(thief, first)
        thief.expect(Auth)
        thief.send(Auth(CONTINUE, proof))
        check_refused(thief)


# -- re-authentication


def test_reauthentication(scram_address: Address) -> None:
    """AUTH 0x19 begins another exchange, which AUTH 0x00 ends; each packet names the method."""
    with WireClient(scram_address, 5) as client:
        authenticate(client)
        for _ in range(2):
            scram = Scram()
            client.send(Auth(REAUTHENTICATE, scram.first()))
            challenge = scram.answer(client)
            assert (challenge.reason_code, method(challenge.properties)) == (CONTINUE, METHOD)
            outcome = client.expect(Auth)
            assert (outcome.reason_code, method(outcome.properties)) == (reason_codes.SUCCESS, METHOD)
            scram.check(outcome.properties)


def test_messages_during_reauthentication(scram_address: Address) -> None:
    """Other packets are handled during re-authentication and after it [MQTT5 4.12.1]."""
    topic = unique("during")
    with WireClient(scram_address, 5) as client:
        authenticate(client)
        subscribe(client, Subscription(topic, 1))
        scram = Scram()
        client.send(Auth(REAUTHENTICATE, scram.first()))
        challenge = client.expect(Auth)
        client.publish(topic, b"during")
        assert client.receive_message().payload == b"during"
        client.send(Auth(CONTINUE, scram.final(challenge.properties)))
        assert client.expect(Auth).reason_code == reason_codes.SUCCESS
        client.publish(topic, b"after")
        assert client.receive_message().payload == b"after"


def test_failed_reauthentication(scram_address: Address) -> None:
    """A wrong proof in re-authentication closes the connection."""
    with WireClient(scram_address, 5) as client:
        authenticate(client)
        scram = Scram(password="pen")
        client.send(Auth(REAUTHENTICATE, scram.first()))
        scram.answer(client)
        check_disconnected(client, {reason_codes.NOT_AUTHORIZED, reason_codes.UNSPECIFIED_ERROR})


def test_reauthentication_with_another_method(scram_address: Address) -> None:
    """Re-authentication with another method than in CONNECT closes the connection."""
    with WireClient(scram_address, 5) as client:
        authenticate(client)
        other = Scram().first() | {props.AUTHENTICATION_METHOD: "SCRAM-SHA-1"}
        client.send(Auth(REAUTHENTICATE, other))
        check_disconnected(client, {reason_codes.PROTOCOL_ERROR, reason_codes.BAD_AUTHENTICATION_METHOD})


def test_continuing_without_a_beginning(scram_address: Address) -> None:
    """AUTH 0x18 without a running exchange closes the connection [MQTT5 3.15.2.1]."""
    with WireClient(scram_address, 5) as client:
        authenticate(client)
        client.send(Auth(CONTINUE, Scram().first()))
        check_disconnected(client, {reason_codes.PROTOCOL_ERROR})
