"""The same clients do the same with Mosquitto and then with Sluice on what has been imported from its file."""

import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from typer.testing import CliRunner

from broker.cli.main import app
from protocol import properties as props
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from tests.support.broker.collecting import collect
from tests.support.brokers import HOST, find_mosquitto
from tests.support.certificates import Certificates
from tests.support.process import Address, BrokerProcess, clean_environment, free_port
from tests.support.wire import WireClient, connected

pytestmark = [pytest.mark.once, pytest.mark.skipif(find_mosquitto() is None, reason="needs Mosquitto")]

LASTING: Final[Any] = {props.SESSION_EXPIRY_INTERVAL: 1000}
PASSWORD: Final = "correct horse"
Seen = list[object]


class Place(NamedTuple):
    """Where a broker is, and with what its clients trust it."""

    first: Address
    second: Address
    certificates: Certificates


LOGINS: Final = ((None, None), ("ann", PASSWORD), ("ann", "wrong"), ("mallory", PASSWORD))
"""Nobody's, a user's, with a wrong password, a stranger's."""


def log_in(
    address: Address,
    version: int = 5,
    user: str | None = None,
    password: str | None = None,
    tls: ssl.SSLContext | None = None,
) -> bool:
    """Whether a client is let in."""
    with WireClient(address, version, tls=tls) as client:
        secret = None if password is None else password.encode()
        client.send(Connect("", True, username=user, password=secret, version=version))
        return client.expect(Connack).reason_code == 0


def as_user(address: Address, user: str, client_id: str) -> WireClient:
    """A client that has logged in."""
    client = WireClient(address, 5)
    client.send(Connect(client_id, True, username=user, password=PASSWORD.encode(), version=5))
    assert client.expect(Connack).reason_code == 0
    return client


def who_is_let_in(place: Place) -> Seen:
    """All logins, by both versions and on both listeners."""
    seen: Seen = []
    for address in {place.first: None, place.second: None}:
        with suppress(ConnectionRefusedError):
            seen += [log_in(address, version, *login) for version in (4, 5) for login in LOGINS]
    return seen


def who_is_let_in_with_a_certificate(place: Place) -> Seen:
    """All logins of clients that show a certificate too."""
    tls = place.certificates.client_context(with_certificate=True)
    return [log_in(place.first, 5, user, password, tls) for user, password in LOGINS]


def who_may_enter(place: Place) -> Seen:
    """Clients without a user name, on both listeners."""
    return [log_in(address, version) for address in (place.first, place.second) for version in (4, 5)]


def what_rules_allow(place: Place) -> Seen:
    """Messages that ann and an anonymous client publish and get by an ACL file."""
    with (
        as_user(place.first, "ann", "ann") as ann,
        connected(place.first, 5, client_id="nobody") as nobody,
        as_user(place.first, "ann", "publisher") as publisher,
        connected(place.first, 5, client_id="other") as other,
    ):
        for client in (ann, nobody):
            for topic_filter in ("open/#", "ann/#", "own/#", "secret/#", "read/#"):
                client.subscribe(topic_filter, qos=1)
        seen: Seen = []
        for client in (publisher, other):
            for topic in ("open/a", "ann/a", "own/ann/a", "own/ben/a", "secret/a", "read/a"):
                number = client.packet_id()
                client.send(Publish(topic.encode(), b"x", 1, packet_id=number))
                client.receive()
                seen += [sorted(each.topic for each in collect(subscriber)) for subscriber in (ann, nobody)]
        return seen


def certificates_are_users(place: Place) -> Seen:
    """A client with a certificate is the user of its common name, and one without gets nowhere."""
    seen: Seen = []
    with connected(place.second, 5) as observer:
        observer.subscribe("#")
        with WireClient(place.first, 5, tls=place.certificates.client_context(with_certificate=True)) as client:
            seen.append(client.connect().reason_code)
            for topic in ("own/client/x", "own/other/x"):
                number = client.packet_id()
                client.send(Publish(topic.encode(), b"x", 1, packet_id=number))
                client.receive()
        seen.append([each.topic for each in collect(observer)])
    try:
        with WireClient(place.first, 5, tls=place.certificates.client_context(with_certificate=False)) as client:
            client.connect()
            seen.append("let in")
    except OSError:
        seen.append("refused")
    return seen


def window(place: Place) -> Seen:
    """How many deliveries come before the first acknowledgement."""
    with connected(place.first, 4) as client, connected(place.first, 4) as publisher:
        client.subscribe("t", qos=1)
        for number in range(10):
            publisher.publish("t", b"%d" % number, 1)
        return [each.payload for each in collect(client, acknowledge=False)]


def queue_of_the_absent(place: Place) -> Seen:
    """What waits for a client that is away, at each QoS."""
    connected(place.first, 5, client_id="away", properties=LASTING).close()
    with connected(place.first, 5, client_id="away", clean_start=False, properties=LASTING) as client:
        client.subscribe("t/#", qos=1)
        client.disconnect()
    with connected(place.first, 5) as publisher:
        for number in range(20):
            publisher.publish("t/1", b"%d" % number, 1)
        publisher.publish("t/0", b"x")
    with connected(place.first, 5, client_id="away", clean_start=False, properties=LASTING) as client:
        return [(each.topic, each.payload) for each in collect(client)]


def sizes(place: Place) -> Seen:
    """Which payloads arrive."""
    with connected(place.first, 4) as client:
        client.subscribe("t")
        seen: Seen = []
        for size in (10, 100, 100_000):
            with connected(place.first, 4) as publisher, suppress(OSError):
                publisher.publish("t", b"x" * size, 1)
            seen.append([len(each.payload) for each in collect(client)])
        return seen


def announcements(place: Place) -> Seen:
    """What CONNACK says of QoS, retained messages, keep-alive, topic aliases and sizes."""
    keys = [props.MAXIMUM_QOS, props.RETAIN_AVAILABLE, props.SERVER_KEEP_ALIVE, props.TOPIC_ALIAS_MAXIMUM]
    keys.append(props.MAXIMUM_PACKET_SIZE)
    with WireClient(place.first, 5) as client:
        found = client.connect(keep_alive=100).properties or {}
    return [found.get(key) for key in keys]


def overlapping(place: Place) -> Seen:
    """How often a message comes to a client with two subscriptions that match."""
    with connected(place.first, 4) as client:
        client.send(Subscribe(client.packet_id(), [Subscription("a/#", 1), Subscription("a/+", 0)]))
        client.expect(Suback)
        with connected(place.first, 4) as publisher:
            publisher.publish("a/b", b"x", 1)
        return [each.topic for each in collect(client)]


class Case(NamedTuple):
    """A configuration of Mosquitto, and what clients do there."""

    lines: str
    act: Callable[[Place], Seen]


_OPEN: Final = "listener FIRST HOST\nallow_anonymous true\n"
_TWO: Final = "listener FIRST HOST\n{}\nlistener SECOND HOST\n{}\n"
CASES: Final = {
    "closed by default": Case(_TWO.format("", ""), who_may_enter),
    "anonymous": Case("allow_anonymous true\n" + _TWO.format("", ""), who_may_enter),
    "passwords": Case("listener FIRST HOST\npassword_file FOLDER/passwords", who_is_let_in),
    "passwords or nothing": Case(_OPEN + "password_file FOLDER/passwords", who_is_let_in),
    "each listener its own": Case(
        "per_listener_settings true\n" + _TWO.format("allow_anonymous true", "password_file FOLDER/passwords"),
        who_may_enter,
    ),
    "rules": Case(_OPEN + "password_file FOLDER/passwords\nacl_file FOLDER/acl", what_rules_allow),
    "certificates": Case(
        "per_listener_settings true\nlistener FIRST HOST\ncafile CA\ncertfile SERVER\nkeyfile KEY\n"
        "require_certificate true\nuse_identity_as_username true\nacl_file FOLDER/acl\n"
        "listener SECOND HOST\nallow_anonymous true",
        certificates_are_users,
    ),
    "certificates and passwords": Case(
        "listener FIRST HOST\ncafile CA\ncertfile SERVER\nkeyfile KEY\nrequire_certificate true\n"
        "password_file FOLDER/passwords",
        who_is_let_in_with_a_certificate,
    ),
    "window": Case(_OPEN + "max_inflight_messages 3", window),
    "default window": Case(_OPEN, window),
    "queue": Case(_OPEN + "max_inflight_messages 2\nmax_queued_messages 5", queue_of_the_absent),
    "queue with QoS 0": Case(_OPEN + "queue_qos0_messages true", queue_of_the_absent),
    "message size": Case(_OPEN + "message_size_limit 1000", sizes),
    "any size": Case(_OPEN, sizes),
    "announcements": Case(
        _OPEN + "max_qos 1\nmax_topic_alias 7\nretain_available false\nmax_keepalive 30", announcements
    ),
    "overlapping": Case(_OPEN, overlapping),
    "overlapping, once": Case(_OPEN + "allow_duplicate_messages false", overlapping),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Users and rules."""
    made = tmp_path_factory.mktemp("files")
    (made / "passwords").touch(mode=0o600)
    subprocess.run(["mosquitto_passwd", "-b", str(made / "passwords"), "ann", PASSWORD], check=True)
    (made / "acl").write_text(
        "topic readwrite open/#\ntopic read read/#\nuser ann\ntopic readwrite ann/#\n"
        "topic read open/#\npattern readwrite own/%u/#\n"
    )
    return made


@contextmanager
def running(broker: BrokerProcess, *addresses: Address) -> Iterator[None]:
    """A broker that accepts connections everywhere."""
    with broker:
        for address in addresses:
            broker.wait_until_accepting(address)
        yield


@pytest.mark.parametrize("name", CASES)
def test_same_behaviour(name: str, folder: Path, certificates: Certificates, tmp_path: Path) -> None:
    """Clients see the same before and after."""
    case = CASES[name]
    place = Place(Address(HOST, free_port()), Address(HOST, free_port()), certificates)
    text = case.lines
    for word, value in (
        ("FIRST", place.first.port),
        ("SECOND", place.second.port),
        ("HOST", HOST),
        ("FOLDER", folder),
        ("CA", certificates.cafile),
        ("SERVER", certificates.server.certfile),
        ("KEY", certificates.server.keyfile),
    ):
        text = text.replace(word, str(value))
    addresses = [place.first, place.second] if "SECOND" in case.lines else [place.first]
    file, output = tmp_path / "mosquitto.conf", tmp_path / "sluice.yaml"
    file.write_text(f"user root\n{text}\n")
    with running(BrokerProcess([str(find_mosquitto()), "-c", str(file)], tmp_path), *addresses):
        before = case.act(place)
    result = CliRunner().invoke(app, ["import", "mosquitto", str(file), "-o", str(output)])
    assert (result.exit_code, result.stderr) == (0, "")
    environment = clean_environment(XDG_RUNTIME_DIR=str(tmp_path))
    arguments = ["run", "--config", str(output)]
    with running(BrokerProcess(arguments, tmp_path, environment, forked_on="asyncio"), *addresses):
        assert case.act(place) == before
