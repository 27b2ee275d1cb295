"""The trace: what it shows of packets and decisions, who may ask, and that clients do not notice."""

import threading
from pathlib import Path
from typing import Any, Final, cast

import pytest

from broker.admin.api.tracing import Tracing
from broker.admin.client import AdminError, stream
from broker.admin.managed import Managed
from broker.admin.trace.trace import Wanted
from protocol import properties as props
from protocol.acknowledgements import Puback
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from tests.broker.admin.api.conftest import OPERATOR, VIEWER
from tests.broker.conftest import Start
from tests.support.broker.admin import request
from tests.support.broker.bridged import Remote, bridge, publish, ring
from tests.support.broker.collecting import collect
from tests.support.broker.events import events, wait_for_event
from tests.support.broker.local import LocalBroker
from tests.support.broker.tokens import SECRET, public, token
from tests.support.brokers import Listener
from tests.support.certificates import Certificates
from tests.support.process import Address, BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

pytestmark = pytest.mark.once

PATIENCE: Final = 60.0
ONE: Final[Any] = {props.RECEIVE_MAXIMUM: 1}


class Watcher:
    """A trace, read in a thread until it ends."""

    def __init__(self, path: Path, **query: object) -> None:
        self.lines: list[dict[str, Any]] = []
        self.error = ""
        self._thread = threading.Thread(target=self._read, args=(path, {"seconds": 300} | query))
        self._thread.start()
        wait_until(lambda: bool(self.lines) or bool(self.error), "the trace begins", PATIENCE)

    def _read(self, path: Path, query: dict[str, object]) -> None:
        try:
            for line in stream(path, "/trace", query):
                self.lines.append(line)
        except AdminError as error:
            self.error = str(error)

    def told(self, event: str, text: str = "", packet: str | None = None) -> list[dict[str, Any]]:
        """The lines of an event whose text has this part, after waiting for one."""

        def found() -> list[dict[str, Any]]:
            return [
                each
                for each in list(self.lines)
                if each["event"] == event and text in each["text"] and packet in (None, each["packet"])
            ]

        wait_until(lambda: bool(found()), f"{event} {packet} {text}: {self.lines}", PATIENCE)
        return found()

    def end(self) -> None:
        """Wait until it has ended."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()


@pytest.fixture
def watched(start: Start, tmp_path: Path, certificates: Certificates) -> tuple[BrokerProcess, Path]:
    """A broker of its own: only one trace can run."""
    listeners = (Listener(), Listener("tls", certificates), Listener("ws", websocket=True))
    broker = start(listeners, sections={"admin": {"socket": "a.sock"}, "session": {"max_mqueue_len": 2}})
    wait_for_event(broker, "admin_socket")
    return broker, tmp_path / "a.sock"


def end(broker: BrokerProcess, watcher: Watcher) -> None:
    """Have the trace end: it runs at most as long as its broker."""
    broker.stop()
    watcher.end()


def test_no_local(watched: tuple[BrokerProcess, Path]) -> None:
    """Who has subscribed with No Local is not said to get its own message."""
    broker, path = watched
    at = broker.address()
    with connected(at, 5, client_id="a") as client, connected(at, 5, client_id="b") as other:
        client.send(Subscribe(7, [Subscription("t/1", 1, no_local=True)]))
        client.expect(Suback)
        watcher = Watcher(path, topic_filter="t/1")
        client.publish("t/1", qos=1)
        watcher.told("routed", "to nobody: only its publisher has subscribed, with No Local")
        other.subscribe("t/1")
        client.publish("t/1", qos=1)
        watcher.told("routed", "to 'b'")
        with connected(at, 5) as third:
            third.publish("t/1", qos=1)
        watcher.told("routed", "to 'b', 'a'")
    end(broker, watcher)


def test_a_bridge(start: Start, tmp_path: Path) -> None:
    """What comes in by a bridge is said to be routed by its name here."""
    with Remote() as remote:
        own = bridge(remote, {"filter": "t/#", "direction": "in", "remote_prefix": "there/", "local_prefix": "here/"})
        broker = start(sections=own | {"admin": {"socket": "a.sock"}})
        wait_for_event(broker, "admin_socket")
        connection = remote.accepted(filters=1)
        with connected(broker.address(), 5, client_id="a") as client:
            client.subscribe("here/t/#")
            watcher = Watcher(tmp_path / "a.sock", client_id="$bridge/up")
            connection.send(Publish(b"there/t/1", b"", 1, packet_id=1))
            watcher.told("routed", "to 'a'")
        end(broker, watcher)


def test_a_bridge_over_websocket(watched: tuple[BrokerProcess, Path], tmp_path: Path) -> None:
    """A trace that runs does not keep a bridge from connecting, and shows its packets."""
    own = {"name": "up", "address": f"ws://127.0.0.1:{watched[0].address('ws').port}", "topics": [{"filter": "out/#"}]}
    path = tmp_path / "b.sock"
    with ring(tmp_path, "a") as brokers:
        near = brokers.start("a", own | {"start": "lazy", "lazy_threshold": 1}, admin={"socket": str(path)})
        wait_for_event(near, "admin_socket")
        watcher = Watcher(path, client_id="$bridge/up")
        publish(near, "out/1", b"x")
        watcher.told("sent", packet="PUBLISH")
        watcher.told("acknowledged", packet="PUBACK")
    watcher.end()


def test_client(watched: tuple[BrokerProcess, Path]) -> None:
    """A client's packets are shown from CONNECT to its end, with its user name, without password and payload."""
    broker, path = watched
    watcher = Watcher(path, client_id="pump")
    with WireClient(broker.address(), 5) as client, connected(broker.address(), 5, client_id="other") as other:
        client.send(Connect("pump", True, username="ann", password=b"geheim", version=5))
        client.expect(Connack)
        client.subscribe("a/#", qos=1)
        other.publish("a/b", b"message", 1)
        client.receive_message()
        client.publish("c/d", b"message", 1)
        client.publish("a/c", b"message", 0)
        client.receive_message()
        client.disconnect()
    (connect,) = watcher.told("received", packet="CONNECT")
    assert "user 'ann', with a password" in connect["text"]
    watcher.told("sent", "Success", "CONNACK")
    watcher.told("received", "a/# QoS 1", "SUBSCRIBE")
    watcher.told("sent", "QoS 1", "SUBACK")
    (sent, *_) = watcher.told("sent", "QoS 1, id 1, 7 bytes", "PUBLISH")
    assert (sent["topic"], sent["client_id"], sent["address"]) == ("a/b", "pump", "127.0.0.1")
    watcher.told("acknowledged", "id 1", "PUBACK")
    watcher.told("routed", "to nobody")
    watcher.told("routed", "to 'pump'")
    watcher.told("sent", "No matching subscribers (0x10)", "PUBACK")
    watcher.told("received", packet="DISCONNECT")
    watcher.told("closed")
    assert not [each for each in watcher.lines if each["client_id"] == "other" or "other" in each["text"]]
    assert "geheim" not in str(watcher.lines)
    assert "message" not in str(watcher.lines)
    end(broker, watcher)


def test_token_as_a_name(start: Start, tmp_path: Path) -> None:
    """A token that is sent as the user name is in no line, also of a login that succeeds; whose it is is shown."""
    key = public(SECRET, tmp_path / "key")
    jwt = {"algorithms": ["HS256"], "key_file": str(key), "sent_as": "username"}
    sections: dict[str, Any] = {"admin": {"socket": "a.sock"}, "authentication": {"jwt": jwt}, "allow_anonymous": None}
    broker = start(sections=sections)
    wait_for_event(broker, "admin_socket")
    watcher = Watcher(tmp_path / "a.sock", client_id="pump")
    with WireClient(broker.address(), 5) as client:
        client.send(Connect("pump", True, username=token(SECRET, "HS256"), version=5))
        assert client.expect(Connack).reason_code == 0
        client.publish("c/d", b"message", 1)
    watcher.told("received", "user (not shown: it may be a token)", "CONNECT")
    assert {each["user"] for each in watcher.told("routed")} == {"ann"}
    assert "eyJ" not in str(watcher.lines)
    end(broker, watcher)


def test_decisions(watched: tuple[BrokerProcess, Path]) -> None:
    """For a topic it is shown who gets a message, and why it waits or is dropped; payloads if that is asked for."""
    broker, path = watched
    with (
        connected(broker.address(), 5, client_id="slow", properties=ONE) as slow,
        connected(broker.address(), 5, client_id="sender") as sender,
    ):
        slow.subscribe("t/#", qos=1)
        watcher = Watcher(path, topic_filter="t/+", payload=True)
        for number in range(5):
            sender.publish("t/1", b"payload %d" % number, 1)
        sender.publish("u/1", b"payload", 1)
        sender.publish("t/1", b"qos 0")
        watcher.told("received", "QoS 1, id 1, 9 bytes, payload 'payload 0'", "PUBLISH")
        watcher.told("routed", "to 'slow'")
        (queued, *_) = watcher.told("queued", "window full")
        assert queued["client_id"] == "slow"
        watcher.told("dropped", "queue full")
        watcher.told("gated", "the window is full")
        watcher.told("sent", "payload 'payload 0'", "PUBLISH")
        first = slow.expect(Publish)
        slow.send(Puback(first.packet_id))
        watcher.told("acknowledged", f"id {first.packet_id}", "PUBACK")
        assert {each["topic"] for each in watcher.lines if each["packet"] == "PUBLISH"} == {"t/1"}
    end(broker, watcher)


def test_clients_do_not_notice(watched: tuple[BrokerProcess, Path], certificates: Certificates) -> None:
    """Bursts through TCP and TLS arrive whole and in order while a trace begins and ends in their midst."""
    broker, path = watched
    context = certificates.client_context(with_certificate=False)
    expected = [b"%d" % number for number in range(300)]
    for tls in (None, context):
        with WireClient(broker.address("tls" if tls else "tcp"), 4, tls=tls, timeout=PATIENCE) as client:
            client.connect()
            client.subscribe("burst")
            packets = b"".join(Publish(b"burst", each).encode(4) for each in expected)
            cut = len(packets) // 2 + 1
            client.send(packets[:cut])  # the second half of a packet comes when the trace has begun
            watcher = Watcher(path, address="::ffff:127.0.0.1" if tls else "127.0.0.1", limit=50)
            client.send(packets[cut:])
            assert [each.payload for each in collect(client)] == expected
            watcher.end()
            assert (watcher.lines[-1]["event"], watcher.lines[-1]["text"]) == ("ended", "the limit of lines is reached")
            assert len(watcher.lines) == 51
            client.publish("burst", b"after", 1)


def test_websocket_and_time(watched: tuple[BrokerProcess, Path]) -> None:
    """WebSocket is shown as well; a trace ends with its time, and then another can begin, one at a time."""
    broker, path = watched
    watcher = Watcher(path, client_id="x", seconds=2)
    assert "another trace runs" in Watcher(path, client_id="y").error
    watcher.end()
    assert [each["text"] for each in watcher.lines][-1] == "the time is over"
    again = Watcher(path, client_id="y")
    end(broker, again)


def test_who_may(broker: BrokerProcess, path: Path, tcp: Address) -> None:
    """Operators only; each trace is in the audit log; without anything to look for it is refused."""
    target = "/api/v1/trace?client_id=nobody&seconds=0.1"
    assert [request(tcp, target, token=token).status for token in ("", VIEWER, OPERATOR)] == [401, 403, 200]
    assert events(broker, "audit")[-1]["target"] == "client nobody"
    assert "0.1 s, 1000 lines, without payloads" in events(broker, "audit")[-1]["result"]
    for query in ("", "?topic_filter=a%23", "?address=here", "?client_id=a&seconds=9999", "?client_id=a&limit=0"):
        assert request(path, f"/api/v1/trace{query}").status == 422


@pytest.mark.parametrize("read", [True, False], ids=["read", "not read"])
def test_one_at_a_time(read: bool) -> None:
    """A trace keeps others out from when it is granted until its answer ends, whether anybody reads it or not."""
    with LocalBroker() as local:
        tracing = Tracing(cast(Managed, local))

        async def answer() -> None:
            first = tracing.take(Wanted(), 10, False)
            assert first is not None
            assert tracing.take(Wanted(), 10, False) is None
            lines = tracing.events(first, 0.01, lambda: True)
            if read:
                assert ["began" in line or "ended" in line async for line in lines] == [True, True]
            tracing.give_back(first)
            second = tracing.take(Wanted(), 10, False)
            assert second is not None
            tracing.give_back(first)  # of an answer that ends late
            assert tracing.take(Wanted(), 10, False) is None

        local.complete(answer())
