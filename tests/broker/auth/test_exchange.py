"""Re-authentication over sockets: AUTH from a connected client, beside other traffic."""

from collections.abc import Iterator

import pytest

from config.models import Config
from protocol import properties as props
from protocol import reason_codes
from protocol.acknowledgements import Puback
from protocol.auth import Auth
from protocol.connack import Connack
from protocol.connect import Connect, Will
from protocol.disconnect import Disconnect
from protocol.ping import Pingreq, Pingresp
from protocol.publish import Publish, encode_publish
from tests.conformance.scram import CONTINUE, METHOD, REAUTHENTICATE, Scram, data_of, with_data
from tests.support.broker.guarded import (
    GUARDED,
    OTHER_USER,
    answer,
    ask,
    authenticated,
    expect_disconnect,
    reauthenticate,
)
from tests.support.broker.local import LocalBroker, LocalClient
from tests.support.brokers import start_sluice
from tests.support.process import Address
from tests.support.wire import WireClient, connected

MESSAGES = 400
"""Enough for several exchanges to begin and end among them."""
BATCH = 20
"""Messages that are sent before the next exchange begins, if none is under way; fewer than receive_maximum."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """A broker with users that lets in others too."""
    sections = {**GUARDED, "allow_anonymous": True}
    with start_sluice(tmp_path_factory.mktemp("again"), sections=sections) as running:
        yield running.address()


def test_again_and_again(address: Address) -> None:
    """A client may re-authenticate repeatedly; its session continues."""
    with authenticated(address) as client:
        client.subscribe("again")
        for _ in range(3):
            reauthenticate(client)
        client.publish("again", b"x")
        assert client.receive_message().payload == b"x"


def test_under_traffic(address: Address) -> None:
    """Messages are delivered in order while exchanges begin, continue and end among them [MQTT5 4.12.1]."""
    received: list[bytes] = []
    exchanges = 0
    scram: Scram | None = None
    with authenticated(address) as client:
        client.subscribe("traffic", qos=1)
        for start in range(0, MESSAGES, BATCH):
            packets = [
                encode_publish(b"traffic", b"%d" % number, 1, False, False, 1 + number % BATCH, None, 5)
                for number in range(start, start + BATCH)
            ]
            if scram is None:
                scram = Scram()
                packets.insert(BATCH // 2, Auth(REAUTHENTICATE, scram.first()).encode(5))
            client.send(*packets)
            acknowledged = 0
            while len(received) < start + BATCH or acknowledged < BATCH:
                packet = client.receive()
                if isinstance(packet, Puback):
                    acknowledged += 1
                elif isinstance(packet, Publish):
                    received.append(packet.payload)
                    client.send(Puback(packet.packet_id))
                elif scram is not None and isinstance(packet, Auth) and packet.reason_code == CONTINUE:
                    client.send(Auth(CONTINUE, scram.final(packet.properties)))
                elif scram is not None and isinstance(packet, Auth):
                    scram.check(packet.properties)
                    exchanges += 1
                    scram = None
    assert received == [b"%d" % number for number in range(MESSAGES)]
    assert exchanges >= MESSAGES // BATCH // 2 - 1


def test_in_the_middle(address: Address) -> None:
    """Between the steps of an exchange the broker serves the client and others as usual, without a time limit."""
    with authenticated(address) as client, connected(address, 5) as other:
        client.subscribe("middle", qos=2)
        scram = Scram()
        client.send(Auth(REAUTHENTICATE, scram.first()))
        challenge = client.expect(Auth)
        for _ in range(3):
            other.publish("middle", b"x", 2)
            assert client.receive_message().payload == b"x"
            client.publish("elsewhere", b"x", 2)
        client.send(Pingreq(), Auth(CONTINUE, scram.final(challenge.properties)))
        client.expect(Pingresp)
        outcome = client.expect(Auth)
        assert outcome.reason_code == reason_codes.SUCCESS
        scram.check(outcome.properties)


def test_wrong_password(address: Address) -> None:
    """A client whose proof is wrong is told so and disconnected, and its will is published [MQTT-4.12.1-2]."""
    with connected(address, 5) as watcher:
        watcher.subscribe("failed")
        with authenticated(address, will=Will(b"failed", b"gone")) as client:
            scram = Scram(password="wrong")
            client.send(Auth(REAUTHENTICATE, scram.first()))
            answer(client, scram)
            expect_disconnect(client, reason_codes.NOT_AUTHORIZED)
        assert watcher.receive_message().payload == b"gone"


def test_another_user(address: Address) -> None:
    """Re-authentication as another user is refused, because the session belongs to the first one."""
    with authenticated(address) as client:
        scram = Scram(OTHER_USER)
        client.send(Auth(REAUTHENTICATE, scram.first()))
        answer(client, scram)
        expect_disconnect(client, reason_codes.NOT_AUTHORIZED)


def test_unknown_user(address: Address) -> None:
    """Re-authentication as an unknown user is refused in the same way."""
    with authenticated(address) as client:
        scram = Scram("nobody")
        client.send(Auth(REAUTHENTICATE, scram.first()))
        answer(client, scram)
        expect_disconnect(client, reason_codes.NOT_AUTHORIZED)


@pytest.mark.parametrize(
    ("code", "method", "expected"),
    [
        (REAUTHENTICATE, "SCRAM-SHA-1", reason_codes.BAD_AUTHENTICATION_METHOD),  # [MQTT-4.12.1-1]
        (CONTINUE, METHOD, reason_codes.PROTOCOL_ERROR),
        (0x00, METHOD, reason_codes.PROTOCOL_ERROR),
    ],
)
def test_wrong_beginning(address: Address, code: int, method: str, expected: int) -> None:
    """An exchange must begin with reason code 0x19 and the method of CONNECT."""
    with authenticated(address) as client:
        client.send(Auth(code, {**Scram().first(), props.AUTHENTICATION_METHOD: method}))
        expect_disconnect(client, expected)


@pytest.mark.parametrize(
    ("code", "method", "expected"),
    [
        (REAUTHENTICATE, METHOD, reason_codes.PROTOCOL_ERROR),
        (0x00, METHOD, reason_codes.PROTOCOL_ERROR),
        (CONTINUE, "SCRAM-SHA-1", reason_codes.BAD_AUTHENTICATION_METHOD),
    ],
)
def test_wrong_continuation(address: Address, code: int, method: str, expected: int) -> None:
    """An exchange must continue with reason code 0x18 and the same method."""
    with authenticated(address) as client:
        scram = Scram()
        client.send(Auth(REAUTHENTICATE, scram.first()))
        final = scram.final(client.expect(Auth).properties)
        client.send(Auth(code, {**final, props.AUTHENTICATION_METHOD: method}))
        expect_disconnect(client, expected)


def test_replayed_proof(address: Address) -> None:
    """The proof of the CONNECT exchange is refused in a later one."""
    with WireClient(address, 5) as client:
        scram = Scram()
        first = scram.first()
        client.send(Connect("", True, properties=first, version=5))
        final = scram.final(client.expect(Auth).properties)
        client.send(Auth(CONTINUE, final))
        assert client.expect(Connack).reason_code == reason_codes.SUCCESS
        client.send(Auth(REAUTHENTICATE, first))
        client.expect(Auth)
        client.send(Auth(CONTINUE, final))
        expect_disconnect(client, reason_codes.NOT_AUTHORIZED)


@pytest.mark.parametrize("code", [CONTINUE, REAUTHENTICATE, 0x00])
def test_without_a_method_at_connect(address: Address, code: int) -> None:
    """A client whose CONNECT named no method cannot re-authenticate [MQTT-4.12.0-7]."""
    with connected(address, 5) as client:
        client.send(Auth(code, Scram().first()))
        expect_disconnect(client, reason_codes.PROTOCOL_ERROR)


def test_maximum_packet_size(address: Address) -> None:
    """The broker does not send a challenge that is too large for the client [MQTT-3.1.2-24]."""
    with WireClient(address, 5) as client:
        scram = Scram()
        ask(client, scram, maximum_packet_size=260)
        answer(client, scram)
        assert client.expect(Connack).reason_code == reason_codes.SUCCESS
        client.send(Auth(REAUTHENTICATE, with_data(data_of(Scram().first()) + "r" * 200)))
        expect_disconnect(client, reason_codes.PACKET_TOO_LARGE)


def local_client(local: LocalBroker) -> LocalClient:
    """A client that has been let in."""
    client, scram = local.client(), Scram()
    client.send(Connect("x", True, properties=scram.first(), version=5))
    client.send(Auth(CONTINUE, scram.final(client.expect(Auth).properties)))
    assert client.expect(Connack).reason_code == reason_codes.SUCCESS
    return client


def test_failures_are_delayed() -> None:
    """From half of the limit on a wrong password is answered later, and what the client sends meanwhile is not."""
    own = {**GUARDED["authentication"], "failed_logins": {"per_user": 1, "per_address": "infinity"}}
    with LocalBroker(authentication=own) as local:
        client, scram = local_client(local), Scram(password="wrong")
        client.send(Auth(REAUTHENTICATE, scram.first()))
        client.send(Auth(CONTINUE, scram.final(client.expect(Auth).properties)), Pingreq())
        assert client.received() == []
        local.pass_time(5)
        assert client.expect(Disconnect).reason_code == reason_codes.NOT_AUTHORIZED


def test_user_is_removed_meanwhile() -> None:
    """A login has no success if its user is removed before its last step."""
    before = Config.model_validate(GUARDED)
    others = {**GUARDED["authentication"], "scram": GUARDED["authentication"]["scram"][1:]}
    with LocalBroker(**GUARDED) as local:
        client, scram = local.client(), Scram()
        client.send(Connect("x", True, properties=scram.first(), version=5))
        last = Auth(CONTINUE, scram.final(client.expect(Auth).properties))
        local.complete(local.broker.use(Config.model_validate({**GUARDED, "authentication": others}), before))
        client.send(last)
        assert client.expect(Connack).reason_code == reason_codes.NOT_AUTHORIZED
