"""FC-35: each delivery that is dropped is told, whatever the reason."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from broker.runtime.clock import monotonic_us
from broker.telemetry import drop_events
from protocol import reason_codes
from protocol.acknowledgements import Puback, Pubrec
from protocol.connect import Will
from protocol.publish import Publish
from session.counters import DROP_REASONS
from session.drops import LOST_REASONS
from tests.broker.conftest import Start
from tests.support.broker.dropping import (
    EACH,
    LIMITED,
    MESSAGE,
    SHARED,
    SHORT,
    TOPICS,
    Reader,
    accounted,
    anew,
    join,
    lose,
    overflow,
    publish,
    published,
    reload,
    said,
)
from tests.support.broker.local import LocalBroker
from tests.support.broker.restarting import come_back, leave
from tests.support.wire import connected as wire_connected

DEFAULTS: dict[str, Any] = {}


class Scene(NamedTuple):
    """How a drop comes about: the sections of the configuration, and what happens. It loses what is on topic `t`."""

    happens: Callable[[LocalBroker], None]
    sections: dict[str, Any] = DEFAULTS
    loser: tuple[str, str] = ("client_id", "loser")
    qos: int = 1


NO_QOS0 = {"session": {"mqueue_store_qos0": False}}
OLD: dict[str, Any] = {"session": {"max_mqueue_age": 0.000001}}
FULL: dict[str, Any] = {"addresses": [{"match": "t", "max_size_bytes": 1, "full_policy": "drop"}]}
GROUP = ("group", SHARED)


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


def refuse(local: LocalBroker) -> None:
    """The client answers with an error."""
    client = join(local, "loser", "t")
    publish(local, Publish(b"t", MESSAGE, 1))
    client.send(Puback(client.expect(Publish).packet_id, reason_codes.NOT_AUTHORIZED))


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
    "refused": [Scene(refuse)],
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


def test_what_the_client_has_got_is_not_lost() -> None:
    """FC-35: a delivery whose PUBREC has come is not told when the session ends before PUBCOMP."""
    with LocalBroker(**EACH) as local:
        reader = Reader(local)
        client = join(local, "loser", "t")
        publish(local, Publish(b"t", b"", 2), Publish(b"t", MESSAGE, 2))
        client.send(Pubrec(published(client.received())[0].packet_id))
        anew(local, "loser")
        assert [(told["reason"], told["size"]) for told in reader.told()] == [("unacknowledged", len(MESSAGE))]


def test_a_group_takes_back_what_is_not_lost() -> None:
    """FC-35, FC-13: QoS 1 that another member gets is not told, QoS 2 that nobody gets is."""
    with LocalBroker(**EACH) as local:
        reader = Reader(local)
        join(local, "loser", SHARED)
        publish(local, Publish(b"t", b"one", 1), Publish(b"t", b"two", 2))
        join(local, "other", SHARED)
        anew(local, "loser")
        assert [(told["reason"], told["qos"]) for told in reader.told()] == [("unacknowledged", 2)]


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


def test_each_interval_of_the_metrics_has_new_counters() -> None:
    """FC-35: drops are told in the next interval of the metrics too."""
    with LocalBroker(**EACH, **SHORT) as local:
        reader = Reader(local)
        overflow(local)
        session = local.broker.clients.by_id["loser"].session
        session.take_counters(monotonic_us())
        publish(local, Publish(b"t", b"", 1))
        assert accounted(reader.told()) == {"loser": 2}


def test_a_broker_that_stops_tells_the_rest() -> None:
    """FC-35: what was put off is told before the broker ends."""
    with LocalBroker(**LIMITED, **SHORT) as local:
        reader = Reader(local)
        lose(local, "a", 50)
        local.complete(local.broker.drop_events.finish())
        local.run(lambda: None)
        assert accounted(reader.told()) == {"a": 50}


def test_all_is_told_when_the_broker_has_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """FC-35: the broker does not end before all drops are told, however many turns of the loop that takes."""
    monkeypatch.setattr(drop_events, "AT_ONCE", 1)
    with LocalBroker(**LIMITED, **SHORT) as local:
        reader = Reader(local)
        for number in range(20):
            lose(local, f"c{number}", 5)
        local.complete(local.broker.drop_events.finish())
        told = [json.loads(event.payload) for event in published(reader.client.received())]
        assert accounted(told) == {f"c{number}": 5 for number in range(20)}


def test_over_a_restart(start: Start, tmp_path: Path) -> None:
    """FC-35: a reader that is away gets the events after a restart, also those that were put off."""
    sections = {
        "drop_events": {"max_rate": "1/s"},
        "session": {"max_mqueue_len": 10},
        "persistence": {"directory": str(tmp_path / "journal")},
    }
    broker = start(sections=sections)
    leave(broker, "reader", TOPICS)
    leave(broker, "loser", "t")
    with wire_connected(broker.address(), 4) as publisher:
        for number in range(30):
            publisher.publish("t", b"%d" % number, 1)
    broker.ask_to_end()
    broker.stop()
    with come_back(start(sections=sections), "reader") as reader:
        told = [json.loads(reader.receive_message().payload)]
        while accounted(told) != {"loser": 20}:
            told.append(json.loads(reader.receive_message().payload))
        assert len(told) <= 4
