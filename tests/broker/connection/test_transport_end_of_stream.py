"""The end of a stream: all data before it counts, over TCP and TLS, however the client ends it [MQTT-3.14.4-3]."""

import shutil
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from protocol.connect import Will
from protocol.disconnect import Disconnect
from protocol.publish import Publish
from tests.broker.conftest import Start
from tests.support.brokers import LOOPS, Listener
from tests.support.certificates import Certificates
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

LISTENERS = ["tcp", "tls"]
SECTIONS = {"session": {"max_mqueue_len": "infinity"}}


@contextmanager
def watching(broker: BrokerProcess, count: int, wills: int = 0) -> Iterator[None]:
    """Whatever happens in the block, `count` messages in order, and `wills` wills, are what a subscriber gets of it."""
    with connected(broker.address(), 4, client_id="watcher") as watcher:
        watcher.subscribe("t", qos=0)
        watcher.subscribe("will", qos=0)
        before = broker.open_files()
        yield
        received = [watcher.receive_message() for _ in range(count)]
        assert [message.payload for message in received] == [b"%d" % number for number in range(count)]
        wait_until(lambda: broker.open_files() <= before, "the client is gone")
        for _ in range(wills):
            assert watcher.receive_message().topic == b"will"
        watcher.expect_nothing_more()


@pytest.fixture(params=LOOPS)
def running(start: Start, certificates: Certificates, request: pytest.FixtureRequest) -> BrokerProcess:
    """A broker that drops nothing, on either loop."""
    return start((Listener(), Listener("tls", certificates)), sections=SECTIONS, command=LOOPS[request.param])


@pytest.mark.parametrize("listener", LISTENERS)
def test_paho(running: BrokerProcess, certificates: Certificates, listener: str) -> None:
    """paho publishes 1,000 messages and disconnects at once: all arrive."""
    for _ in range(3):
        with watching(running, 1_000):
            client = mqtt.Client(CallbackAPIVersion.VERSION2)
            client.will_set("will")
            if listener == "tls":
                client.tls_set(str(certificates.cafile))
            client.connect(*running.address(listener))
            client.loop_start()
            wait_until(client.is_connected, "paho is connected")
            for number in range(1_000):
                client.publish("t", b"%d" % number)
            client.disconnect()
            client.loop_stop()


@pytest.mark.parametrize("listener", LISTENERS)
def test_mosquitto_pub(running: BrokerProcess, certificates: Certificates, listener: str) -> None:
    """mosquitto_pub -l publishes each line that it reads, then disconnects: all lines arrive."""
    if shutil.which("mosquitto_pub") is None:
        pytest.skip("mosquitto_pub is not installed (Debian: mosquitto-clients)")
    host, port = running.address(listener)
    command = ["mosquitto_pub", "-h", host, "-p", str(port), "-t", "t", "-l", "--will-topic", "will"]
    if listener == "tls":
        command += ["--cafile", str(certificates.cafile)]
    lines = b"".join(b"%d\n" % number for number in range(2_000))
    for _ in range(3):
        with watching(running, 2_000):
            subprocess.run(command, input=lines, check=True, timeout=30)


def goodbye(client: WireClient) -> None:
    """Say close_notify, and do not wait for the answer, which may have come already."""
    assert isinstance(client.socket, ssl.SSLSocket)
    client.socket.settimeout(0)
    with suppress(ssl.SSLWantReadError):
        client.socket.unwrap()


@pytest.mark.parametrize("end", ["tcp", "tls", "close_notify"])
def test_publish_and_go(running: BrokerProcess, certificates: Certificates, end: str) -> None:
    """2,000 PUBLISHes and DISCONNECT in one write all arrive, with and without close_notify."""
    tls = None if end == "tcp" else certificates.client_context(with_certificate=False)
    packets = [*[Publish(b"t", b"%d" % number) for number in range(2_000)], Disconnect()]
    for _ in range(3):
        with (
            watching(running, 2_000),
            WireClient(running.address("tls" if tls else "tcp"), 4, tls=tls) as client,
        ):
            client.connect(will=Will(b"will", b"", 0, False))
            client.send(*packets)
            if end == "close_notify":
                goodbye(client)
            client.close()


@pytest.mark.parametrize("listener", LISTENERS)
def test_without_disconnect(running: BrokerProcess, certificates: Certificates, listener: str) -> None:
    """All messages of a client that closes without DISCONNECT arrive, then its will [MQTT-3.1.2-8]."""
    tls = certificates.client_context(with_certificate=False) if listener == "tls" else None
    for _ in range(3):
        with watching(running, 2_000, wills=1), WireClient(running.address(listener), 4, tls=tls) as client:
            client.connect(will=Will(b"will", b"", 0, False))
            client.send(*[Publish(b"t", b"%d" % number) for number in range(2_000)])
            client.close()


@pytest.mark.parametrize("listener", LISTENERS)
def test_reset(running: BrokerProcess, certificates: Certificates, listener: str) -> None:
    """All messages that arrived before a client resets its connection are delivered."""
    tls = certificates.client_context(with_certificate=False) if listener == "tls" else None
    for _ in range(3):
        with watching(running, 2_000), WireClient(running.address(listener), 4, tls=tls) as client:
            client.connect(will=Will(b"will", b"", 0, False))
            client.send(*[Publish(b"t", b"%d" % number) for number in range(2_000)], Disconnect())
            client.reset()
