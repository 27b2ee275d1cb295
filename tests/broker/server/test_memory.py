"""The memory watermark (FC-32) of a running broker: what is refused, what goes on, and how it ends."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.server import memory
from config import Config, machine
from protocol import properties as props
from protocol.acknowledgements import Puback
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.properties import Properties
from protocol.publish import encode_publish
from tests.broker.conftest import Start
from tests.support.broker.admin import listed, request
from tests.support.broker.events import events, wait_for_event
from tests.support.broker.local import LocalBroker
from tests.support.broker.reloads import reload, rewrite
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

KEPT: Properties = {props.SESSION_EXPIRY_INTERVAL: 3600}
QUOTA_EXCEEDED = 0x97
MIB = 1024 * 1024
ROOM = 60 * MIB
"""Between what the broker takes and the watermark."""
SIZE = 900_000


def ready(broker: BrokerProcess) -> tuple[int, list[str]]:
    """What /ready says."""
    answer = request(broker.folder / "a.sock", "/ready")
    return answer.status, answer.json["reasons"]


def put(sender: WireClient, topic: str, payload: bytes, retain: bool = False) -> int:
    """PUBLISH at QoS 1; returns the reason code of PUBACK."""
    sender.send(encode_publish(topic.encode(), payload, 1, retain, False, 1, None, 5))
    return sender.expect(Puback).reason_code


def come(broker: BrokerProcess, client_id: str, kept: bool) -> tuple[WireClient, Connack]:
    """A client connects, without a clean start."""
    client = WireClient(broker.address(), 5, timeout=20)
    client.send(Connect(client_id, False, 0, properties=KEPT if kept else None, version=5))
    return client, client.expect(Connack)


@pytest.fixture
def full(start: Start) -> Iterator[tuple[BrokerProcess, int]]:
    """A broker above its watermark, because a kept session is away; and how many messages wait for it."""
    session = {"max_mqueue_len": "infinity", "max_mqueue_bytes": "infinity", "overflow_patience": 0}
    broker = start(sections={"admin": {"socket": "a.sock"}, "session": session})
    wait_for_event(broker, "admin_socket")
    away, _ = come(broker, "away", True)
    away.subscribe("large", qos=1)
    away.disconnect()
    file = broker.folder / "sluice.yaml"
    file.write_text(file.read_text() + f"memory_watermark: {broker.rss() + ROOM}\n")
    assert reload(broker).json["changed"] == ["memory_watermark"]
    with connected(broker.address(), 5) as sender:
        count = 0
        while not events(broker, "memory_high"):
            assert put(sender, "large", bytes(SIZE)) == 0
            count += 1
            assert count < 1000
        (row,) = listed(broker.folder / "a.sock", "sessions", "client_id=away")["items"]
        assert 0 <= count - row["mqueue_len"] == row["dropped"] < 10  # sent before the event was read
        yield broker, row["mqueue_len"]


def test_nothing_new_is_taken_on(full: tuple[BrokerProcess, int]) -> None:
    """FC-32: nothing is retained and no new session kept; smaller ones in place, and who is there, are let in."""
    broker, _ = full
    assert ready(broker) == (503, ["the memory is above memory_watermark"])
    with connected(broker.address(), 5) as sender:
        assert put(sender, "r", b"x", retain=True) == QUOTA_EXCEEDED
    refused, connack = come(broker, "new", True)
    assert connack.reason_code == QUOTA_EXCEEDED
    refused.close()
    for client_id, kept in (("new", False), ("away", True)):
        client, connack = come(broker, client_id, kept)
        assert connack.reason_code == 0
        client.close()
    with connected(broker.address(), 4) as older:
        older.send(encode_publish(b"r", b"x", 1, True, False, 1, None, 4))
        older.expect_close()
    older, connack = WireClient(broker.address(), 4), Connack()
    with older:
        older.send(Connect("older", False, 0, version=4))
        assert older.expect(Connack).reason_code == 3
    text = request(broker.folder / "a.sock", "/metrics").text
    assert "sluice_memory_high 1.0" in text
    assert 'sluice_quota_reached_total{quota="memory_watermark"} 4.0' in text


def test_what_is_acknowledged_stays_and_it_ends(full: tuple[BrokerProcess, int]) -> None:
    """FC-32: large queues take no more, others get all; what waited arrives whole, and then everything is taken on."""
    broker, count = full
    with connected(broker.address(), 5) as sender, connected(broker.address(), 5) as reader:
        reader.subscribe("#", qos=1)
        for number in range(3):
            sender.send(encode_publish(b"large", bytes([number]) * 10, 1, False, False, number + 1, None, 5))
        assert [reader.receive_message().payload for _ in range(3)] == [bytes([number]) * 10 for number in range(3)]
    away, connack = come(broker, "away", True)
    assert connack.session_present
    with away:
        assert [len(away.receive_message().payload) for _ in range(count)] == [SIZE] * count
        away.expect_nothing_more()
        wait_for_event(broker, "memory_low", seconds=20)
        assert ready(broker) == (200, [])
        with connected(broker.address(), 5) as sender:
            assert put(sender, "r", b"x", retain=True) in {0, 0x10}
            assert put(sender, "large", b"again") == 0
        assert away.receive_message().payload == b"again"


def test_publishers_are_held_back(full: tuple[BrokerProcess, int]) -> None:
    """FC-32: a publisher is read once a second, and everything it sends arrives in the end; others are answered."""
    broker, _ = full
    with connected(broker.address(), 5) as reader, connected(broker.address(), 5) as sender:
        reader.subscribe("t", qos=1)
        sender.socket.settimeout(20)
        for number in range(4):
            sender.publish("t", bytes([number]), 1)
            assert reader.receive_message().payload == bytes([number])
            reader.expect_nothing_more()
    assert [event["resident_bytes"] >= event["memory_watermark"] for event in events(broker, "memory_high")] == [True]


def test_taken_away(full: tuple[BrokerProcess, int], tmp_path: Path) -> None:
    """FC-32: without a watermark in the configuration it ends with the reload."""
    broker, _ = full
    rewrite(broker)
    file = broker.folder / "sluice.yaml"
    lines = [line for line in file.read_text().splitlines() if not line.startswith("memory_watermark")]
    file.write_text("\n".join(lines))
    assert reload(broker).json["changed"] == ["memory_watermark"]
    wait_until(lambda: ready(broker)[0] == 200, "it is ready")
    with connected(broker.address(), 5) as sender:
        assert put(sender, "r", b"x", retain=True) in {0, 0x10}


def test_free_memory_is_returned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """When a growth is over, the system gets back what is free; not while it goes on, and not again after that."""
    sizes = [100, 101, 400, 700, 701, 110, 110, 111, 125, 130, 130, 130]  # MiB, at one look after the other
    trimmed: list[int] = []
    with LocalBroker() as local:
        watch = memory.MemoryWatch(local.broker)
        for number, size in enumerate(sizes):
            monkeypatch.setattr(memory, "resident_bytes", lambda size=size: size * MIB)
            monkeypatch.setattr(memory, "trim", lambda number=number: trimmed.append(number))
            local.run(lambda number=number: watch.look((number + 1) * memory.SETTLED))  # type: ignore[misc]
        local.complete(local.loop.shutdown_default_executor())
    assert trimmed == [4, 10]


def test_freed_memory_is_kept() -> None:
    """Blocks of the size of large packets are not paid for with page faults each time."""
    code = (
        "import resource as r; from broker.server.memory import keep_freed; keep_freed()\n"
        "for number in range(50):\n"
        "    if number == 2: before = r.getrusage(r.RUSAGE_SELF).ru_minflt\n"
        "    blocks = [bytearray(1_000_000 + number) for _ in range(10)]; del blocks\n"
        "print(r.getrusage(r.RUSAGE_SELF).ru_minflt - before)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(ran.stdout) < 1_000


def test_the_default_follows_the_machine(start: Start) -> None:
    """FC-32: without configuration the log says at the start what the watermark is, and the API says it too."""
    allowed = machine.memory()
    broker = start(sections={"admin": {"socket": "a.sock"}})
    (event,) = wait_for_event(broker, "memory_watermark")
    assert event["bytes"] == max(allowed.bytes // 4 * 3 // MIB * MIB, 96 * MIB)
    assert event["detail"].endswith(f" of {allowed.of}")
    wait_for_event(broker, "listening")
    named = [each["event"] for each in events(broker)]
    assert named.index("memory_watermark") < named.index("listening")
    rows = request(broker.folder / "a.sock", "/api/v1/configuration").json
    assert [(row["value"], row["source"]) for row in rows if row["key"] == "memory_watermark"] == [
        ("auto", f"default: {event['detail']}")
    ]


def test_no_watermark(start: Start) -> None:
    """FC-32: `infinity` turns it off, and nothing is said of it."""
    broker = start(sections={"memory_watermark": "infinity"})
    wait_for_event(broker, "listening")
    assert events(broker, "memory_watermark") == []


def test_below_the_watermark_no_publish_is_checked() -> None:
    """FC-32: whether a message may be retained is asked only beyond the watermark, and until that is over."""
    with LocalBroker() as local:
        broker = local.broker
        watermark = broker.quotas.watermark
        watch = memory.MemoryWatch(broker)
        guards = [broker.retained.guard]
        for watermark.high in (1, 1 << 60):
            local.run(lambda: watch.look(0))
            guards.append(broker.retained.guard)
    assert [guard is not None for guard in guards] == [False, True, False]


def test_a_reload_finds_more_memory() -> None:
    """FC-32: what the container allows may have changed since the start: a reload finds it out."""
    with LocalBroker() as local:
        watermark = local.broker.quotas.watermark
        before, watermark.high = watermark.high, 1
        local.complete(local.broker.use(Config(), Config()))
        assert watermark.high == before > 1


def test_watermark_below_an_empty_broker(start: Start) -> None:
    """A broker whose own memory is above its watermark is not ready, and says at the start that it will not be."""
    broker = start(sections={"admin": {"socket": "a.sock"}, "memory_watermark": "30MiB"})
    (event,) = wait_for_event(broker, "memory_watermark_low")
    assert "found 30 MiB, but the process itself needs up to 96 MiB" in event["detail"]
    wait_until(lambda: ready(broker) == (503, ["the memory is above memory_watermark"]), "the broker is not ready")
