"""Authentication by SCRAM-SHA-256 over sockets: who is accepted, and what stays unchanged during the exchange."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.auth import Auth
from protocol.connack import Connack
from protocol.connect import Connect, Will
from protocol.disconnect import Disconnect
from protocol.packet import Packet
from protocol.ping import Pingreq
from protocol.publish import Publish
from protocol.subscribe import Subscribe, Subscription
from tests.broker.conftest import Start
from tests.conformance.scram import CONTINUE, METHOD, PASSWORD, Scram, data_of, with_data
from tests.support.broker.events import events, wait_for_event
from tests.support.broker.guarded import GUARDED, OTHER_USER, answer, ask, authenticated, expect_refusal
from tests.support.broker.local import LocalBroker
from tests.support.brokers import Listener, start_sluice
from tests.support.certificates import Certificates
from tests.support.process import Address, BrokerProcess
from tests.support.wire import WireClient, connected

KEYS = ("stored_key", "server_key")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[BrokerProcess]:
    """A broker that lets in whom it knows, with a listener for client certificates beside the ordinary one."""
    listeners = (Listener(), Listener("mutual", certificates, True))
    log = {"level": "debug", "format": "json"}
    folder = tmp_path_factory.mktemp("guarded")
    with start_sluice(folder, listeners, {**GUARDED, "log": log}) as running:
        yield running
        secrets = [PASSWORD, *(user[key] for user in GUARDED["authentication"]["scram"] for key in KEYS)]
        assert not [secret for secret in secrets if secret in running.stderr]


@pytest.fixture
def address(guarded: BrokerProcess) -> Address:
    """Where it is."""
    return guarded.address()


# -- who has failed


def test_failures_are_counted(start: Start) -> None:
    """Past the limit of a user no exchange begins, by which method whoever has failed; who is known here is let in."""
    failed = {"per_user": 4, "per_address": "infinity"}
    own = {**GUARDED["authentication"], "failed_logins": failed}
    address = start(sections={**GUARDED, "authentication": own}).address()
    with authenticated(address, user=OTHER_USER):
        for _ in range(4):
            with WireClient(address, 5) as client:
                wrong = Scram(password="x")
                ask(client, wrong)
                answer(client, wrong)
                expect_refusal(client, reason_codes.NOT_AUTHORIZED)
        with WireClient(address, 5) as client:
            ask(client, Scram())
            expect_refusal(client, reason_codes.CONNECTION_RATE_EXCEEDED)
    with authenticated(address, user=OTHER_USER) as client:
        client.expect_nothing_more()


def test_failures_are_delayed(start: Start) -> None:
    """From half of the limit on each failure is answered later, and others are served meanwhile."""
    failed = {"per_user": 2, "per_address": "infinity"}
    own = {**GUARDED["authentication"], "failed_logins": failed}
    address = start(sections={**GUARDED, "authentication": own}).address()
    began = time.monotonic()
    for _ in range(2):
        with WireClient(address, 5) as client, authenticated(address, user=OTHER_USER) as other:
            wrong = Scram(password="x")
            ask(client, wrong)
            answer(client, wrong)
            other.expect_nothing_more()
            expect_refusal(client, reason_codes.NOT_AUTHORIZED)
    assert time.monotonic() - began >= 0.25


# -- who is let in


def test_known_user(address: Address) -> None:
    """A client that proves that it knows the password is accepted, and gets the broker's proof."""
    with authenticated(address) as client, authenticated(address, user=OTHER_USER) as other:
        client.expect_nothing_more()
        other.expect_nothing_more()


@pytest.mark.parametrize(("version", "code"), [(4, 5), (5, reason_codes.NOT_AUTHORIZED)])
@pytest.mark.parametrize("password", [None, PASSWORD.encode()])
def test_without_authentication(address: Address, version: int, code: int, password: bytes | None) -> None:
    """With users configured, clients without authentication are refused, also with a password in CONNECT."""
    username = "user" if password else None
    with WireClient(address, version) as client:
        client.send(Connect("anyone", True, username=username, password=password, version=version))
        expect_refusal(client, code)


@pytest.mark.parametrize("setting", [None, False, True])
def test_allow_anonymous_on_one_listener(start: Start, setting: bool | None) -> None:
    """What a listener says about clients without authentication prevails over what the broker says."""
    listeners = [
        {"name": name, "bind": "127.0.0.1:0", "allow_anonymous": own}
        for name, own in (("tcp", None), ("open", True), ("closed", False))
    ]
    sections = {**GUARDED, "allow_anonymous": setting, "listeners": listeners}
    broker = start((Listener(), Listener("open"), Listener("closed")), sections=sections)
    for name, let_in in (("tcp", setting is True), ("open", True), ("closed", False)):
        with WireClient(broker.address(name), 5) as client:
            assert (name, client.connect().reason_code == 0) == (name, let_in)
        with authenticated(broker.address(name)) as client:
            client.expect_nothing_more()


@pytest.mark.parametrize(("setting", "let_in"), [(None, False), (False, False), (True, True)])
def test_allow_anonymous(start: Start, setting: bool | None, let_in: bool) -> None:
    """With allow_anonymous: true clients without authentication are accepted, and a wrong proof is still refused."""
    address = start(sections={**GUARDED, "allow_anonymous": setting}).address()
    for version in (4, 5):
        with WireClient(address, version) as client:
            assert (client.connect().reason_code == 0) == let_in
    with authenticated(address) as client, WireClient(address, 5) as stranger:
        client.expect_nothing_more()
        scram = Scram(password="wrong")
        ask(stranger, scram)
        answer(stranger, scram)
        expect_refusal(stranger, reason_codes.NOT_AUTHORIZED)


@pytest.mark.parametrize("version", [4, 5])
def test_client_certificate(guarded: BrokerProcess, certificates: Certificates, version: int) -> None:
    """A certificate that the listener requires is sufficient authentication."""
    context = certificates.client_context(with_certificate=True)
    with WireClient(guarded.address("mutual"), version, tls=context) as client:
        assert client.connect().reason_code == 0
        client.expect_nothing_more()


@pytest.mark.parametrize("name", ["PLAIN", "SCRAM-SHA-1", "scram-sha-256", "", "x" * 65_535])
def test_unknown_method(address: Address, name: str) -> None:
    """An unknown authentication method is refused as such [MQTT-4.12.0-1]."""
    with WireClient(address, 5) as client:
        client.send(Connect("x", True, properties=with_data(b"", name), version=5))
        refused = expect_refusal(client, reason_codes.BAD_AUTHENTICATION_METHOD)
        assert list(refused.properties or {}) == [props.REASON_STRING]


def test_no_users(start: Start) -> None:
    """Without users there is no method, and all clients are accepted on loopback."""
    address = start(sections={"allow_anonymous": None}).address()
    with WireClient(address, 5) as client, connected(address, 4) as anyone:
        ask(client, Scram())
        expect_refusal(client, reason_codes.BAD_AUTHENTICATION_METHOD)
        anyone.expect_nothing_more()


# -- what does not convince


def test_unknown_user_looks_like_a_known_one(guarded: BrokerProcess) -> None:
    """The exchange and the log are the same for known and unknown users with a wrong password."""
    salts, reasons = [], []
    before = len(events(guarded, "client_refused"))
    for user, password in (("user", "wrong"), ("nobody", PASSWORD), ("nobody", PASSWORD), ("somebody", PASSWORD)):
        with WireClient(guarded.address(), 5) as client:
            scram = Scram(user, password)
            ask(client, scram)
            challenge = client.expect(Auth)
            _, salt, iterations = data_of(challenge.properties).split(",")
            salts.append(salt)
            assert iterations == "i=4096"
            client.send(Auth(CONTINUE, scram.final(challenge.properties)))
            refused = expect_refusal(client, reason_codes.NOT_AUTHORIZED).properties or {}
            assert list(refused) == [props.REASON_STRING]
            reasons.append(str(refused[props.REASON_STRING]).replace(repr(user), "?"))
    assert len(set(reasons)) == 1
    assert salts[1] == salts[2]
    assert len(set(salts)) == 3
    assert len({len(salt) for salt in salts}) == 1
    logged = wait_for_event(guarded, "client_refused", before + 4)[before:]
    assert len({event["detail"].partition(": ")[2] for event in logged}) == 1


def spoil(final: str, what: str) -> bytes:
    """A client-final that is wrong in one thing."""
    binding, nonce, proof = final.split(",")
    return {
        "nonce": f"{binding},{nonce}x,{proof}",
        "cut nonce": f"{binding},{nonce[:-1]},{proof}",
        "binding": f"c=eSws,{nonce},{proof}",
        "proof": f"{binding},{nonce},p={'A' * 43}=",
        "short proof": f"{binding},{nonce},p=AAAA",
        "no proof": f"{binding},{nonce}",
        "cut": final[:-1],
        "extension": f"m=x,{final}",
        "twice": f"{final},{final}",
        "large": final + "," * 65_000,
    }[what].encode()


@pytest.mark.parametrize(
    "what",
    ["nonce", "cut nonce", "binding", "proof", "short proof", "no proof", "cut", "extension", "twice", "large"],
)
def test_wrong_final(address: Address, what: str) -> None:
    """A last message with any mistake in it is refused [MQTT-4.12.0-4]."""
    with WireClient(address, 5) as client:
        scram = Scram()
        ask(client, scram)
        final = data_of(scram.final(client.expect(Auth).properties))
        client.send(Auth(CONTINUE, with_data(spoil(final, what))))
        expect_refusal(client, reason_codes.NOT_AUTHORIZED)


def test_replayed_final(address: Address) -> None:
    """A proof of one exchange is refused in another one, even if both began with the same message."""
    with WireClient(address, 5) as client, WireClient(address, 5) as thief:
        scram = Scram()
        first = scram.first()
        for one in (client, thief):
            one.send(Connect("", True, properties=first, version=5))
        final = scram.final(client.expect(Auth).properties)
        thief.expect(Auth)
        thief.send(Auth(CONTINUE, final))
        expect_refusal(thief, reason_codes.NOT_AUTHORIZED)
        client.send(Auth(CONTINUE, final))
        assert client.expect(Connack).reason_code == reason_codes.SUCCESS


@pytest.mark.parametrize("data", [None, b"", b"\xff", b"n,,n=user", b"n,a=ben,n=user,r=x", b"n,,n=" + b"x" * 65_000])
def test_wrong_first(address: Address, data: bytes | None) -> None:
    """A malformed first message is refused."""
    with WireClient(address, 5) as client:
        client.send(Connect("", True, properties=with_data(data), version=5))
        expect_refusal(client, reason_codes.NOT_AUTHORIZED)


# -- the exchange as such


@pytest.mark.parametrize(
    "packet", [Pingreq(), Publish(b"a", b"x"), Subscribe(1, [Subscription("a")]), Connect("x", True, version=5)]
)
def test_other_packets(address: Address, packet: Packet) -> None:
    """Before CONNACK a client may send AUTH or DISCONNECT and no other packet [MQTT-3.1.2-30]."""
    with WireClient(address, 5) as client:
        ask(client, Scram())
        client.expect(Auth)
        client.send(packet)
        expect_refusal(client, reason_codes.PROTOCOL_ERROR)


@pytest.mark.parametrize(
    ("code", "method", "expected"),
    [
        (0x00, METHOD, reason_codes.PROTOCOL_ERROR),
        (0x19, METHOD, reason_codes.PROTOCOL_ERROR),
        (CONTINUE, "SCRAM-SHA-1", reason_codes.BAD_AUTHENTICATION_METHOD),
    ],
)
def test_wrong_auth(address: Address, code: int, method: str, expected: int) -> None:
    """The answer to a challenge must have reason code 0x18 and the same method [MQTT-4.12.0-3, MQTT-4.12.0-5]."""
    with WireClient(address, 5) as client:
        scram = Scram()
        ask(client, scram)
        final = scram.final(client.expect(Auth).properties)
        client.send(Auth(code, {**final, props.AUTHENTICATION_METHOD: method}))
        expect_refusal(client, expected)


def test_empty_auth(address: Address) -> None:
    """An empty AUTH means Success, which a client must not send: it is refused."""
    with WireClient(address, 5) as client:
        ask(client, Scram())
        client.expect(Auth)
        client.send(Auth())
        expect_refusal(client, reason_codes.PROTOCOL_ERROR)


def test_leaving(address: Address) -> None:
    """A client may disconnect during the exchange; its session and will are not created."""
    with authenticated(address) as watcher, WireClient(address, 5) as client:
        watcher.subscribe("left")
        ask(client, Scram(), "leaving", will=Will(b"left", b"x"))
        client.expect(Auth)
        client.send(Disconnect(reason_codes.DISCONNECT_WITH_WILL_MESSAGE))
        assert client.expect_close() is None
        watcher.expect_nothing_more()


def test_byte_by_byte(address: Address) -> None:
    """The exchange works byte by byte, and with packets right behind the proof."""
    with WireClient(address, 5) as client:
        scram = Scram()
        for byte in Connect("", True, properties=scram.first(), version=5).encode(5):
            client.send(bytes([byte]))
        final = Auth(CONTINUE, scram.final(client.expect(Auth).properties))
        client.send(final, Subscribe(1, [Subscription("behind")]), Publish(b"behind", b"x"))
        assert client.expect(Connack).reason_code == reason_codes.SUCCESS
        assert {type(client.receive()).__name__ for _ in range(2)} == {"Suback", "Publish"}


def test_maximum_packet_size(address: Address) -> None:
    """The broker does not send a challenge that exceeds the client's Maximum Packet Size [MQTT-3.1.2-24]."""
    with WireClient(address, 5) as client:
        ask(client, Scram(), maximum_packet_size=150)
        expect_refusal(client, reason_codes.PACKET_TOO_LARGE)


# -- what an exchange leaves as it is


def test_take_over(address: Address) -> None:
    """An older connection with the same client id is closed only when the new one is authenticated [MQTT-3.1.4-3]."""
    with authenticated(address, "mine") as older, WireClient(address, 5) as thief, WireClient(address, 5) as newer:
        scram = Scram(password="wrong")
        ask(thief, scram, "mine")
        older.expect_nothing_more()
        answer(thief, scram)
        expect_refusal(thief, reason_codes.NOT_AUTHORIZED)
        older.expect_nothing_more()
        scram = Scram()
        ask(newer, scram, "mine")
        challenge = newer.expect(Auth)
        older.expect_nothing_more()
        newer.send(Auth(CONTINUE, scram.final(challenge.properties)))
        assert newer.expect(Connack).reason_code == reason_codes.SUCCESS
        assert older.expect(Disconnect).reason_code == reason_codes.SESSION_TAKEN_OVER


def test_time_limit(start: Start) -> None:
    """connect_timeout applies to the whole exchange; then the connection is closed without a packet."""
    address = start(sections={**GUARDED, "mqtt": {"connect_timeout": "300ms"}}).address()
    with WireClient(address, 5) as client:
        ask(client, Scram())
        client.expect(Auth)
        assert client.expect_close() is None
    with authenticated(address) as client:
        client.expect_nothing_more()


def local(**sections: Any) -> LocalBroker:
    """A broker without sockets that lets in whom it knows."""
    return LocalBroker(**{**GUARDED, **sections})


def test_nothing_is_opened_before() -> None:
    """Before the proof there is no session, keep-alive or will, and no packet extends the time limit."""
    with local() as broker:
        client = broker.client()
        will = Will(b"w", b"x", 0, True)
        client.send(Connect("early", True, 1, will=will, properties=Scram().first(), version=5))
        client.expect(Auth)
        assert broker.broker.clients.by_id == {}
        assert broker.broker.clients.online == 0
        broker.pass_time(14.5)
        assert not client.gone
        broker.pass_time(1)
        assert client.gone
        assert client.received() == []
        assert broker.broker.clients.by_id == {}
        assert not broker.broker.retained.matching(b"w", 0)


def test_max_connections() -> None:
    """A connection counts for max_connections only when it is authenticated."""
    with local(mqtt={"max_connections": 1}) as broker:
        clients = [(broker.client(), Scram()) for _ in range(2)]
        for client, scram in clients:
            client.send(Connect("", True, properties=scram.first(), version=5))
        codes = []
        for client, scram in clients:
            client.send(Auth(CONTINUE, scram.final(client.expect(Auth).properties)))
            codes.append(client.expect(Connack).reason_code)
        assert codes == [reason_codes.SUCCESS, reason_codes.QUOTA_EXCEEDED]


def test_refusals_are_logged(guarded: BrokerProcess) -> None:
    """The log names the refused client as far as it is known, and contains no secret."""
    with WireClient(guarded.address(), 5) as client:
        scram = Scram("mallory " + "m" * 500, "wrong")
        ask(client, scram)
        answer(client, scram)
        expect_refusal(client, reason_codes.NOT_AUTHORIZED)
    guarded.wait_for_output(lambda lines: any("mallory" in line for line in lines), "mallory")
    (event,) = [event for event in events(guarded, "client_refused") if "mallory" in event["detail"]]
    assert event["reason"] == "Not authorized"
    assert len(event["detail"]) < 200
