"""/metrics: what a scrape counts, by listener, QoS and reason, and whether Prometheus can read it."""

import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from broker.admin.prometheus import _buckets
from protocol import properties as props
from protocol.acknowledgements import Puback
from protocol.connect import Connect
from protocol.publish import Publish
from session.histogram import BUCKETS
from tests.broker.conftest import Start
from tests.support.broker.admin import Unix, request
from tests.support.broker.collecting import collect
from tests.support.broker.events import wait_for_event
from tests.support.brokers import Listener
from tests.support.process import BrokerProcess
from tests.support.session.buckets import bucket_of
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

pytestmark = pytest.mark.once


class Metrics:
    """One scrape, by name and labels."""

    def __init__(self, path: Path) -> None:
        answer = request(path, "/metrics")
        assert (answer.status, answer.headers["content-type"].startswith("text/plain; version=")) == (200, True)
        self.text = answer.text
        self.families = list(text_string_to_metric_families(answer.text))
        self._samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families
            for sample in family.samples
        }

    def value(self, name: str, **labels: object) -> float:
        """The value of one sample."""
        return self._samples[name, frozenset((key, str(value)) for key, value in labels.items())]


@pytest.fixture
def broker(start: Start, tmp_path: Path) -> BrokerProcess:
    """A broker whose exports take the counters of its sessions again and again."""
    metrics = {"directory": str(tmp_path / "metrics"), "interval": "100ms"}
    sections: Any = {
        "admin": {"socket": "a.sock"},
        "metrics": metrics,
        "session": {"max_mqueue_len": 3, "overflow_patience": 0},
        "persistence": {"directory": str(tmp_path / "journal")},
    }
    broker = start(sections=sections)
    wait_for_event(broker, "admin_socket")
    return broker


@pytest.fixture
def path(broker: BrokerProcess) -> Path:
    """Its admin socket."""
    return broker.folder / "a.sock"


def test_refused_clients(broker: BrokerProcess, path: Path) -> None:
    """Clients that are refused, or break the protocol, are counted by listener and reason; by $SYS all together."""
    with WireClient(broker.address(), 4) as wrong, connected(broker.address(), 5) as second:
        assert wrong.connect("", clean_start=False).reason_code != 0
        second.send(Connect("again", version=5))
        second.expect_close()
    metrics = Metrics(path)
    for reason in ("Client identifier not valid", "Protocol error"):
        assert metrics.value("sluice_clients_refused_total", listener="tcp", reason=reason) == 1


@pytest.mark.parametrize("version", [4, 5])
def test_disconnects(broker: BrokerProcess, path: Path, version: int) -> None:
    """Clients that had a session are counted by the reason why they were disconnected; others are not."""
    address = broker.address()
    own = "Normal disconnection" if version == 4 else "Disconnect with will message"

    def count(reason: str) -> float:
        return Metrics(path).value("sluice_disconnects_total", reason=reason)

    assert count("Keep alive timeout") == 0  # there before the first one: a rate needs a zero before
    socket.create_connection(address).close()
    with connected(address, version, client_id="leaves") as client:
        client.disconnect(0 if version == 4 else 4)
    with connected(address, version, client_id="vanishes") as client:
        client.reset()
    with connected(address, version, client_id="twin"), connected(address, version, client_id="twin"):
        wait_until(lambda: count("Session taken over") == 1, "the take-over is counted")
        with connected(address, version, client_id="breaks a rule") as client:
            client.send(b"\x00\x00")
            client.expect_close()
        with connected(address, version, client_id="silent", keep_alive=1) as client:
            client.expect_close()
        with connected(address, version, client_id="guest") as client:
            assert request(path, "/api/v1/clients/guest", "DELETE").status == 200
            client.expect_close()
        once = (own, "Malformed packet", "Keep alive timeout", "Administrative action")
        wait_until(lambda: [count(reason) for reason in once] == [1] * len(once), "each is counted")
    wait_until(lambda: count("Connection lost") == 2, "those that vanished are counted")
    samples = [sample for family in Metrics(path).families for sample in family.samples]
    total = sum(sample.value for sample in samples if sample.name == "sluice_disconnects_total")
    assert total == len(once) + 1 + 2


def test_counts(broker: BrokerProcess, path: Path) -> None:
    """Counters are those of sessions that are there, have ended, and whose counters an export has taken."""
    one: Any = {props.RECEIVE_MAXIMUM: 1}
    with (
        connected(broker.address(), 5, client_id="slow", properties=one) as slow,
        connected(broker.address(), 5, client_id="sender") as sender,
    ):
        slow.subscribe("t", qos=1)
        for _ in range(6):  # one in the window, three in the mqueue, two are dropped
            sender.publish("t", b"12345", 1)
        sender.publish("t", b"12345", 0)
        sender.expect_nothing_more()
        slow.send(Puback(slow.expect(Publish).packet_id))
        slow.expect(Publish)

        def is_counted() -> bool:
            metrics = Metrics(path)
            sent = metrics.value("sluice_deliveries_sent_total", listener="tcp", qos=1)
            return sent == 2

        wait_until(is_counted, "both are counted")
        metrics = Metrics(path)
        assert metrics.value("sluice_publish_received_total", listener="tcp", qos=1) == 6
        assert metrics.value("sluice_publish_received_total", listener="tcp", qos=0) == 1
        assert metrics.value("sluice_publish_received_bytes_total", listener="tcp") == 35
        assert metrics.value("sluice_deliveries_offered_total", listener="tcp", qos=1) == 6
        assert metrics.value("sluice_deliveries_gated_total", listener="tcp", reason="window_full") == 1
        full: Any = {"listener": "tcp", "reason": "queue_full", "qos": 1}
        assert metrics.value("sluice_deliveries_dropped_total", connected="true", **full) == 3
        assert metrics.value("sluice_deliveries_dropped_total", connected="false", **full) == 0
        assert metrics.value("sluice_deliveries_acknowledged_total", listener="tcp", qos=1) == 1
        assert metrics.value("sluice_delivery_wait_seconds_count", listener="tcp", qos=1) == 2
        assert metrics.value("sluice_acknowledgement_seconds_count", listener="tcp", qos=1) == 1
        assert metrics.value("sluice_sessions", listener="tcp", connected="true") == 2
        assert metrics.value("sluice_sessions_window_full", listener="tcp") == 1
        assert metrics.value("sluice_mqueue_deliveries", listener="tcp") == 2
        assert metrics.value("sluice_ready") == 1
        assert metrics.value("sluice_connections") == 2
    wait_until(lambda: Metrics(path).value("sluice_sessions", listener="tcp", connected="true") == 0, "they have gone")
    after = Metrics(path)
    assert after.value("sluice_publish_received_total", listener="tcp", qos=1) == 6
    assert after.value("sluice_deliveries_sent_total", listener="tcp", qos=1) == 2
    ended: Any = {"listener": "tcp", "reason": "session_ended", "qos": 1}
    assert after.value("sluice_deliveries_dropped_total", connected="false", **ended) == 1


def test_a_client_that_comes_by_another_listener(start: Start, tmp_path: Path) -> None:
    """What was counted for one listener stays there: a counter that goes down looks like a restart."""
    listeners = (Listener(), Listener("other"))
    session: Any = {"max_mqueue_len": 3, "overflow_patience": 0}
    broker = start(listeners, sections={"admin": {"socket": "a.sock"}, "session": session})
    wait_for_event(broker, "admin_socket")
    path = tmp_path / "a.sock"
    dropped: Any = {"name": "sluice_deliveries_dropped_total", "reason": "queue_full", "qos": 1, "connected": "false"}

    def totals() -> list[float]:
        metrics = Metrics(path)
        sent = [metrics.value("sluice_deliveries_sent_total", listener=name, qos=1) for name in ("tcp", "other")]
        return [*sent, *(metrics.value(listener=name, **dropped) for name in ("tcp", "other"))]

    with connected(broker.address(), 4, client_id="kept", clean_start=False) as kept:
        kept.subscribe("t", qos=1)
    with connected(broker.address(), 5) as sender:
        for _ in range(5):
            sender.publish("t", b"x", 1)
        wait_until(lambda: totals() == [0, 0, 2, 0], "two are dropped")
        with connected(broker.address("other"), 4, client_id="kept", clean_start=False) as kept:
            for _ in range(3):
                kept.receive_message()
            wait_until(lambda: totals() == [0, 3, 2, 0], "all is where it was counted")
        with connected(broker.address(), 4, client_id="kept", clean_start=False):
            for _ in range(3):  # one may have begun before the client came back
                assert totals() == [0, 3, 2, 0]


def test_no_series_for_clients(broker: BrokerProcess, path: Path) -> None:
    """Clients, topics and user names make no series, however many there are."""
    with connected(broker.address(), 5, client_id="first") as first:
        first.subscribe("t")
        before = Metrics(path)
        clients = [connected(broker.address(), 5, client_id=f"client {number}") for number in range(20)]
        for client in clients:
            client.subscribe("t", "u", qos=1)
        wait_until(lambda: Metrics(path).value("sluice_connections") == 21, "all count")
        after = Metrics(path)
        assert sum(len(each.samples) for each in after.families) == sum(len(each.samples) for each in before.families)
        assert "client" not in {label for each in after.families for one in each.samples for label in one.labels}
        assert "client 7" not in after.text
        collect(first)
    for client in clients:
        client.close()


def test_openmetrics(path: Path) -> None:
    """Who asks for OpenMetrics gets it, whole and once ended."""
    connection = Unix(path)
    connection.request("GET", "/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    assert str(answer.getheader("content-type")).startswith("application/openmetrics-text; version=1.0.0")
    assert (text.count("# EOF"), text.endswith("# EOF\n")) == (1, True)
    families = openmetrics.text_string_to_metric_families(text)  # type: ignore[no-untyped-call]  # it has no types
    names = {family.name for family in families}
    assert {"sluice_build", "sluice_deliveries_sent", "process_resident_memory_bytes"} <= names


def test_every_family_has_help(path: Path) -> None:
    """Each family has a text, and counters end in _total, as Prometheus's conventions ask for."""
    for family in Metrics(path).families:
        assert family.documentation
        assert family.name.startswith(("sluice_", "process_"))
        if family.type == "counter":
            assert {sample.name for sample in family.samples} <= {f"{family.name}_total"}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)")
def test_promtool(path: Path) -> None:
    """Prometheus's own check finds nothing wrong."""
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=Metrics(path).text, capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_buckets() -> None:
    """Times are in the bucket of the first bound that is no smaller, up to the width of a bucket of the session's."""
    counts = [0] * BUCKETS
    for us in (0, 50, 100, 5_000, 2_000_000, 10**9):
        counts[bucket_of(us)] += 1
    buckets, total = _buckets(counts)
    found = dict(buckets)
    assert [found[bound] for bound in ("6.4e-05", "0.000256", "0.016384", "1.04858", "4.1943", "268.435", "+Inf")] == [
        2,
        3,
        4,
        4,
        5,
        5,
        6,
    ]
    assert total == pytest.approx(1002.0, rel=0.07)
