"""The topics under $SYS: which there are, what they say, and that the numbers are right whoever takes counters away."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path

import pytest

from broker import __version__
from broker.telemetry import sys_topics
from broker.telemetry.sys_topics import LoadAverages, SysTopics
from protocol import properties as props
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.connect import Connect
from protocol.disconnect import Disconnect
from protocol.ping import Pingreq
from protocol.publish import Publish
from protocol.subscribe import Subscribe, Subscription
from protocol.unsubscribe import Unsubscribe
from tests.broker.conftest import Start
from tests.support.broker.exporting import Bench, send, until
from tests.support.broker.local import LocalBroker, LocalClient
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

FAST = {"mqtt": {"sys_interval": "100ms"}}
MINUTES = ("1min", "5min", "15min")
LOADS = [f"{what}/{way}" for what in ("messages", "publish", "bytes") for way in ("received", "sent")]
LOADS += ["publish/dropped", "sockets", "connections"]
TOPICS = {
    "version",
    "uptime",
    *(f"clients/{name}" for name in ("total", "connected", "active", "disconnected", "inactive", "maximum", "expired")),
    *(f"messages/{name}" for name in ("received", "sent", "inflight", "stored")),
    *(f"publish/messages/{name}" for name in ("received", "sent", "dropped")),
    *("publish/bytes/received", "publish/bytes/sent", "bytes/received", "bytes/sent"),
    *("store/messages/count", "retained messages/count", "subscriptions/count", "shared_subscriptions/count"),
    *("slow_consumers/total", "stalled_windows/total", "awaiting_rel/parked"),
    *(f"load/{name}/{minutes}" for name in LOADS for minutes in MINUTES),
}
"""All that there are, without $SYS/broker/: Mosquitto's names, as its manual page has them, FC-14's and FC-22's."""


def name(message: Publish) -> str:
    """A topic without $SYS/broker/."""
    return message.topic.decode().removeprefix("$SYS/broker/")


def read(client: WireClient, topics: set[str] = TOPICS) -> dict[str, str]:
    """What the retained messages say at this moment."""
    client.subscribe("$SYS/#")
    values: dict[str, str] = {}
    while set(values) != topics:
        message = client.receive_message()
        values[name(message)] = message.payload.decode()
    return values


class Values:
    """The topics of a broker without sockets, updated when asked: nobody but the test adds to the numbers."""

    def __init__(self, local: LocalBroker, retain: bool = True, addresses: bool = False) -> None:
        self.local = local
        self.topics = local.run(lambda: SysTopics(local.broker, 10.0, retain, addresses))

    def update(self) -> None:
        """Have them published."""
        self.local.complete(self.topics.update())

    def now(self, *names: str) -> list[str]:
        """What these say after an update."""
        self.update()
        return [self.published(name) for name in names]

    def published(self, topic: str) -> str:
        """What this says since the last update."""
        (publish,) = self.local.broker.retained.matching(f"$SYS/broker/{topic}".encode(), 0)
        return publish.payload.decode()


# -- over sockets


def test_topics(start: Start) -> None:
    """They are retained, there as soon as the broker is, and say what the broker is and for how long."""
    with start(sections=FAST) as broker, connected(broker.address(), 5) as client:
        values = read(client)
        assert values["version"] == f"sluice version {__version__}"
        number, unit = values["uptime"].split()
        assert (int(number) < 30, unit) == (True, "seconds")


def test_updates(start: Start) -> None:
    """What has changed is published again, to subscribers without RETAIN, and kept for others."""
    with start(sections=FAST) as broker, connected(broker.address(), 5) as watcher:
        watcher.subscribe("$SYS/broker/clients/connected", qos=1)
        with connected(broker.address(), 4), connected(broker.address(), 4):
            while (message := watcher.receive_message()).payload != b"3":
                pass
            assert (message.retain, message.qos) == (False, 1)
            with connected(broker.address(), 4) as another:
                another.subscribe("$SYS/broker/clients/+")
                found = {another.receive_message().topic for _ in range(7)}
                assert len(found) == 7


@pytest.mark.parametrize("topic_filter", ["#", "+/#", "+/broker/uptime"])
def test_not_for_wildcards(start: Start, topic_filter: str) -> None:
    """[MQTT-4.7.2-1]: a wildcard at the first level does not match them, retained or new."""
    with (
        start(sections=FAST) as broker,
        connected(broker.address(), 4) as watcher,
        connected(broker.address(), 4) as other,
    ):
        other.subscribe("$SYS/broker/bytes/received")
        watcher.subscribe(topic_filter)
        watcher.expect_nothing_more()
        before = other.receive_message().payload
        while other.receive_message().payload == before:
            pass
        watcher.expect_nothing_more()


def test_none(start: Start) -> None:
    """With an interval of infinity there are none."""
    with start(sections={"mqtt": {"sys_interval": "infinity"}}) as broker, connected(broker.address(), 5) as client:
        client.subscribe("$SYS/#")
        client.expect_nothing_more()


def test_without_retained_messages(start: Start) -> None:
    """Where nothing can be retained all are published at each interval, for who has come meanwhile."""
    sections = {"mqtt": {"sys_interval": "100ms", "retain_available": False}}
    with start(sections=sections) as broker, connected(broker.address(), 5) as client:
        client.subscribe("$SYS/broker/version")
        for _ in range(2):
            assert not client.receive_message().retain


def test_few_levels(start: Start) -> None:
    """Topics with more levels than are allowed are left out."""
    with (
        start(sections={"mqtt": {"sys_interval": "100ms", "max_topic_levels": 4}}) as broker,
        connected(broker.address(), 5) as client,
    ):
        client.subscribe("$SYS/#")
        wanted = {topic for topic in TOPICS if topic.count("/") < 2}
        found = {name(client.receive_message()) for _ in wanted}
        assert found == wanted


def test_metrics_export_changes_nothing(start: Start, tmp_path: Path) -> None:
    """The totals of sessions are the same while their counters are exported all the time, and when they have ended."""
    sections = {**FAST, "metrics": {"directory": str(tmp_path / "metrics"), "interval": "100ms"}}
    with start(sections=sections) as broker, connected(broker.address(), 5) as watcher:
        watcher.subscribe("$SYS/broker/publish/messages/received")
        for number in range(1, 6):
            with connected(broker.address(), 5) as client:
                for qos in range(3):
                    client.publish("t", b"x", qos)
                client.publish("t", b"x", 1)
                while watcher.receive_message().payload != str(4 * number).encode():
                    pass
        wait_until(lambda: any((tmp_path / "metrics").rglob("*.parquet")), "a metrics file")


# -- the numbers


def test_clients() -> None:
    """Who is connected, who is away and who has expired; the most at once stays."""
    with LocalBroker() as local:
        values = Values(local)
        names = [f"clients/{name}" for name in ("total", "connected", "disconnected", "maximum", "expired")]
        assert values.now(*names) == ["0", "0", "0", "0", "0"]
        kept, other = local.client(), local.client()
        kept.connect("kept", properties={props.SESSION_EXPIRY_INTERVAL: 10})
        other.connect("other")
        assert values.now(*names) == ["2", "2", "0", "2", "0"]
        kept.drop()
        assert values.now(*names, "clients/active", "clients/inactive") == ["2", "1", "1", "2", "0", "1", "1"]
        local.pass_time(12)
        assert values.now(*names) == ["1", "1", "0", "2", "1"]
        other.send(Disconnect())
        assert values.now(*names) == ["0", "0", "0", "2", "1"]


def test_subscriptions_and_what_is_held() -> None:
    """Subscriptions, shared ones by themselves, retained messages, and deliveries that wait or are on their way."""
    with LocalBroker() as local:
        values = Values(local)
        names = ["subscriptions/count", "shared_subscriptions/count", "messages/inflight", "messages/stored"]
        values.update()
        ours = int(values.now("retained messages/count")[0])
        assert ours == len(TOPICS)
        client, away = local.client(), local.client()
        client.connect("client")
        away.connect("away", properties={props.SESSION_EXPIRY_INTERVAL: 10})
        for topic_filter in ("a", "b/+", "$share/group/c"):
            client.subscribe(topic_filter, 1)
        away.subscribe("a", 1)
        away.drop()
        assert values.now(*names) == ["3", "1", "0", str(ours)]
        client.send(Publish(b"a", b"x", 1, packet_id=1), Publish(b"c", b"x", 1, retain=True, packet_id=2))
        assert values.now(*names, "retained messages/count") == ["3", "1", "2", str(ours + 4), str(ours + 1)]
        client.send(Puback(1), Puback(2), Unsubscribe(3, ["b/+", "$share/group/c"]))
        assert values.now(*names) == ["2", "0", "0", str(ours + 2)]


def every_exchange(client: LocalClient) -> tuple[int, int]:
    """Send at least one of each packet that a client sends; returns how many that were, and how many came back."""
    sent = [
        Connect("client", version=5),
        Subscribe(1, [Subscription("t", 2)]),
        *[Publish(b"t", b"four", qos, packet_id=qos) for qos in range(3)],
        *[Pingreq(), Pubrel(2)],
        *[Puback(1), Pubrec(2), Pubcomp(2)],
        *[Publish(b"nobody", b"is there", 2, packet_id=9), Publish(b"nobody", b"is there", 2, packet_id=9), Pubrel(9)],
        *[Pubrec(77), Pubrel(77), Unsubscribe(2, ["t"])],
        Disconnect(),
    ]
    came_back = 0
    for packet in sent:
        client.send(packet)
        came_back += len(client.received())
    assert client.gone
    return len(sent), came_back


def test_packets_and_messages() -> None:
    """Packets and PUBLISHes both ways, and their payload bytes."""
    with LocalBroker() as local:
        values = Values(local)
        sent, came_back = every_exchange(local.client())
        assert values.now("messages/received", "messages/sent") == [str(sent), str(came_back)]
        assert values.now("publish/messages/received", "publish/messages/sent") == ["4", "3"]
        assert values.now("publish/bytes/received", "publish/bytes/sent") == ["20", "12"]
        assert values.now("load/connections/1min") == values.now("load/sockets/1min")


def test_bytes() -> None:
    """Bytes are counted as they are read and written."""
    with LocalBroker() as local:
        values = Values(local)
        client, read, written = local.client(), 0, 0
        packets = [Connect("c", version=5), Subscribe(1, [Subscription("t", 1)]), *[Publish(b"t", bytes(9999))] * 3]
        for data in [*[packet.encode(5) for packet in packets], b"\xc0", b"\xff"]:  # at last a PINGREQ that goes wrong
            client.send(data)
            read += len(data)
            written += client.transport.get_write_buffer_size()
            client.received()
        client.send(b"\xff\xff\xff")
        written += client.transport.get_write_buffer_size()
        assert isinstance(client.expect(Disconnect), Disconnect)
        assert values.now("bytes/received", "bytes/sent") == [str(read + 3), str(written)]


def test_dropped() -> None:
    """What full queues drop is counted."""
    with LocalBroker(session={"max_mqueue_len": 3}) as local:
        values = Values(local)
        away, sender = local.client(), local.client()
        away.connect("away", properties={props.SESSION_EXPIRY_INTERVAL: 10})
        away.subscribe("t", 1)
        away.drop()
        sender.connect("sender")
        for _ in range(5):
            send(sender, "t", 0)
        assert values.now("publish/messages/dropped") == ["2"]
        local.pass_time(12)
        assert values.now("publish/messages/dropped", "clients/total") == ["2", "1"]


def test_what_groups_hold() -> None:
    """FC-13: what waits in the queue of a group is stored as well, until the group has ended."""
    with LocalBroker() as local:
        values = Values(local)
        values.update()
        ours = int(values.now("retained messages/count")[0])
        away, sender = local.client(), local.client()
        away.connect("away", properties={props.SESSION_EXPIRY_INTERVAL: 10})
        away.subscribe("$share/group/t", 1)
        away.drop()
        sender.connect("sender")
        for _ in range(3):
            send(sender, "t", 1)
        assert values.now("messages/stored", "store/messages/count") == [str(ours + 3)] * 2
        local.pass_time(12)
        assert values.now("messages/stored") == [str(ours)]


def test_slow_consumers_and_stalled_windows() -> None:
    """FC-14: how many have been reported; other reports have no total."""
    with LocalBroker() as local:
        values = Values(local)
        assert values.now("slow_consumers/total", "stalled_windows/total") == ["0", "0"]
        client = local.client()
        client.connect("client")
        for event in ("slow_consumer", "stalled_window", "stalled_window", "mqueue_full"):
            client.connection.report(event)
        assert values.now("slow_consumers/total", "stalled_windows/total") == ["1", "2"]


def test_parked_for_packet_ids() -> None:
    """FC-22: how many PUBLISHes have had to wait because max_awaiting_rel was reached, of sessions that ended too."""
    with LocalBroker(session={"max_awaiting_rel": 1}) as local:
        values = Values(local)
        assert values.now("awaiting_rel/parked") == ["0"]
        for _ in range(2):
            client = local.client()
            client.connect("client")
            client.send(*[Publish(b"t", b"x", 2, packet_id=packet_id) for packet_id in (1, 2, 3)])
            client.drop()
        assert values.now("awaiting_rel/parked") == ["4"]


ADDRESSES = [f"addresses/{name}" for name in ("full", "parked", "paged", "refused", "dropped")]


def test_addresses() -> None:
    """FC-24 to FC-26: how many are full now, and what has become of what was published to full ones."""
    policies = ("block", "drop", "fail")
    rules = [{"match": f"{policy}/#", "max_size_bytes": 1, "full_policy": policy} for policy in policies]
    with LocalBroker(addresses=rules) as local:
        values = Values(local, addresses=True)
        assert values.now(*ADDRESSES) == ["0"] * 5
        client, sender = local.client(), local.client()
        client.connect("client", properties={props.RECEIVE_MAXIMUM: 3})
        client.subscribe("#", 1)
        sender.connect("sender")
        for policy in policies:
            send(sender, f"{policy}/a", 1)
        for packet_id, policy in enumerate(("block", "drop", "drop", "fail", "fail", "fail"), 2):
            sender.send(Publish(f"{policy}/a".encode(), b"x", 1, packet_id=packet_id))
        assert values.now(*ADDRESSES) == ["3", "1", "0", "3", "2"]
        client.drop()
        local.pass_time(3)
        assert values.now(*ADDRESSES) == ["0", "1", "0", "3", "2"]


@pytest.mark.parametrize("sections", [{}, {"addresses": [{"match": "a", "max_size_bytes": 1}]}])
def test_topics_of_addresses_if_there_are_any(start: Start, sections: dict[str, object]) -> None:
    """Who has configured none does not read of them."""
    with (
        start(sections=FAST | sections) as broker,
        connected(broker.address(), 5) as client,
        connected(broker.address(), 5) as other,
    ):
        read(client, TOPICS | set(ADDRESSES if sections else ()))
        other.subscribe("$SYS/broker/addresses/+")
        for _ in ADDRESSES if sections else ():
            other.receive_message()
        other.expect_nothing_more()


def test_only_what_changes() -> None:
    """What says the same as before is not published again."""
    with LocalBroker() as local:
        values = Values(local)
        values.update()
        watcher = local.client()
        watcher.connect("watcher")
        watcher.send(Subscribe(1, [Subscription("$SYS/#", 0, retain_handling=2)]))
        watcher.received()
        values.update()
        again = {name(packet) for packet in watcher.received() if isinstance(packet, Publish)}
        assert "clients/connected" in again
        assert not again & {"version", "clients/expired", "publish/messages/received", "publish/messages/dropped"}


# -- sums in slices


def together(local: LocalBroker, *actions: Coroutine[None, None, None]) -> None:
    """Do all at once."""

    async def run() -> None:
        await asyncio.gather(*actions)

    local.complete(run())


async def later(turns: int, action: Coroutine[None, None, None]) -> None:
    """Do it after so many turns of the loop."""
    for _ in range(turns):
        await asyncio.sleep(0)
    await action


def publish_all(clients: list[LocalClient]) -> None:
    """One message from each."""
    for client in clients:
        send(client, "nobody")


def test_counters_taken_in_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An export in the middle of the sums neither adds a session's counts a second time nor leaves them out."""
    monkeypatch.setattr(sys_topics, "SLICE", 1)
    bench = Bench(tmp_path)
    with bench.local as local:
        values = Values(local)
        clients = [bench.client(f"c{number}") for number in range(20)]
        for delay in range(0, 24, 3):
            publish_all(clients)
            together(local, values.topics.update(), later(delay, bench.exporter.export(everything=True)))
            published = 20 * (delay // 3 + 1)
            assert values.published("publish/messages/received") == str(published)
            assert values.now("publish/messages/received") == [str(published)]


def test_sessions_that_end_in_the_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions that end while the sums are made count once, whether they have been looked at or not."""
    monkeypatch.setattr(sys_topics, "SLICE", 1)
    with LocalBroker() as local:
        values = Values(local)
        clients = [local.client() for _ in range(20)]
        for number, client in enumerate(clients):
            client.connect(f"c{number}")
        publish_all(clients)

        async def drop_some() -> None:
            for client in (*clients[:3], *clients[-3:]):
                await asyncio.sleep(0)
                client.connection.close()

        together(local, values.topics.update(), drop_some())
        assert values.published("publish/messages/received") == "20"
        assert values.now("publish/messages/received", "clients/total") == ["20", "14"]


def test_slices() -> None:
    """However many sessions there are, the loop gets its turn after a few."""
    with LocalBroker() as local:
        values = Values(local)
        for number in range(1000):
            local.broker.sessions.new(f"c{number}", 0)
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        async def both() -> None:
            counting = asyncio.get_running_loop().create_task(count())
            await values.topics._walk()
            counting.cancel()

        local.complete(both())
        assert turns >= 1000 // sys_topics.SLICE - 1


def test_failure_is_reported_and_gone_with_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """An update that fails is reported, and the next one comes nevertheless."""
    with LocalBroker() as local:
        values = Values(local)
        values.topics._interval = 0.0
        monkeypatch.setattr(values.topics, "_walk", None)

        async def fail_then_go_on() -> None:
            running = asyncio.get_running_loop().create_task(values.topics.run())
            await until(lambda: len(local.crashes) > 1)
            monkeypatch.undo()
            await until(lambda: len(local.broker.retained))
            running.cancel()

        local.complete(fail_then_go_on())
        local.crashes.clear()


# -- load averages


def test_load_averages() -> None:
    """A steady rate is what the averages come to, the shorter ones first; in its time an old rate fades to 1/e."""
    averages = LoadAverages()
    total = 0
    for _ in range(6):
        averages.update(total := total + 100, 10)
    one, five, fifteen = averages.values
    assert one == pytest.approx(600 * (1 - 0.3678794))
    assert one > five > fifteen > 0
    for _ in range(20_000):
        averages.update(total := total + 100, 10)
    assert averages.values == pytest.approx([600, 600, 600])
    averages.update(total, 60)
    assert averages.values[0] == pytest.approx(600 * 0.3678794)
