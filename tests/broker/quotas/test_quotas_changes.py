"""Quotas (FC-31) over a restart, with wills, and when they change while clients are connected."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.quotas.watermark import LARGE_LEN
from config.models import Config
from protocol import properties as props
from protocol import reason_codes
from protocol.acknowledgements import Puback
from protocol.connack import Connack
from protocol.connect import Connect, Will
from protocol.disconnect import Disconnect
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from protocol.unsubscribe import Unsubscribe
from tests.broker.quotas.conftest import RunQuotas
from tests.support.broker.local import LocalBroker, LocalClient
from tests.support.broker.quotas import QUOTA_EXCEEDED, client
from tests.support.broker.reloads import reload
from tests.support.broker.stored import KEPT, broker_on, on_disk, say
from tests.support.process import BrokerProcess
from tests.support.wire import connected


def retain(local: LocalBroker, publisher: LocalClient, topic: str, payload: bytes = b"x") -> int:
    """PUBLISH with RETAIN; returns the reason code of PUBACK."""
    publisher.send(Publish(topic.encode(), payload, 1, True, packet_id=1))
    return publisher.expect(Puback).reason_code


def come(local: LocalBroker, client_id: str, kept: bool = False, **options: Any) -> LocalClient:
    """A client of MQTT 5 that is let in."""
    one = local.client()
    assert one.connect(client_id, properties=KEPT if kept else None, **options).reason_code == 0
    return one


@pytest.fixture
def local() -> Iterator[LocalBroker]:
    """A broker with small quotas for all."""
    with LocalBroker(quotas=[{"max_retained_messages": 2, "max_connections": 3, "max_kept_sessions": 1}]) as broker:
        yield broker


def usage(local: LocalBroker) -> tuple[int, int, int, int]:
    """Connections, sessions, kept sessions and retained messages of anonymous clients."""
    own = local.broker.quotas.usage(None)
    return own.connections, own.sessions, own.kept_sessions, own.retained_messages


def test_wills_are_published_and_not_retained(local: LocalBroker) -> None:
    """FC-31: a will beyond the quota is delivered, and is not retained; one within it is, also of an ended session."""
    reader = come(local, "reader")
    reader.subscribe("#")
    for number in range(4):
        come(local, f"x{number}", will=Will(f"w/{number}".encode(), b"gone", 0, True)).drop()
    assert [packet.topic for packet in reader.received() if isinstance(packet, Publish)] == [
        b"w/%d" % number for number in range(4)
    ]
    assert sorted(publish.topic for publish in local.broker.retained.each()) == [b"w/0", b"w/1"]


def test_everything_is_given_back(local: LocalBroker) -> None:
    """FC-31: what a user uses is counted down with connections, sessions, expiry and removed messages, to nothing."""
    first, second = come(local, "a", kept=True), come(local, "b")
    assert retain(local, first, "r/1") == reason_codes.NO_MATCHING_SUBSCRIBERS
    assert usage(local) == (2, 2, 1, 1)
    again = come(local, "a", kept=True)  # a take-over, with a clean start
    assert first.gone
    assert usage(local) == (2, 2, 1, 1)
    again.send(Disconnect(0, {props.SESSION_EXPIRY_INTERVAL: 0}))
    second.drop()
    assert usage(local) == (0, 0, 0, 1)
    last = come(local, "c")
    retain(local, last, "r/1", b"")
    last.drop()
    assert usage(local) == (0, 0, 0, 0)
    come(local, "d", kept=True).drop()
    assert usage(local) == (0, 1, 1, 0)
    local.pass_time(4000)
    assert usage(local) == (0, 0, 0, 0)


def test_expired_messages_make_room(local: LocalBroker) -> None:
    """FC-31: a retained message that has expired does not count."""
    one = come(local, "x")
    expiring: Any = {props.MESSAGE_EXPIRY_INTERVAL: 10}
    for topic in (b"a", b"b"):
        one.send(Publish(topic, b"x", 1, True, expiring, packet_id=1))
        one.expect(Puback)
    assert retain(local, one, "c") == QUOTA_EXCEEDED
    local.pass_time(20)
    assert retain(local, one, "c") == reason_codes.NO_MATCHING_SUBSCRIBERS


def test_subscriptions_of_a_resumed_session(local: LocalBroker) -> None:
    """FC-31: a session resumes with more subscriptions than its quota has now, and gets no further ones."""
    one = come(local, "x", kept=True)
    for topic_filter in ("a", "b", "c"):
        one.subscribe(topic_filter)
    config = local.broker.quotas
    assert config.active
    one.drop()
    again = local.client()
    answer = again.connect("x", clean_start=False, properties=KEPT)
    assert answer.session_present
    again.send(Subscribe(1, [Subscription("d")]))
    assert again.expect(Suback).reason_codes == [0]


def test_restart(tmp_path: Path) -> None:
    """FC-31: kept sessions and retained messages count after a restart as before."""
    quotas = [{"max_kept_sessions": 1, "max_retained_messages": 2}]
    with broker_on(tmp_path, quotas=quotas) as (local, storage):
        one = local.client()
        say(local, storage, one, Connect("x", False, 0, properties=KEPT, version=5))
        say(local, storage, one, Publish(b"r/1", b"x", 1, True, packet_id=1))
        say(local, storage, one, Publish(b"r/2", b"x", 1, True, packet_id=2))
        on_disk(local, storage)
    with broker_on(tmp_path, quotas=quotas) as (local, storage):
        assert usage(local) == (0, 1, 1, 2)
        other = local.client()
        (refused, *_) = say(local, storage, other, Connect("y", False, 0, properties=KEPT, version=5))
        assert isinstance(refused, Connack)
        assert refused.reason_code == QUOTA_EXCEEDED
        one = local.client()
        say(local, storage, one, Connect("x", False, 0, properties=KEPT, version=5))
        (answer,) = say(local, storage, one, Publish(b"r/3", b"x", 1, True, packet_id=1))
        assert isinstance(answer, Puback)
        assert answer.reason_code == QUOTA_EXCEEDED


def rewrite(broker: BrokerProcess, *quotas: dict[str, Any]) -> list[str]:
    """Change the quotas of a running broker; returns the sections that a reload has changed."""
    import yaml

    file = broker.folder / "sluice.yaml"
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | {"quotas": list(quotas)}))
    answer = reload(broker).json
    assert answer["restart"] == {}
    return sorted({key.partition("[")[0].partition(".")[0] for key in answer["changed"]})


def test_reload(run: RunQuotas) -> None:
    """FC-31: quotas that a reload brings, changes or takes away apply to connected clients, and to what there is."""
    broker = run()
    with client(broker, 5, "x", "ann") as ann, client(broker, 5, "y", "ben") as ben:
        for number in range(3):
            assert ann.publish(f"r/{number}", b"x", 1, True) == 0
        assert rewrite(broker, {"users": ["ann"], "max_retained_messages": 3, "max_connections": 1}) == ["quotas"]
        assert ann.publish("r/3", b"x", 1, True) == QUOTA_EXCEEDED
        assert ann.publish("r/2", b"y", 1, True) == 0
        assert client(broker, 5, "x2", "ann").connect() == QUOTA_EXCEEDED
        assert ben.publish("b/1", b"x", 1, True) == 0
        assert rewrite(broker, {"max_retained_messages": 4, "max_subscriptions": 1}) == ["quotas"]
        assert ann.publish("r/3", b"x", 1, True) == 0
        assert ann.subscribe("a", "b") == [1, QUOTA_EXCEEDED]
        assert rewrite(broker) == ["quotas"]
        assert ann.subscribe("c", "d") == [1, 1]
        for number in (4, 5):
            assert ann.publish(f"r/{number}", b"x", 1, True) == 0
        ann.publish("r/5", b"", 1, True)
        assert rewrite(broker, {"users": ["ann"], "max_retained_messages": 6}) == ["quotas"]
        assert [ann.publish(f"r/{number}", b"x", 1, True) for number in (6, 7)] == [0, QUOTA_EXCEEDED]
    with connected(broker.address(), 5) as anybody:
        anybody.subscribe("r/#")
        assert len([anybody.receive_message() for _ in range(6)]) == 6


def test_reload_ends_a_wait(run: RunQuotas) -> None:
    """FC-31: a client that is not read because of its rate is read when the rate is raised."""
    broker = run({"producer_max_rate": 1})
    with connected(broker.address(), 5) as reader, connected(broker.address(), 5) as sender:
        reader.subscribe("t", qos=0)
        sender.send(*[Publish(b"t", bytes([number])) for number in range(100)])
        reader.receive_message()
        assert rewrite(broker, {"producer_max_rate": 1_000_000}) == ["quotas"]
        assert len([reader.receive_message() for _ in range(99)]) == 99


def test_thousands_of_groups() -> None:
    """A session in thousands of groups with the same filter gets each message from each, and leaves nothing behind."""
    groups = [f"$share/g{number}/#" for number in range(2_000)]
    with LocalBroker(quotas=[{"max_subscriptions": 2_000}], session={"max_inflight": "infinity"}) as local:
        member, sender = come(local, "member"), come(local, "sender")
        member.send(Subscribe(1, [Subscription(each, 0) for each in [*groups, "$share/one/more"]]))
        assert member.expect(Suback).reason_codes == [*[0] * 2_000, QUOTA_EXCEEDED]
        sender.send(Publish(b"t", b"x"))
        got: list[Any] = []
        for _ in range(100):
            local.run(lambda: None)
            got += member.received()
        assert len(got) == 2_000
        member.socket.pause_writing()
        sender.send(Publish(b"t", b"y"))
        member.send(Unsubscribe(2, groups))
        assert local.broker.router.shared.queues == {}
        session = local.broker.clients.by_id["member"].session
        backlog = session.outbound.backlog
        assert backlog is None or backlog.sources is None or not backlog.sources.sources


def test_memory_during_a_reload() -> None:
    """FC-32: queues stay narrow above the watermark while new rules reach very many clients."""
    rules = {"rules": [{"permit": "allow", "topics": ["#"]}]}
    with LocalBroker(authorization=rules, memory_watermark="1GiB") as local:
        for number in range(600):
            local.client().connect(f"c-{number}")
        broker = local.broker
        broker.quotas.watermark.reached = True
        broker.quotas.narrow(True)
        before = Config.model_validate({"authorization": rules, "memory_watermark": "1GiB"})
        after = before.model_copy(update={"authorization": before.authorization.model_copy(update={"rules": []})})

        async def lengths_meanwhile() -> list[int]:
            using = asyncio.create_task(broker.use(after, before))
            lengths = []
            while not using.done():
                await asyncio.sleep(0)  # a turn of the loop
                lengths.append(broker.settings.limits.max_mqueue_len)
            return lengths

        lengths = local.complete(lengths_meanwhile())
        assert len(lengths) > 1
        assert set(lengths) == {LARGE_LEN}
