"""The log lines of connections: who comes, goes or is refused, with the reason; at level debug subscriptions."""

import socket
import ssl
from typing import Any

import pytest

from broker.connection.log import host_of
from broker.log_limits import MOST_OF_CLIENT
from protocol import properties as props
from protocol.connect import Connect, Will
from protocol.publish import Publish
from protocol.subscribe import Subscribe, Subscription
from tests.broker.conftest import Start
from tests.support.broker.events import events, wait_for_event
from tests.support.broker.tls_client import TlsClient
from tests.support.brokers import Listener
from tests.support.certificates import Certificates
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected


def peer(client: WireClient) -> str:
    """The client's address as the broker sees it."""
    host, port = client.socket.getsockname()
    return f"{host}:{port}"


def refusal(broker: BrokerProcess, before: int) -> dict[str, Any]:
    """The line about the one that was refused after so many."""
    return wait_for_event(broker, "client_refused", before + 1)[before]


@pytest.mark.parametrize(
    ("name", "host"),
    [
        (("::ffff:192.0.2.1", 1, 0, 0), "192.0.2.1"),
        (("192.0.2.1", 1), "192.0.2.1"),
        (("::ffff:1", 1, 0, 0), "::ffff:1"),
        (("fe80::1%eth0", 1, 0, 2), "fe80::1%eth0"),
        ("", ""),
        (None, ""),
    ],
)
def test_host_of(name: object, host: str) -> None:
    """An IPv4 address is written as such, whatever socket the client has come by."""
    assert host_of(name) == host


# -- refusals


@pytest.mark.parametrize("version", [4, 5])
def test_refused_connect(broker: BrokerProcess, version: int) -> None:
    """A refused CONNECT is logged with its client id and address, even if it is malformed."""
    for topic, words in (("a/+", "wildcard"), ("$SYS/x", "not permitted")):
        before = len(events(broker, "client_refused"))
        with WireClient(broker.address(), version) as client:
            client.send(Connect("refused-one", will=Will(topic.encode(), b""), version=version))
            client.expect_close()
            event = refusal(broker, before)
            assert (event["client_id"], event["peer"], event["listener"]) == ("refused-one", peer(client), "tcp")
            assert words in event["detail"]


@pytest.mark.parametrize(
    "head",
    [
        b"\0\x06MQIsdp\x02\x02",
        b"\0\x06MQIsdp\x84\x02",
        b"\0\x04MQTT\x03\x02",
        b"\0\x04MQTT\x04\x42",  # a password without a user name
        b"\0\x04MQTT\x05\x1a",  # Will QoS 3
    ],
)
def test_refused_for_its_version_or_flags(broker: BrokerProcess, head: bytes) -> None:
    """A CONNECT of another version or with invalid flags is logged with its client id too."""
    before = len(events(broker, "client_refused"))
    version = 5 if head[-2] == 5 else 4
    body = head + b"\0\0" + (b"\0" if version == 5 else b"") + b"\0\x03old"
    with WireClient(broker.address(), version) as client:
        client.send(bytes((0x10, len(body))) + body)
        client.expect_close()
        event = refusal(broker, before)
        assert (event["client_id"], event["peer"]) == ("old", peer(client))


def test_refused_later(broker: BrokerProcess) -> None:
    """A connected client that breaks a rule is logged with client id and address."""
    before = len(events(broker, "client_refused"))
    with WireClient(broker.address(), 4) as client:
        client.connect("breaks-later")
        client.send(b"\x00\x00")
        client.expect_close()
        event = refusal(broker, before)
        assert (event["client_id"], event["peer"]) == ("breaks-later", peer(client))


@pytest.mark.parametrize("version", [4, 5])
def test_packet_too_large(start: Start, version: int) -> None:
    """A packet above max_packet_size is logged with its size, the limit and its key, in 3.1.1 too."""
    broker = start(sections={"mqtt": {"max_packet_size": 1000}})
    with WireClient(broker.address(), version) as client:
        client.connect("too-large")
        client.send(Publish(b"t", bytes(2000)))
        client.expect_close()
    event = refusal(broker, 0)
    assert event["client_id"] == "too-large"
    assert (event["size"], event["limit"], event["key"]) == (2006 + (version == 5), 1000, "mqtt.max_packet_size")


@pytest.mark.parametrize(
    ("data", "words"),
    [(b"GET / HTTP/1.1\r\n\r\n", "HTTP"), (bytes.fromhex("16030100c8010000c40303"), "listener with tls")],
)
def test_other_protocols(broker: BrokerProcess, data: bytes, words: str) -> None:
    """A client that speaks another protocol to an MQTT port is logged with that protocol."""
    before = len(events(broker, "client_refused"))
    with socket.create_connection(broker.address()) as client:
        client.sendall(data)
        assert client.recv(1) == b""
    assert words in refusal(broker, before)["detail"]


# -- who comes and goes


@pytest.fixture
def talkative(start: Start) -> BrokerProcess:
    """A broker that logs connections."""
    return start(flags=["--log-level", "debug"], sections={"authorization": {"deny_subscribe": ["no/#"]}})


def test_connects(talkative: BrokerProcess) -> None:
    """A connect is logged with the fields of its CONNECT and whether a session was present."""
    with WireClient(talkative.address(), 5) as client:
        client.connect("comes", clean_start=False, keep_alive=7, properties={props.SESSION_EXPIRY_INTERVAL: 9})
        (event,) = wait_for_event(talkative, "connected")
        expected = {"client_id": "comes", "peer": peer(client), "listener": "tcp", "version": "5.0", "keep_alive": 7}
        expected |= {"clean_start": False, "session_expiry": 9, "session_present": False, "bridge": False}
        assert expected.items() <= event.items()
    with WireClient(talkative.address(), 5) as client:
        client.connect("comes", clean_start=False)
        assert wait_for_event(talkative, "connected", 2)[1]["session_present"]


@pytest.mark.parametrize(
    ("how", "reason", "words"),
    [
        ("disconnect", "Normal disconnection", "DISCONNECT by the client: Normal disconnection"),
        ("with will", "Disconnect with will message", "Disconnect with will message"),
        ("error", "Client error", "DISCONNECT by the client: Protocol error"),
        ("close", "Connection lost", "closed by the client"),
        ("reset", "Connection lost", "reset by peer"),
        ("silent", "Keep alive timeout", "keep-alive"),
        ("taken over", "Session taken over", "another connection has taken over"),
        ("wrong", "Malformed packet", "reserved"),
        ("before connect", None, "closed by the client"),
        ("stop", "Server shutting down", "the server is stopping"),
    ],
)
@pytest.mark.parametrize("version", [4, 5])
def test_disconnects(talkative: BrokerProcess, version: int, how: str, reason: str | None, words: str) -> None:
    """A connection that ends is logged once, with the reason."""
    client = WireClient(talkative.address(), version)
    address = peer(client)
    if how != "before connect":
        client.connect("goes", keep_alive=1 if how == "silent" else 0)
    if how in {"disconnect", "with will", "error"}:
        client.disconnect({"with will": 4, "error": 0x82}.get(how, 0) if version == 5 else 0)
        if version == 4:
            reason, words = "Normal disconnection", "DISCONNECT by the client"
    elif how in {"close", "before connect"}:
        client.close()
    elif how == "reset":
        client.reset()
    elif how == "taken over":
        with connected(talkative.address(), version, client_id="goes"):
            client.expect_close()
    elif how == "wrong":
        client.send(b"\x00\x00")
    elif how == "stop":
        talkative.ask_to_end()
    event = wait_for_event(talkative, "disconnected")[0]
    assert (event["client_id"], event["peer"]) == ("" if how == "before connect" else "goes", address)
    assert (event.get("reason"), words in event["detail"]) == (reason, True)
    client.close()
    talkative.stop()
    assert [each["peer"] for each in events(talkative, "disconnected")].count(address) == 1


@pytest.mark.parametrize("version", [4, 5])
def test_subscriptions(talkative: BrokerProcess, version: int) -> None:
    """At level debug SUBSCRIBE and UNSUBSCRIBE are logged with each filter and its reason code, at most 20."""
    with WireClient(talkative.address(), version) as client:
        client.connect("subscribes")
        client.send(Subscribe(1, [Subscription("a/#", 2), Subscription("no/x", 1), Subscription("/".join("x" * 129))]))
        (event,) = wait_for_event(talkative, "subscribed")
        assert event["client_id"] == "subscribes"
        assert list(event["filters"].values()) == [2, "Not authorized", "Topic filter invalid"]
        client.receive()
        client.unsubscribe("a/#", "b")
        (event,) = wait_for_event(talkative, "unsubscribed")
        assert event["filters"] == {"a/#": "Success", "b": "No subscription found"}
        client.subscribe(*[f"many/{number}" for number in range(100)])
        event = wait_for_event(talkative, "subscribed", 2)[1]
        assert (len(event["filters"]), event["more"]) == (20, 80)


def test_by_default(start: Start) -> None:
    """At level info it is seen who comes and goes; not who subscribes, nor who looks whether the port is open."""
    broker = start()
    with connected(broker.address(), 5, client_id="guest") as client:
        client.subscribe("quiet")
    wait_for_event(broker, "disconnected")
    socket.create_connection(broker.address()).close()
    broker.stop()
    seen = [line["event"] for line in events(broker) if line["event"] in {"connected", "disconnected", "subscribed"}]
    assert seen == ["connected", "disconnected"]
    assert {line["client_id"] for line in events(broker, "connected")} == {"guest"}


def test_taken_over(start: Start) -> None:
    """A take-over is logged with both addresses, once for two clients that go on with it; another's is logged too."""
    broker = start()
    with (
        connected(broker.address(), 5, client_id="twin") as first,
        connected(broker.address(), 5, client_id="twin") as second,
    ):
        (event,) = wait_for_event(broker, "taken_over")
        assert (event["client_id"], event["peer"], event["by"]) == ("twin", peer(first), peer(second))
        assert (event["listener"], event["level"]) == ("tcp", "info")
        for _ in range(5):
            connected(broker.address(), 5, client_id="twin").close()
            with connected(broker.address(), 5, client_id="twin"):
                pass
    with connected(broker.address(), 5, client_id="other"), connected(broker.address(), 5, client_id="other"):
        events_of_both = wait_for_event(broker, "taken_over", 2)
    assert [each["client_id"] for each in events_of_both] == ["twin", "other"]


def test_one_that_comes_and_goes(start: Start) -> None:
    """A client that connects again and again leaves a few lines and their number, and does not hide the others."""
    broker = start(sections={"log": {"level": "info", "format": "json"}})
    for _ in range(100):
        with connected(broker.address(), 5, client_id="restless"):
            pass
    with connected(broker.address(), 5, client_id="calm"):
        wait_until(lambda: any(line["client_id"] == "calm" for line in events(broker, "connected")), "its line")
    broker.stop()
    left_out = [line for line in events(broker, "log_throttled") if line["of"] == "connected"]
    assert {(line["source"], line["client_id"]) for line in left_out} == {("tcp", "restless")}
    restless = [line for line in events(broker, "connected") if line["client_id"] == "restless"]
    assert len(restless) + sum(line["left_out"] for line in left_out) == 100
    assert len(restless) <= 2 * MOST_OF_CLIENT  # it may have been two periods


@pytest.mark.parametrize("qos", [0, 1])
async def test_tls_that_fails_later(start: Start, certificates: Certificates, qos: int) -> None:
    """A connection that ends because of invalid TLS records is not logged as closed by its client."""
    broker = start((Listener("tls", certificates),), flags=["--log-level", "debug"])
    context = certificates.client_context(with_certificate=False)
    address = broker.address("tls")

    client = await TlsClient(context).connect((address.host, address.port))
    await client.send(client.seal(Connect("fails", version=4).encode(4)))
    assert len(await client.read(4)) == 4
    publish = client.seal(Publish(b"t", b"", qos, packet_id=qos).encode(4))  # the PUBACK cannot be written any more
    await client.send(publish + b"\x17\x03\x03\x00\x20" + bytes(32))
    with pytest.raises(ssl.SSLError, match="alert"):
        await client.read(100)
    client.socket.close()
    (event,) = wait_for_event(broker, "disconnected")
    # What Python tells is OpenSSL's last error, which is another one from OpenSSL 3.2 on.
    assert event["detail"].removeprefix("TLS has failed: ") in {
        "decryption failed or bad record mac",
        "record layer failure",
    }
