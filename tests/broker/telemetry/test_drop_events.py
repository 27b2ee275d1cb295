"""FC-35: each delivery that is dropped is told, whatever the reason, and no drop of an event."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from broker.runtime.clock import monotonic_us
from broker.storage import compaction as compaction_of
from broker.storage.compaction import Compaction
from broker.telemetry import drop_events
from config.models import Config
from protocol import properties as props
from protocol.acknowledgements import Puback
from protocol.connect import Connect, Will
from protocol.packet import Packet
from protocol.publish import Publish
from protocol.subscribe import Subscribe, Subscription
from session.counters import DROP_REASONS
from session.drops import LOST_REASONS
from session.flows import EVENT
from tests.support.broker.local import LocalBroker, LocalClient
from tests.support.broker.stored import KEPT, all_read, broker_on, connected, on_disk

EACH = {"drop_events": {"max_rate": "infinity"}}
TOPICS = "$SYS/broker/dropped/+"


class Reader:
    """A client that is told, and acknowledges."""

    def __init__(self, local: LocalBroker, topic_filter: str = TOPICS, version: int = 5) -> None:
        self.client = local.client(version)
        self.client.connect("reader")
        self.client.subscribe(topic_filter, 1)

    def events(self) -> list[Publish]:
        """What has come since the last call."""
        came = [packet for packet in self.client.received() if isinstance(packet, Publish)]
        self.client.send(*[Puback(each.packet_id) for each in came if each.qos])
        return came + (self.events() if came else [])

    def told(self) -> list[dict[str, Any]]:
        """The same, as JSON."""
        return [json.loads(each.payload) for each in self.events()]


def said(event: Publish) -> dict[str, str]:
    """The user properties of an event."""
    assert event.properties is not None
    pairs: Any = event.properties[props.USER_PROPERTY]
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def join(local: LocalBroker, name: str, topic_filter: str, most: int = 0) -> LocalClient:
    """A client that subscribes at QoS 2; its session is kept. It takes packets of at most so many bytes."""
    client = local.client()
    properties = {**KEPT, props.MAXIMUM_PACKET_SIZE: most} if most else KEPT
    client.send(Connect(name, False, 0, properties=properties, version=5))
    client.send(Subscribe(1, [Subscription(topic_filter, 2)]))
    client.received()
    return client


def publish(local: LocalBroker, *messages: Publish) -> None:
    """Publish these as the broker's own."""
    for message in messages:
        local.run(partial(local.broker.messages.publish_own, message, monotonic_us()))


def anew(local: LocalBroker, name: str) -> None:
    """A session ends: its client wants a new one."""
    local.client().send(Connect(name, True, 0, version=5))


def pass_time(local: LocalBroker, seconds: int = 1) -> None:
    """So much time passes, tick by tick."""
    for _ in range(10 * seconds):
        local.pass_time(0.1)


def reload(local: LocalBroker, before: dict[str, Any], now: dict[str, Any]) -> None:
    """The configuration has changed."""
    local.complete(local.broker.use(Config.model_validate(now), Config.model_validate(before)))


# -- one of each reason


DEFAULTS: dict[str, Any] = {}


class Scene(NamedTuple):
    """How a drop comes about: the sections of the configuration, and what happens. It loses what is on topic `t`."""

    happens: Callable[[LocalBroker], None]
    sections: dict[str, Any] = DEFAULTS
    loser: tuple[str, str] = ("client_id", "loser")
    qos: int = 1


SHORT = {"session": {"max_mqueue_len": 1}}
NO_QOS0 = {"session": {"mqueue_store_qos0": False}}
OLD = {"session": {"max_mqueue_age": 0.000001}}
FULL = {"addresses": [{"match": "t", "max_size_bytes": 1, "full_policy": "drop"}]}
MESSAGE = b"a message" * 20
SHARED = "$share/g/t"
GROUP = ("group", SHARED)


def overflow(local: LocalBroker, topic_filter: str = "t") -> None:
    """More waits than may."""
    join(local, "loser", topic_filter).drop()
    publish(local, Publish(b"t", MESSAGE, 1), Publish(b"t", b"stays", 1))


def expire(local: LocalBroker) -> None:
    """It has expired when it is sent."""
    join(local, "loser", "t")
    message = Publish(b"t", MESSAGE, 1)
    message.expires_at = 1
    publish(local, message)


def offline(local: LocalBroker, topic_filter: str = "t") -> None:
    """QoS 0 comes for a client that is away."""
    join(local, "loser", topic_filter).drop()
    publish(local, Publish(b"t", MESSAGE))


def end_session(local: LocalBroker, topic_filter: str = "t") -> None:
    """The session ends for which it waits, or the last one of the group."""
    join(local, "loser", topic_filter).drop()
    publish(local, Publish(b"t", MESSAGE, 1))
    anew(local, "loser")


def too_large(local: LocalBroker) -> None:
    """The client takes no packet as large."""
    join(local, "loser", "t", len(MESSAGE))
    publish(local, Publish(b"t", MESSAGE, 1))


def age(local: LocalBroker, topic_filter: str = "t") -> None:
    """It has waited too long when its client is back."""
    join(local, "loser", topic_filter).drop()
    publish(local, Publish(b"t", MESSAGE, 1))
    join(local, "loser", "other")


def forbid(local: LocalBroker, topic_filter: str = "t") -> None:
    """Nobody may receive it by now when its client is back."""
    join(local, "loser", topic_filter).drop()
    publish(local, Publish(b"t", MESSAGE, 1))
    reload(local, EACH, {**EACH, "authorization": {"deny_subscribe": ["t"]}})
    join(local, "loser", "other")


def leave_unacknowledged(local: LocalBroker) -> None:
    """The session ends that has been sent it."""
    join(local, "loser", "t")
    publish(local, Publish(b"t", MESSAGE, 1))
    anew(local, "loser")


def fill_address(local: LocalBroker) -> None:
    """Its address is full."""
    join(local, "holder", "t")
    publisher = join(local, "loser", "other")
    publisher.send(Publish(b"t", b"held", 1, packet_id=1), Publish(b"t", MESSAGE, 1, packet_id=2))


def refuse_will(local: LocalBroker) -> None:
    """A will may not be published any more."""
    client = local.client()
    client.connect("loser", will=Will(b"t", MESSAGE, 1))
    reload(local, EACH, {**EACH, "authorization": {"deny_publish": ["t"]}})
    join(local, "other", "t")
    client.drop()


SCENES: dict[str, list[Scene]] = {
    "queue_full": [Scene(overflow, SHORT), Scene(lambda local: overflow(local, SHARED), SHORT, GROUP)],
    "expired": [Scene(expire)],
    "offline_qos0": [
        Scene(offline, NO_QOS0, qos=0),
        Scene(lambda local: offline(local, SHARED), NO_QOS0, GROUP, 0),
    ],
    "session_ended": [Scene(end_session), Scene(lambda local: end_session(local, SHARED), {}, GROUP)],
    "too_large": [Scene(too_large)],
    "not_permitted": [Scene(forbid), Scene(lambda local: forbid(local, SHARED), {}, GROUP)],
    "aged": [Scene(age, OLD), Scene(lambda local: age(local, SHARED), OLD, GROUP)],
    "unacknowledged": [Scene(leave_unacknowledged)],
    "address_full": [Scene(fill_address, FULL, ("publisher", "loser"))],
    "will_refused": [Scene(refuse_will, {}, ("publisher", "loser"))],
}
EVERY = [(reason, scene) for reason, scenes in SCENES.items() for scene in scenes]


def test_all_reasons_are_here() -> None:
    """FC-35: each reason of a drop has a scene, so a new one needs one."""
    assert set(SCENES) == {*DROP_REASONS, *LOST_REASONS}


@pytest.mark.parametrize(("reason", "scene"), EVERY, ids=[f"{reason} of a {scene.loser[0]}" for reason, scene in EVERY])
def test_each_reason_is_told(reason: str, scene: Scene) -> None:
    """FC-35: a drop makes one event, with why, who has lost what, and of which size and QoS."""
    with LocalBroker(**EACH, **scene.sections) as local:
        reader = Reader(local)
        scene.happens(local)
        (event,) = reader.events()
        told = json.loads(event.payload)
        received = told.pop("received")
        expires = told.pop("expires", None)
        role, name = scene.loser
        assert told == {
            "reason": reason,
            role: name,
            "topic": "t",
            "qos": scene.qos,
            "retain": False,
            "size": len(MESSAGE),
        }
        assert (expires is not None) == (reason == "expired")
        assert said(event)["sluice-reason"] == reason
        assert said(event)[f"sluice-{role.replace('_', '-')}"] == name
        assert said(event)["sluice-received"] == received
        assert event.qos == min(scene.qos, 1)
        assert not event.retain


def test_what_a_smaller_client_does_not_get_again_is_told() -> None:
    """FC-35, FC-1: a delivery of the window that is too large for the client since a reconnect."""
    with LocalBroker(**EACH) as local:
        reader = Reader(local)
        join(local, "loser", "t").drop()
        publish(local, Publish(b"t", MESSAGE, 1))
        join(local, "loser", "t").drop()
        join(local, "loser", "t", len(MESSAGE))
        assert [(told["reason"], told["topic"]) for told in reader.told()] == [("too_large", "t")]


def test_a_group_takes_back_what_is_not_lost() -> None:
    """FC-35, FC-13: QoS 1 that another member gets is not told, QoS 2 that nobody gets is."""
    with LocalBroker(**EACH) as local:
        reader = Reader(local)
        join(local, "loser", SHARED)
        publish(local, Publish(b"t", b"one", 1), Publish(b"t", b"two", 2))
        join(local, "other", SHARED)
        anew(local, "loser")
        assert [(told["reason"], told["qos"]) for told in reader.told()] == [("unacknowledged", 2)]


# -- who can read it, and how


def test_a_reader_of_3_1_1() -> None:
    """FC-35: MQTT 3.1.1 has no properties, so the payload says it all; the client's name is one level."""
    with LocalBroker(**EACH, **SHORT) as local:
        reader = Reader(local, "$SYS/broker/dropped/a%2Fb%23%2B%25", version=4)
        join(local, "a/b#+%", "t").drop()
        publish(local, Publish(b"t", MESSAGE, 2, True), Publish(b"t", b"stays", 1))
        (told,) = reader.told()
        del told["received"]
        assert told == {
            "reason": "queue_full",
            "client_id": "a/b#+%",
            "topic": "t",
            "qos": 2,
            "retain": False,
            "size": len(MESSAGE),
        }


def test_a_dead_letter() -> None:
    """FC-35: a copy has the payload and the properties that say what it is, no expiry, and nothing forged."""
    copies = {"drop_events": {"topic": "dead/{reason}/{topic}", "payload": "copy", "max_rate": "infinity"}}
    with LocalBroker(**copies, **SHORT) as local:
        reader = Reader(local, "dead/queue_full/#")
        join(local, "loser", "a/b").drop()
        own = {
            props.CONTENT_TYPE: "text/plain",
            props.RESPONSE_TOPIC: "r",
            props.CORRELATION_DATA: b"c",
            props.MESSAGE_EXPIRY_INTERVAL: 60,
            props.USER_PROPERTY: [("own", "1"), ("sluice-reason", "forged"), ("own", "2")],
        }
        lost = Publish(b"a/b", MESSAGE, 2, False, own)  # type: ignore[arg-type] # the values are of several types
        lost.expires_at = monotonic_us() + 60_000_000
        publish(local, lost, Publish(b"a/b", b"stays", 1))
        (event,) = reader.events()
        assert (event.topic, event.payload, event.qos, event.retain) == (b"dead/queue_full/a/b", MESSAGE, 1, False)
        assert event.properties is not None
        pairs: Any = event.properties.pop(props.USER_PROPERTY)
        assert event.properties == {key: own[key] for key in list(own)[:3]}
        assert pairs[:2] == [("own", "1"), ("own", "2")]
        told = dict(pairs[2:])
        assert len(told) == len(pairs) - 2
        assert told.pop("sluice-received") < told.pop("sluice-expires")
        assert told == {
            "sluice-reason": "queue_full",
            "sluice-client-id": "loser",
            "sluice-topic": "a/b",
            "sluice-qos": "2",
            "sluice-retain": "false",
            "sluice-size": str(len(MESSAGE)),
        }


def test_rules_say_who_may_read_them() -> None:
    """FC-35: rules about the topic of the events decide, as about any topic of the broker."""
    rules = [{"permit": "allow", "topics": [TOPICS], "client_ids": ["reader"]}]
    sections = {"authorization": {"rules": [*rules, {"permit": "deny", "topics": [TOPICS]}]}}
    with LocalBroker(**EACH, **SHORT, **sections) as local:
        reader = Reader(local)
        other = join(local, "other", "$SYS/#")
        overflow(local)
        assert len(reader.events()) == 1
        assert other.received() == []


def test_a_topic_that_is_too_long_or_too_deep() -> None:
    """FC-35: where the message's topic does not fit into that of the event, `%` stands for it."""
    events = {"topic": "d/{client_id}/{topic}", "max_rate": "infinity"}
    with LocalBroker(drop_events=events, mqtt={"max_topic_levels": 4}, **SHORT) as local:
        reader = Reader(local, "d/#")
        join(local, "loser", "#").drop()
        deep, long, last = b"1/2/3", b"x" * 65_535, b"1/2"
        publish(local, *[Publish(topic, b"", 1) for topic in (deep, long, last, b"y")])
        came = reader.events()
        assert [event.topic for event in came] == [b"d/loser/%", b"d/loser/%", b"d/loser/1/2"]
        assert [said(event)["sluice-topic"] for event in came] == [deep.decode(), long.decode(), last.decode()]


# -- the rate, and what is bounded


LIMITED = {"drop_events": {"max_rate": 10}}


def lose(local: LocalBroker, name: str, count: int) -> None:
    """A client that is away loses so many deliveries on topic `name`, one after the other."""
    join(local, name, name).drop()
    publish(local, *[Publish(name.encode(), b"%d" % number, 1) for number in range(count + 1)])


def accounted(told: list[dict[str, Any]]) -> dict[str, int]:
    """How many drops of each client were told, singly and in sums."""
    counts: dict[str, int] = {}
    for each in told:
        name = each.get("client_id", "")
        counts[name] = counts.get(name, 0) + ("topic" in each) + sum(each.get("summed", {}).values())
    return counts


def test_what_exceeds_the_rate_is_summed_up() -> None:
    """FC-35: past max_rate the next event of each client says how many others there were, so none is untold."""
    with LocalBroker(**LIMITED, **SHORT) as local:
        reader = Reader(local)
        for name, count in (("a", 50), ("b", 20), ("c", 1)):
            lose(local, name, count)
        at_once = reader.told()
        assert len(at_once) < 10
        pass_time(local)
        told = at_once + reader.told()
        assert accounted(told) == {"a": 50, "b": 20, "c": 1}
        assert all("topic" in each for each in told)
        assert len(told) <= 13
        pass_time(local)
        assert reader.told() == []
        lose(local, "d", 1)
        pass_time(local)
        assert accounted(reader.told()) == {"d": 1}


def test_many_clients_are_summed_up_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """FC-35: sums are bounded by number of clients; those of all others are one, at `%`."""
    monkeypatch.setattr(drop_events, "MOST_LOSERS", 2)
    with LocalBroker(**LIMITED, **SHORT) as local:
        reader = Reader(local)
        for number in range(20):
            lose(local, f"c{number}", 3)
        pass_time(local)
        events = reader.events()
        told = [json.loads(event.payload) for event in events]
        assert sum(accounted(told).values()) == 60
        assert {event.topic for event in events if "client_id" not in json.loads(event.payload)} == {
            b"$SYS/broker/dropped/%"
        }
        (others,) = [each for each in told if "client_id" not in each]
        assert others["reason"] == "summed"


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """FC-35: what does not fit into the memory for drops that wait is summed up, whatever the rate."""
    monkeypatch.setattr(drop_events, "MOST_WAITING", 10 * 1024)
    with LocalBroker(**EACH, session={"max_mqueue_len": 0}) as local:
        reader = Reader(local)
        join(local, "loser", "t").drop()
        publish(local, *[Publish(b"t", bytes(1_000), 1) for _ in range(50)])
        anew(local, "loser")
        pass_time(local)
        told = reader.told()
        assert len(told) < 12
        assert accounted(told) == {"loser": 50}


def test_a_sum_beside_dead_letters_has_no_payload() -> None:
    """FC-35: with copies a sum says itself in user properties."""
    sections = {"drop_events": {"payload": "copy", "max_rate": 10}}
    with LocalBroker(**sections, **SHORT) as local:
        reader = Reader(local)
        lose(local, "a", 50)
        pass_time(local)
        events = reader.events()
        assert sum(int(said(event).get("sluice-summed-queue_full", 0)) for event in events) + len(events) == 50


# -- never about themselves


def test_drops_of_events_make_no_events() -> None:
    """FC-35: an event that is dropped is counted only, and it takes no place of another delivery."""
    with LocalBroker(**EACH, session={"max_mqueue_len": 3}) as local:
        reader = Reader(local)
        away = join(local, "away", TOPICS)
        away.send(Subscribe(2, [Subscription("own", 1)]))
        away.drop()
        publish(local, Publish(b"own", b"1", 1))
        lose(local, "loser", 5)
        assert accounted(reader.told()) == {"loser": 3}
        client = local.broker.clients.by_id["away"]
        assert client.session.counters.drops == {"dropped_queue_full_qos1": 1}
        mqueue = client.session.outbound.mqueue
        assert mqueue is not None
        assert [each.flow == EVENT for each in mqueue] == [False, True, True]
        publish(local, *[Publish(b"own", b"%d" % number, 1) for number in range(2, 5)])
        assert [told["topic"] for told in reader.told()] == ["own"]
        anew(local, "away")
        assert [told["topic"] for told in reader.told()] == ["own"] * 3


def test_events_are_known_as_such_after_a_restart(tmp_path: Path) -> None:
    """FC-35: what was an event is none of which there are events, also when it has been on disk only."""
    with broker_on(tmp_path, **EACH, **SHORT) as (local, storage):
        connected(local, storage, "reader", TOPICS).drop()
        connected(local, storage, "other", TOPICS).drop()
        lose(local, "loser", 1)
        on_disk(local, storage)
    with broker_on(tmp_path, **EACH, **SHORT) as (local, storage):
        anew(local, "other")
        settle(local, storage)
        client = local.client()
        client.send(Connect("reader", False, 0, properties=KEPT, version=5))
        settle(local, storage)
        assert [json.loads(each.payload)["client_id"] for each in published(client.received())] == ["loser"]


# -- on disk


def settle(local: LocalBroker, storage: Any) -> None:
    """Wait until all is written and read that is to be."""
    for _ in range(3):
        on_disk(local, storage)
        all_read(local, storage)
        local.run(lambda: None)


def published(packets: list[Packet]) -> list[Publish]:
    """The messages among them."""
    return [packet for packet in packets if isinstance(packet, Publish)]


MANY = 60
BIG = bytes(2_000)


@pytest.mark.parametrize("topic_filter", ["t/+", "$share/g/t/+"])
@pytest.mark.parametrize("how", ["overflow", "newest", "end"])
def test_what_is_dropped_on_disk_is_told_with_its_topic(tmp_path: Path, topic_filter: str, how: str) -> None:
    """FC-35, FC-30: what nobody has in memory is read back, so the event says what was lost, even if it was a copy."""
    sections: dict[str, Any] = {
        "drop_events": {"payload": "copy", "max_rate": "infinity"},
        "session": {"max_mqueue_len": MANY // 2 if how != "end" else 0},
    }
    if how == "newest":
        sections["session"] |= {"mqueue_overflow": "drop_newest", "mqueue_priorities": [{"match": "t/1", "weight": 2}]}
    with broker_on(tmp_path, 1, **sections) as (local, storage):
        reader = Reader(local)
        connected(local, storage, "loser", topic_filter).drop()
        publish(local, *[Publish(b"t/%d" % number, b"%d" % number + BIG, 1) for number in range(MANY)])
        on_disk(local, storage)
        if how == "end":
            anew(local, "loser")
        settle(local, storage)
        events = reader.events()
        assert len(events) == (MANY if how == "end" else MANY // 2)
        numbers = {int(event.payload.removesuffix(BIG)) for event in events}
        assert len(numbers) == len(events)
        assert {said(event)["sluice-topic"] for event in events} == {f"t/{number}" for number in numbers}
        assert not any(frame.unread for frame in storage.journal.frames.values())


def test_the_journal_keeps_what_is_still_to_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FC-35: compaction leaves a frame alone that has a drop which is not told yet."""
    monkeypatch.setattr(compaction_of, "SMALL", 0)
    names = ("one", "two", "three", "four")
    sections = {**LIMITED, "session": {"max_mqueue_len": 0}}
    with broker_on(tmp_path, 1, **sections) as (local, storage):
        for name in names:
            connected(local, storage, name, "t").drop()
        for number in range(MANY):
            publish(local, Publish(b"t", b"%d" % number + BIG, 1))
            on_disk(local, storage)
    with broker_on(tmp_path, 1, **sections) as (local, storage):
        reader = Reader(local)
        for name in names:
            anew(local, name)
        pinned = {number for number, frame in storage.journal.frames.items() if frame.unread}
        compaction = Compaction(storage)
        on_disk(local, storage)
        while pinned and compaction.needed():
            local.complete(compaction.remove_oldest())
        assert pinned
        assert pinned <= set(storage.journal.frames)
        pass_time(local, 2)
        settle(local, storage)
        assert accounted(reader.told()) == dict.fromkeys(names, MANY)
        while compaction.needed():
            local.complete(compaction.remove_oldest())
        assert not pinned & set(storage.journal.frames)
        assert not any(frame.unread for frame in storage.journal.frames.values())


# -- on and off


def test_a_reload_begins_and_ends_it() -> None:
    """FC-35: sessions and groups that are there already are told of from the reload on, and not after another one."""
    with LocalBroker(**SHORT) as local:
        reader = Reader(local)
        for name, topic_filter in (("a", "t"), ("b", SHARED)):
            join(local, name, topic_filter).drop()
        publish(local, *[Publish(b"t", b"", 1) for _ in range(2)])
        assert reader.told() == []
        reload(local, SHORT, {**SHORT, **EACH})
        publish(local, Publish(b"t", b"", 1))
        assert [(told.get("client_id"), told.get("group")) for told in reader.told()] == [("a", None), (None, SHARED)]
        reload(local, {**SHORT, **EACH}, SHORT)
        publish(local, Publish(b"t", b"", 1))
        assert reader.told() == []


def test_a_broker_that_stops_tells_the_rest() -> None:
    """FC-35: what was put off is told before the broker ends."""
    with LocalBroker(**LIMITED, **SHORT) as local:
        reader = Reader(local)
        lose(local, "a", 50)
        local.complete(local.broker.drop_events.finish())
        local.run(lambda: None)
        assert accounted(reader.told()) == {"a": 50}
