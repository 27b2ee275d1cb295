"""deploy/prometheus/alerts.yaml: each alert fires once, for a broker that is in the state that it is about."""

import itertools
import os
import re
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import psutil
import pytest
import yaml

from protocol import properties as props
from protocol import reason_codes
from protocol.acknowledgements import Puback
from protocol.publish import Publish
from tests.deploy.test_prometheus import RULES
from tests.support.broker.admin import request
from tests.support.broker.bridged import Remote, RemoteConnection
from tests.support.broker.events import wait_for_event
from tests.support.brokers import start_sluice
from tests.support.certificates import make_certificates
from tests.support.process import Address, BrokerProcess
from tests.support.prometheus import firing, health, prometheus, values
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="Prometheus is not installed (Debian: prometheus)"),
]

TOKEN: Final = "a token of Prometheus"
ONE: Final[Any] = {props.RECEIVE_MAXIMUM: 1}
ALERTS: Final = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
LONG_WAIT: Final = 17.5
"""Seconds: more than the wait that SluiceDeliveriesWaitLong is about."""

FULL: Final = {"SluiceJournalFull", "SluiceJournalNearlyFull", "SluiceNotReady"}
"""About a broker whose journal fills up."""
LARGE: Final = {"SluiceMemoryHigh", "SluiceDown"}
"""About one that has too much memory, and then ends."""
BUSY: Final = {each["alert"] for each in ALERTS} - FULL - LARGE
"""All others: about one whose clients and files are in many kinds of trouble."""


def quick(rules: str) -> str:
    """The same rules, without `for`, and five seconds for each minute of a range, and of the age of what waits."""
    rules = rules.replace("oldest_seconds > 60", "oldest_seconds > 5")
    return re.sub(r"\[(\d+)m\]", lambda found: f"[{5 * int(found[1])}s]", re.sub(r"(?m)^ +for: .*\n", "", rules))


def start(stack: ExitStack, folder: Path, **sections: Any) -> tuple[BrokerProcess, Address]:
    """A broker with these sections, and where it is scraped."""
    folder.mkdir()
    tokens = [{"name": "prometheus", "sha256": sha256(TOKEN.encode()).hexdigest()}]
    sections["admin"] = {"listen": "127.0.0.1:0", "tokens": tokens}
    broker = stack.enter_context(start_sluice(folder, sections=sections))
    (listening,) = wait_for_event(broker, "admin_listening")
    return broker, Address("127.0.0.1", listening["port"])


def kept(broker: BrokerProcess, client_id: str, *filters: str) -> None:
    """A client subscribes at QoS 1, and leaves; its session stays."""
    with connected(broker.address(), client_id=client_id, clean_start=False) as client:
        client.subscribe(*filters, qos=1)


def flood(broker: BrokerProcess, topic: str, qos: int = 1, count: int = 10, size: int = 1) -> None:
    """Publish more than a queue takes."""
    with connected(broker.address()) as publisher:
        for _ in range(count):
            publisher.publish(topic, bytes(size), qos)


def stuck(stack: ExitStack, broker: BrokerProcess, topic_filter: str) -> None:
    """A client subscribes, and reads and acknowledges nothing."""
    client = stack.enter_context(WireClient(broker.address(), 5, receive_buffer=4096))
    client.connect(properties=ONE)
    client.subscribe(topic_filter, qos=1)


def busy(stack: ExitStack, folder: Path, remote: Remote) -> tuple[BrokerProcess, Address]:
    """A broker with small limits, files, a listener that lets nobody in, a certificate, and a bridge."""
    (folder.parent / "users").write_text("")
    server = make_certificates(folder.parent).server
    tls = {"certfile": str(server.certfile), "keyfile": str(server.keyfile)}
    listeners: list[Any] = [{"name": "tcp", "bind": "127.0.0.1:0"}, {"name": "tls", "bind": "127.0.0.1:0", "tls": tls}]
    listeners.append({"name": "closed", "bind": "127.0.0.1:0", "allow_anonymous": False})
    slow = {"check_period": "1s"}
    session = {"max_mqueue_len": 3, "overflow_patience": 0, "stalled_window": "1s", "slow_consumer": slow}
    return start(
        stack,
        folder,
        listeners=listeners,
        session=session,
        addresses=[{"match": "full/#", "max_size_bytes": 2, "full_policy": "drop"}],
        authentication={"password_file": str(folder.parent / "users")},
        metrics={"directory": str(folder / "metrics"), "interval": "200ms"},
        bridges=[{"name": "up", "address": remote.address, "topics": [{"filter": "bridged"}]}],
    )


def trouble_clients(stack: ExitStack, broker: BrokerProcess) -> None:
    """Clients that are slow, stuck, away, refused or lost."""
    stuck(stack, broker, "stuck")
    stuck(stack, broker, "$share/group/shared")
    kept(broker, "away", "away", "full/x")
    stuck(stack, broker, "unread")
    for topic in ("stuck", "shared", "away", "full/x"):
        flood(broker, topic)
    flood(broker, "unread", 0, 100, 100_000)
    for client in [connected(broker.address()) for _ in range(60)]:
        client.reset()
    for _ in range(150):
        with WireClient(broker.address("closed")) as client:
            assert client.connect().reason_code != 0


def trouble_bridge(broker: BrokerProcess, remote: Remote, connection: RemoteConnection) -> None:
    """A bridge whose remote broker refuses a message, and then is gone, while more messages come."""
    flood(broker, "bridged", count=1)
    connection.send(Puback(connection.expect(Publish).packet_id, reason_codes.NOT_AUTHORIZED))
    remote.close()
    wait_for_event(broker, "bridge_failed")
    flood(broker, "bridged", count=3)


def trouble_files(broker: BrokerProcess) -> None:
    """Files that are missing, or wrong, and a certificate that expires soon."""
    make_certificates(broker.folder.parent, datetime.now(UTC) + timedelta(days=10))
    (broker.folder.parent / "users").unlink()
    with (broker.folder / "sluice.yaml").open("a") as file:
        file.write("nonsense: 1\n")
    os.kill(broker.pid, signal.SIGHUP)
    metrics = broker.folder / "metrics"
    metrics.rename(broker.folder / "moved")
    metrics.write_text("not a folder")


def guess(where: Address) -> None:
    """Somebody guesses tokens."""
    for _ in range(150):
        request(where, "/metrics", token="wrong")


def fill(broker: BrokerProcess) -> None:
    """Publish messages to retain until there is no room for more."""
    with connected(broker.address(), 5) as publisher:
        topics = (f"retained/{number}" for number in itertools.count())
        while publisher.publish(next(topics), bytes(4096), 1, retain=True) != reason_codes.QUOTA_EXCEEDED:
            pass


def pause(broker: BrokerProcess, seconds: float) -> None:
    """Nothing of it runs for a while."""
    process = psutil.Process(broker.pid)
    process.suspend()
    wait_for(seconds)
    process.resume()


def wait_for(seconds: float) -> None:
    """Until so much time has passed: it is what the alert is about."""
    end = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= end, "the time has passed", seconds + 1)


def limit_files(broker: BrokerProcess) -> None:
    """It may open a few more, and no others."""
    _, hard = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (broker.open_files() * 9 // 8, hard))


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """What ends with the test."""
    with ExitStack() as entered:
        yield entered


def test_each_alert_fires(stack: ExitStack, tmp_path: Path) -> None:
    """Prometheus fires each alert about a broker in its state, and none about one that is well."""
    remote = stack.enter_context(Remote())
    brokers = {
        "busy": busy(stack, tmp_path / "busy", remote),
        "full": start(stack, tmp_path / "full", persistence={"directory": "journal", "max_bytes": "64KiB"}),
        "large": start(stack, tmp_path / "large", memory_watermark="1MiB"),
    }
    (tmp_path / "rules.yaml").write_text(quick(RULES.read_text()))
    (tmp_path / "token").write_text(TOKEN)
    scrape = {
        "job_name": "sluice",
        "authorization": {"credentials_file": "token"},
        "static_configs": [
            {"targets": [f"{at.host}:{at.port}"], "labels": {"instance": name}} for name, (_, at) in brokers.items()
        ],
    }
    often = {"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "250ms"}
    file = tmp_path / "prometheus.yml"
    file.write_text(yaml.safe_dump({"global": often, "rule_files": ["rules.yaml"], "scrape_configs": [scrape]}))
    fired: dict[str, set[str]] = {name: set() for name in brokers}

    def have_fired(instance: str, wanted: set[str]) -> bool:
        fired[instance] |= firing(where, instance)
        return fired[instance] >= wanted

    def wait_for_alerts(instance: str, wanted: set[str]) -> None:
        try:
            wait_until(lambda: have_fired(instance, wanted), "all alerts have fired", 60)
        except TimeoutError as error:
            raise TimeoutError(f"{instance}: never fired: {wanted - fired[instance]}") from error

    broker, where_admin = brokers["busy"]
    connection = remote.accepted()
    kept(broker, "late", "late")
    flood(broker, "late", count=3)
    since = time.monotonic()
    with prometheus(file, tmp_path) as where:
        wait_until(lambda: values(where, "max_over_time(up[5m])") == ["1"] * len(brokers), "all have been scraped", 60)
        wait_until(lambda: set(health(where)) == {"ok"}, "each rule has been evaluated")
        wait_for_alerts("large", {"SluiceMemoryHigh"})
        too_early = firing(where, "busy") | firing(where, "full")
        assert too_early <= {"SluiceDown", "SluiceEventLoopLate"}  # a machine may be too busy to answer in time
        fill(brokers["full"][0])
        trouble_clients(stack, broker)
        trouble_bridge(broker, remote, connection)
        trouble_files(broker)
        guess(where_admin)
        wait_for_alerts("busy", BUSY - {"SluiceDeliveriesWaitLong", "SluiceOpenFiles", "SluiceEventLoopLate"})
        wait_for_alerts("full", FULL)
        pause(broker, 0.7)
        brokers["large"][0].stop()
        wait_for_alerts("large", LARGE)
        wait_for_alerts("busy", {"SluiceEventLoopLate"})
        wait_for(since + LONG_WAIT - time.monotonic())
        with connected(broker.address(), client_id="late", clean_start=False) as late:
            for _ in range(3):
                late.receive_message()
        limit_files(broker)
        wait_for_alerts("busy", BUSY)


NEAR_MISSES: Final[dict[str, tuple[dict[str, str], set[str]]]] = {
    "only clients that are away lose something": (
        {
            'sluice_deliveries_dropped_total{reason="queue_full", qos="1", connected="false"}': "0+10x20",
            'sluice_deliveries_dropped_total{reason="queue_full", qos="1", connected="true"}': "0x20",
        },
        {"SluiceDropsOfAwayClients"},
    ),
    "a client that was away lost something once": (
        {'sluice_deliveries_dropped_total{reason="queue_full", qos="1", connected="false"}': "0x16 10x4"},
        set(),
    ),
    "many clients leave by themselves": (
        {
            'sluice_disconnects_total{reason="Normal disconnection"}': "0+100x20",
            'sluice_disconnects_total{reason="Connection lost"}': "0+5x20",
            'sluice_sessions{connected="true"}': "10x20",
        },
        set(),
    ),
    "a few of very many clients are lost": (
        {
            'sluice_disconnects_total{reason="Connection lost"}': "0+100x20",
            'sluice_sessions{connected="true"}': "10000x20",
        },
        set(),
    ),
    "a journal is as large as it may be, and compaction can halve it": (
        {
            "sluice_journal_bytes": "100x20",
            "sluice_journal_live_bytes": "50x20",
            "sluice_journal_max_bytes": "100x20",
            "sluice_journal_disk_room_bytes": "1e12x20",
        },
        set(),
    ),
    "a disk fills, whatever fills it": (
        {
            "sluice_journal_live_bytes": "50x20",
            "sluice_journal_max_bytes": "1e18x20",
            "sluice_journal_disk_room_bytes": "1e8x20",
        },
        {"SluiceJournalNearlyFull"},
    ),
    "an export hangs": (
        {
            "sluice_export_success_timestamp_seconds": "60x20",
            "sluice_export_interval_seconds": "10x20",
            "sluice_export_failures_total": "0x20",
        },
        {"SluiceExportFailing"},
    ),
    "deliveries wait for 5 to 16 s": (
        {
            'sluice_delivery_wait_seconds_bucket{qos="1", le="4.1943"}': "0x20",
            'sluice_delivery_wait_seconds_bucket{qos="1", le="16.7772"}': "0+9x20",
            'sluice_delivery_wait_seconds_bucket{qos="1", le="67.1089"}': "0+9x20",
            'sluice_delivery_wait_seconds_bucket{qos="1", le="+Inf"}': "0+9x20",
        },
        set(),
    ),
    "a certificate is valid for another month": (
        {'sluice_certificate_expiry_timestamp_seconds{listener="tls"}': "2592000x20"},
        set(),
    ),
    "a bridge is down for a minute": ({'sluice_bridge_down{bridge="up"}': "0x18 1x2"}, set()),
    "a bridge sends what has waited long": (
        {
            'sluice_bridge_queue_deliveries{bridge="up"}': "1000-10x20",
            'sluice_bridge_oldest_seconds{bridge="up"}': "300x20",
        },
        set(),
    ),
    "a bridge has more to send, and sends it soon": (
        {
            'sluice_bridge_queue_deliveries{bridge="up"}': "0+10x20",
            'sluice_bridge_oldest_seconds{bridge="up"}': "2x20",
        },
        set(),
    ),
    "another program has few open files left": ({"process_open_fds": "99x20", "process_max_fds": "100x20"}, set()),
}
"""What is seen each minute, and what then fires after 20 minutes."""


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)")
def test_near_misses(tmp_path: Path) -> None:
    """The rules with their times fire about the states that they name, and about no others that look alike."""
    tests = [
        {
            "name": name,
            "interval": "1m",
            "input_series": [{"series": one, "values": values} for one, values in series.items()],
            "promql_expr_test": [
                {
                    "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                    "eval_time": "20m",
                    "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in sorted(fires)],
                }
            ],
        }
        for name, (series, fires) in NEAR_MISSES.items()
    ]
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
