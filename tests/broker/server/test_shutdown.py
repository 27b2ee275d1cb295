"""How the broker stops: what clients get, which wills are published, and that no client delays it beyond the limit."""

import signal
import socket
import ssl
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.connect import Will
from protocol.disconnect import Disconnect
from protocol.packet import Packet
from protocol.properties import Properties
from protocol.publish import Publish
from tests.broker.conftest import Start
from tests.support.broker.events import events, wait_for_event
from tests.support.broker.metrics import read_rows
from tests.support.broker.reloads import reload, rewrite
from tests.support.brokers import SLUICE, Listener
from tests.support.certificates import Certificates
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

pytestmark = pytest.mark.once

MAIN = "from broker.cli.main import main; main()"
NO_WILLS = "import broker.server.shutdown; broker.server.shutdown.WILLS_TIMEOUT = 0; "
NO_DELIVERIES = "import broker.server.shutdown; broker.server.shutdown.DELIVERIES_TIMEOUT = 0; "
SHORT_STOP = "import broker.server.server; broker.server.server.STOP_TIMEOUT = 0.3; "
LOOPS = {"uvloop": "", "asyncio": "import sys; sys.modules['uvloop'] = None; "}
KEPT: Properties = {props.SESSION_EXPIRY_INTERVAL: 1000}


def will(topic: str, qos: int = 1, delay: int = 0) -> Will:
    """A will that says where it came from."""
    properties: Properties = {props.WILL_DELAY_INTERVAL: delay} if delay else {}
    return Will(topic.encode(), topic.encode(), qos, False, properties or None)


def topics(packets: list[Packet]) -> list[str]:
    """The topics of the PUBLISHes among these."""
    return [packet.topic.decode() for packet in packets if isinstance(packet, Publish)]


# -- what clients are told


def test_another_server(start: Start) -> None:
    """With `mqtt.redirect_to`, which a reload has set, new clients go there at once, and the others when it stops."""
    with start(sections={"admin": {"socket": "a.sock"}}) as broker:
        wait_for_event(broker, "admin_socket")
        with connected(broker.address(), 5) as client, connected(broker.address(), 4) as old:
            rewrite(broker, mqtt={"redirect_to": "other:1883"})
            assert reload(broker).json["changed"] == ["mqtt.redirect_to"]
            with WireClient(broker.address(), 5) as new:
                refused = new.connect()
            broker.ask_to_end()
            told = client.expect(Disconnect)
            old.expect_close()
        for answer in (refused, told):
            assert answer.reason_code == reason_codes.USE_ANOTHER_SERVER
            assert (answer.properties or {})[props.SERVER_REFERENCE] == "other:1883"


# -- wills


@pytest.mark.parametrize("version", [4, 5])
def test_wills(start: Start, version: int) -> None:
    """[MQTT-3.1.2-8]: the wills of disconnected clients reach the others before their DISCONNECT."""
    with start() as broker, ExitStack() as stack:
        watcher = stack.enter_context(connected(broker.address(), version))
        watcher.subscribe("will/#", qos=2)
        for number in range(3):
            client = stack.enter_context(WireClient(broker.address(), number % 2 + 4))
            client.connect(will=will(f"will/{number}", number))
        broker.ask_to_end()
        packets = watcher.until_close()
        assert sorted(topics(packets)) == ["will/0", "will/1", "will/2"]
        if version == 5:
            last = packets[-1]
            assert isinstance(last, Disconnect)
            assert last.reason_code == reason_codes.SERVER_SHUTTING_DOWN
        assert broker.stop() == 0


DEFAULT_SIGNALS = "import signal; [signal.signal(n, signal.SIG_DFL) for n in (signal.SIGHUP, signal.SIGINT)]; "
"""The tests may themselves run where these are ignored, as under nohup."""


@pytest.mark.parametrize("loop", LOOPS)
def test_interrupt(start: Start, tmp_path: Path, loop: str) -> None:
    """SIGINT stops the broker as SIGTERM does: DISCONNECT, wills, the last metrics."""
    sections = {"metrics": {"directory": str(tmp_path / "metrics"), "interval": "1h"}}
    command = [sys.executable, "-c", DEFAULT_SIGNALS + LOOPS[loop] + MAIN]
    with (
        start(sections=sections, command=command) as broker,
        connected(broker.address(), 5) as watcher,
        connected(broker.address(), 4, will=will("will/of-a-client")),
    ):
        watcher.subscribe("will/#", qos=1)
        broker.ask_to_end(signal.SIGINT)
        *packets, last = watcher.until_close()
        assert topics(packets) == ["will/of-a-client"]
        assert isinstance(last, Disconnect)
        assert last.reason_code == reason_codes.SERVER_SHUTTING_DOWN
        assert broker.stop() == 0
        assert sum(int(row["offered_qos1"]) for row in read_rows(tmp_path / "metrics")) == 1


def test_nohup(start: Start) -> None:
    """SIGHUP is ignored if it was at the start, as under nohup."""
    with start(command=["nohup", *SLUICE]) as broker:
        status = Path(f"/proc/{broker.pid}/status").read_text()
        (ignored,) = (int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigIgn:"))
        assert ignored >> (signal.SIGHUP - 1) & 1


def test_delayed_wills(start: Start) -> None:
    """[MQTT5 3.1.3.2.2]: delayed wills are published when the broker stops, because sessions end then."""
    with start() as broker, connected(broker.address(), 5) as watcher:
        watcher.subscribe("will/#", qos=1)
        with connected(broker.address(), 5, properties=KEPT, will=will("will/gone", delay=500)):
            pass
        with connected(broker.address(), 5, properties=KEPT, will=will("will/there", delay=500)):
            watcher.expect_nothing_more()
            broker.ask_to_end()
            assert sorted(topics(watcher.until_close())) == ["will/gone", "will/there"]
        assert broker.stop() == 0


def test_no_will_after_goodbye(start: Start) -> None:
    """[MQTT-3.14.4-3]: the will of a client that has sent DISCONNECT is not published, a delayed one only once."""
    with start() as broker, connected(broker.address(), 5) as watcher:
        watcher.subscribe("will/#")
        connected(broker.address(), 5, properties=KEPT, will=will("will/no")).disconnect()
        connected(broker.address(), 5, will=will("will/yes", delay=500)).close()  # its session ends at once
        assert watcher.receive_message().topic == b"will/yes"
        broker.ask_to_end()
        assert topics(watcher.until_close()) == []


def test_what_has_been_taken_in_is_sent(start: Start) -> None:
    """What the broker has acknowledged is written to subscribers that read, before the DISCONNECT."""
    with (
        start() as broker,
        connected(broker.address(), 5) as reader,
        connected(broker.address(), 5) as publisher,
    ):
        reader.subscribe("t", qos=0)
        publisher.send(*[Publish(b"t", b"x")] * 200, Publish(b"t", b"x", 1, packet_id=1))
        publisher.receive()
        broker.ask_to_end()
        assert len(topics(reader.until_close())) == 201


# -- the time limit


@contextmanager
def stuck_clients(broker: BrokerProcess, listener: str, tls: ssl.SSLContext | None) -> Iterator[None]:
    """Clients that read nothing while megabytes wait for each; one has a will, one has a delayed will."""
    wills = [None, will("will/stuck"), will("will/stuck", delay=100)]
    with ExitStack() as stack:
        clients = []
        for one in wills:
            client = WireClient(broker.address(listener), 5, tls=tls, receive_buffer=4096)
            stack.callback(client.reset)
            client.connect(will=one, properties=KEPT)
            client.subscribe("t", qos=1)
            clients.append(client)
        sender = stack.enter_context(connected(broker.address(), 5))
        for _ in range(10):
            sender.publish("t", bytes(500_000), 1)
        yield


@pytest.mark.parametrize("listener", ["tcp", "tls"])
@pytest.mark.parametrize("loop", LOOPS)
def test_stuck_clients(start: Start, certificates: Certificates, loop: str, listener: str) -> None:
    """Clients that do not read delay the stop no longer than its limit, and others get their wills."""
    command = (sys.executable, "-c", LOOPS[loop] + SHORT_STOP + MAIN)
    tls = certificates.client_context(with_certificate=False) if listener == "tls" else None
    with (
        start((Listener(), Listener("tls", certificates)), command=command) as broker,
        stuck_clients(broker, listener, tls),
        connected(broker.address(), 5) as watcher,
    ):
        watcher.subscribe("will/#")
        before = time.monotonic()
        broker.ask_to_end()
        assert topics(watcher.until_close()) == ["will/stuck"] * 2
        assert broker.stop(10) == 0
        assert time.monotonic() - before < 5
        assert events(broker, "stopped")[0]["connections"] == 5


def test_too_many_wills(start: Start) -> None:
    """Wills that exceed the time limit are given up and logged; all clients get their DISCONNECT."""
    command = (sys.executable, "-c", NO_WILLS + MAIN)
    with start(command=command) as broker, connected(broker.address(), 5) as watcher:
        watcher.subscribe("will/#")
        with connected(broker.address(), 5, properties=KEPT, will=will("will/gone", delay=500)):
            pass
        with connected(broker.address(), 5, will=will("will/there")) as client:
            watcher.expect_nothing_more()
            broker.ask_to_end()
            for one in (watcher, client):
                goodbye = one.expect_close()
                assert isinstance(goodbye, Disconnect)
                assert goodbye.reason_code == reason_codes.SERVER_SHUTTING_DOWN
        assert broker.stop() == 0
        assert events(broker, "wills_lost")[0]["count"] == 2


def test_too_many_deliveries(start: Start) -> None:
    """Deliveries that a session has not sent in time are dropped; its client gets its DISCONNECT."""
    command = (sys.executable, "-c", NO_DELIVERIES + MAIN)
    with (
        start(command=command) as broker,
        connected(broker.address(), 5, properties=KEPT) as watcher,
        connected(broker.address(), 5, will=will("will/there")),
    ):
        watcher.subscribe("will/#", qos=1)
        broker.ask_to_end()
        packets = watcher.until_close()
        assert topics(packets) == []
        assert isinstance(packets[-1], Disconnect)
        assert broker.stop() == 0


@pytest.mark.parametrize("loop", LOOPS)
def test_handshakes_do_not_hold_it_up(start: Start, certificates: Certificates, loop: str) -> None:
    """Connections without CONNECT, or in the middle of a TLS handshake, do not delay the stop."""
    command = (sys.executable, "-c", LOOPS[loop] + MAIN)
    with (
        start((Listener(), Listener("tls", certificates)), command=command) as broker,
        socket.create_connection(broker.address()),
        socket.create_connection(broker.address("tls")) as in_tls,
    ):
        idle = broker.open_files()
        with socket.create_connection(broker.address("tls")):
            in_tls.sendall(b"\x16\x03\x01\x02\x00")
            wait_until(lambda: broker.open_files() > idle, "all have been accepted")
            before = time.monotonic()
            assert broker.stop(10) == 0
            assert time.monotonic() - before < 4


def test_many_clients(start: Start) -> None:
    """Each of many clients gets its DISCONNECT."""
    with start() as broker, ExitStack() as stack:
        clients = [stack.enter_context(connected(broker.address(), 5)) for _ in range(200)]
        broker.ask_to_end()
        for client in clients:
            goodbye = client.expect_close()
            assert isinstance(goodbye, Disconnect)
            assert goodbye.reason_code == reason_codes.SERVER_SHUTTING_DOWN
        assert broker.stop() == 0
        assert events(broker, "stopped")[0]["connections"] == 200


def test_asked_again_and_again(start: Start) -> None:
    """A broker that is asked to end again while it ends does so with its own status."""
    broker = start(command=(SLUICE[0], "-c", MAIN))
    process = psutil.Process(broker.pid)
    with suppress(psutil.NoSuchProcess):
        while process.status() != psutil.STATUS_ZOMBIE:
            process.terminate()
    assert broker.stop() == 0
