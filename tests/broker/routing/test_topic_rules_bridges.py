"""Bridges: what Mosquitto's bridges need, tested with packets and with Mosquitto itself."""

import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from protocol import reason_codes
from protocol.acknowledgements import Puback
from protocol.connack import Connack
from protocol.connect import Connect, Will
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from tests.broker.conftest import Start
from tests.support.broker.events import wait_for_event
from tests.support.brokers import find_mosquitto, start_mosquitto
from tests.support.process import Address, BrokerProcess, free_port
from tests.support.wire import WireClient, connected

STATE = "$SYS/broker/connection/{}/state"
NAME = "edge"
VERSIONS = {4: "mqttv311", 5: "mqttv50"}

needs_mosquitto = pytest.mark.skipif(find_mosquitto() is None, reason="needs Mosquitto (Debian: mosquitto)")


# -- packet by packet


@contextmanager
def bridge(address: Address, client_id: str, will: Will | None = None) -> Iterator[WireClient]:
    """A client that says that it is a bridge, as Mosquitto's do by MQTT 3.1.1 (protocol level 0x84)."""
    with WireClient(address, 4) as client:
        client.send(Connect(client_id, will=will, version=4, bridge=True))
        assert client.expect(Connack).reason_code == 0
        yield client


def follow(client: WireClient, topic_filter: str, qos: int = 2) -> None:
    """Subscribe so that RETAIN comes as it was published."""
    client.send(Subscribe(client.packet_id(), [Subscription(topic_filter, qos, retain_as_published=True)]))
    assert client.expect(Suback).reason_codes == [qos]


def test_no_echo(address: Address) -> None:
    """A bridge does not get back what it has published, whatever it is subscribed to; it gets what others publish."""
    with bridge(address, "no-echo") as client, connected(address, 4) as other:
        client.subscribe("echo/#")
        client.publish("echo/own", b"")
        other.publish("echo/other", b"")
        assert client.expect(Publish).topic == b"echo/other"
        client.expect_nothing_more()


def test_retain_as_published(address: Address) -> None:
    """A bridge gets RETAIN as published; other 3.1.1 clients do not [MQTT-3.3.1-9]."""
    with bridge(address, "as-published") as client, connected(address, 4) as other:
        client.subscribe("flags/#")
        other.subscribe("flags/#")
        other.publish("flags/kept", b"x", retain=True)
        other.publish("flags/gone", b"x")
        assert [client.expect(Publish).retain for _ in range(2)] == [True, False]
        assert [other.expect(Publish).retain for _ in range(2)] == [False, False]
        other.publish("flags/kept", b"", retain=True)


def test_window(address: Address) -> None:
    """A 3.1.1 bridge has at most 20 deliveries in flight: beyond that Mosquitto would discard QoS 2."""
    with bridge(address, "window") as client, connected(address, 4) as other:
        client.subscribe("window", qos=2)
        for _ in range(21):
            other.publish("window", b"", 2)
        for _ in range(20):
            client.expect(Publish)
        client.expect_nothing_more()


@pytest.mark.parametrize("version", [4, 5])
def test_state(address: Address, version: int) -> None:
    """Any client may publish a retained state of its own connection, by PUBLISH and by will, and others receive it."""
    name = f"state-{version}"
    topic = STATE.format(name)
    with connected(address, 5) as watcher:
        follow(watcher, topic)
        with WireClient(address, version) as client:
            client.connect(name, will=Will(topic.encode(), b"0", 1, True))
            client.publish(topic, b"1", 1, retain=True)
        seen = [watcher.expect(Publish) for _ in range(2)]
        assert [(publish.payload, publish.retain) for publish in seen] == [(b"1", True), (b"0", True)]


@pytest.mark.parametrize(
    ("topic", "payload", "retain"),
    [
        (STATE.format("another"), b"1", True),
        (STATE.format("strict"), b"1", False),
        (STATE.format("strict"), b"2", True),
        (STATE.format("strict"), b"", True),
        (STATE.format("strict") + "/more", b"1", True),
        ("$SYS/broker/version", b"1", True),
        ("$SYS", b"1", True),
    ],
)
def test_nothing_else_under_sys(address: Address, topic: str, payload: bytes, retain: bool) -> None:
    """Clients may publish nothing else under $SYS, neither by PUBLISH nor as a will."""
    with WireClient(address, 5) as client:
        client.connect("strict")
        client.send(Publish(topic.encode(), payload, 1, retain, packet_id=1))
        assert client.expect(Puback).reason_code == reason_codes.NOT_AUTHORIZED
    with WireClient(address, 5) as client:
        assert client.connect("strict", will=Will(topic.encode(), payload, 0, retain)).reason_code == 0x87


@pytest.mark.parametrize("as_will", [False, True])
@pytest.mark.parametrize(
    ("payload", "retain", "why"),
    [
        (b"junk", True, ": the payload of a bridge's state has to be 1 or 0"),
        (b"1", False, ": a bridge's state has to be retained"),
    ],
)
def test_what_is_wrong_with_a_state(start: Start, payload: bytes, retain: bool, why: str, as_will: bool) -> None:
    """The log says what is wrong with a bridge's state that is refused: the topic is not."""
    broker, topic = start(), STATE.format("edge")
    with WireClient(broker.address(), 5) as client:
        if as_will:
            client.connect("edge", will=Will(topic.encode(), payload, 0, retain))
        else:
            client.connect("edge")
            client.send(Publish(topic.encode(), payload, 1, retain, packet_id=1))
            assert client.expect(Puback).reason_code == reason_codes.NOT_AUTHORIZED
        (refused,) = wait_for_event(broker, "client_refused" if as_will else "publish_refused")
    assert refused["detail"].endswith(f"'{topic}' is not permitted{why}")


def test_state_of_nobody(address: Address) -> None:
    """A CONNECT without a client id and with a will on a connection state is refused: no id, no such topic."""
    with WireClient(address, 5) as client:
        refused = client.connect("", will=Will(STATE.format("").encode(), b"0", 0, True))
        assert refused.reason_code == reason_codes.NOT_AUTHORIZED


@pytest.mark.parametrize(
    "rules", [{"bridge_state": False}, {"deny_publish": ["$SYS/broker/connection/#"]}], ids=["off", "denied"]
)
def test_state_can_be_refused(start: Start, rules: dict[str, object]) -> None:
    """`bridge_state: false` denies the state topics, and so does a filter under `deny_publish`."""
    with WireClient(start(sections={"authorization": rules}).address(), 5) as client:
        client.connect("c")
        client.send(Publish(STATE.format("c").encode(), b"1", 1, True, packet_id=1))
        assert client.expect(Puback).reason_code == reason_codes.NOT_AUTHORIZED


# -- with Mosquitto


class Pair:
    """Sluice, and Mosquitto with a bridge to it."""

    def __init__(self, start: Start, folder: Path, stack: ExitStack, lines: Sequence[str]) -> None:
        self._start = start
        self._folder = folder
        self._stack = stack
        self._port = free_port()
        self._lines = lines
        self.sluice = self.start_sluice()
        self.mosquitto = self.start_mosquitto()

    def start_sluice(self) -> BrokerProcess:
        """Start Sluice, always on the same port."""
        listener = {"name": "tcp", "bind": f"127.0.0.1:{self._port}"}
        self.sluice = self._start(sections={"listeners": [listener]})
        return self.sluice

    def start_mosquitto(self) -> BrokerProcess:
        """Start Mosquitto, which connects."""
        extra = [
            "log_type error",
            f"connection {NAME}",
            f"address 127.0.0.1:{self._port}",
            f"remote_clientid {NAME}",
            "restart_timeout 1",
            *self._lines,
        ]
        self.mosquitto = self._stack.enter_context(start_mosquitto(self._folder, extra=extra))
        return self.mosquitto

    def wait_for_state(self, state: bytes) -> None:
        """Wait until Sluice's clients can see that the bridge is connected, or that it is not."""
        with connected(self.sluice.address(), 5) as watcher:
            watcher.timeout = 30
            follow(watcher, STATE.format(NAME))
            while watcher.receive_message().payload != state:
                pass


@pytest.fixture
def pair(start: Start, tmp_path: Path) -> Iterator["MakePair"]:
    """Start a pair whose bridge has these lines in its configuration."""
    with ExitStack() as stack:
        yield MakePair(start, tmp_path, stack)


class MakePair:
    def __init__(self, start: Start, folder: Path, stack: ExitStack) -> None:
        self._parts = (start, folder, stack)

    def __call__(self, *lines: str) -> Pair:
        made = Pair(*self._parts, lines)
        made.wait_for_state(b"1")
        return made


def seen(client: WireClient) -> tuple[str, bytes, int, bool]:
    """The next message."""
    publish = client.receive_message()
    return publish.topic.decode(), publish.payload, publish.qos, publish.retain


@needs_mosquitto
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("clean", ["true", "false"])
def test_both_directions(pair: MakePair, version: int, qos: int, clean: str) -> None:
    """Each message of one side arrives on the other once, with its QoS and RETAIN, and does not come back."""
    made = pair(f"topic # both {qos}", f"bridge_protocol_version {VERSIONS[version]}", f"cleansession {clean}")
    with ExitStack() as stack:
        ends = {"ours": made.sluice.address(), "theirs": made.mosquitto.address()}
        followers = [stack.enter_context(connected(address, 5)) for address in ends.values()]
        for follower in followers:
            follow(follower, "#")
        for turn in range(3):  # what went back would come before what follows it
            for name, address in ends.items():
                sender = stack.enter_context(connected(address, version))
                for retain in (False, True):
                    sender.publish(f"{name}/{turn}", b"x", qos, retain=retain)
                    for follower in followers:
                        assert seen(follower) == (f"{name}/{turn}", b"x", qos, retain)


@needs_mosquitto
def test_prefixes(pair: MakePair) -> None:
    """Topics may have other prefixes on the other side."""
    made = pair("topic # both 1 here/ there/")
    with connected(made.sluice.address(), 5) as ours, connected(made.mosquitto.address(), 5) as theirs:
        ours.subscribe("#", qos=1)
        theirs.subscribe("#", qos=1)
        ours.publish("there/a", b"1")
        assert seen(theirs) == ("here/a", b"1", 0, False)
        theirs.publish("here/b", b"2")
        assert [seen(ours)[0] for _ in range(2)] == ["there/a", "there/b"]


@needs_mosquitto
@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("version", VERSIONS)
def test_burst(pair: MakePair, version: int, qos: int) -> None:
    """A burst arrives completely: the bridge never has more in flight than it can take."""
    made = pair(f"topic # in {qos}", f"bridge_protocol_version {VERSIONS[version]}", "max_queued_messages 0")
    with connected(made.sluice.address(), 4) as sender, connected(made.mosquitto.address(), 4) as theirs:
        theirs.subscribe("#")
        for number in range(500):
            sender.publish("burst", b"%d" % number, qos)
        assert [seen(theirs)[1] for _ in range(500)] == [b"%d" % number for number in range(500)]


@needs_mosquitto
@pytest.mark.parametrize("version", VERSIONS)
def test_bridge_that_dies(pair: MakePair, version: int) -> None:
    """The will of a bridge reports its end; a kept session gets what it missed after the reconnect."""
    made = pair("topic # in 1", f"bridge_protocol_version {VERSIONS[version]}", "cleansession false")
    made.mosquitto.ask_to_end(signal.SIGKILL)
    made.wait_for_state(b"0")
    with connected(made.sluice.address(), 5) as ours:
        ours.publish("missed", b"x", 1, retain=True)
    back = made.start_mosquitto()
    made.wait_for_state(b"1")
    with connected(back.address(), 5) as theirs:
        follow(theirs, "#", 1)  # it may have come before, or not
        assert seen(theirs) == ("missed", b"x", 1, True)


@needs_mosquitto
@pytest.mark.parametrize("version", VERSIONS)
def test_restart_of_sluice(pair: MakePair, version: int) -> None:
    """A bridge reconnects after a restart, and delivers what it could not send meanwhile."""
    made = pair("topic # both 1", f"bridge_protocol_version {VERSIONS[version]}", "cleansession false")
    made.sluice.stop()
    with connected(made.mosquitto.address(), 4) as theirs:
        theirs.publish("meanwhile", b"x", 1, retain=True)
    again = made.start_sluice()
    made.wait_for_state(b"1")
    with connected(again.address(), 5) as ours:
        follow(ours, "#", 1)
        assert seen(ours) == ("meanwhile", b"x", 1, True)


@needs_mosquitto
def test_bridge_without_state(start: Start, tmp_path: Path) -> None:
    """With `bridge_state: false` a bridge that publishes its state is refused, and the log names it and the reason."""
    broker = start(sections={"authorization": {"bridge_state": False}})
    extra = [f"connection {NAME}", f"address 127.0.0.1:{broker.address().port}", f"remote_clientid {NAME}", "topic #"]
    with start_mosquitto(tmp_path, extra=["log_type error", *extra]):
        (event, *_) = wait_for_event(broker, "client_refused")
    assert event["client_id"] == NAME
    assert event["reason"] == "Not authorized"
    assert STATE.format(NAME) in event["detail"]
