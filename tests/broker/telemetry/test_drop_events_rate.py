"""FC-35: what is told is bounded, nothing is untold, and no drop of an event is told."""

import json
from typing import Any

import pytest

from broker.telemetry import drop_events
from protocol.publish import Publish
from protocol.subscribe import Subscribe, Subscription
from session.flows import EVENT
from tests.fuzz.clock import Clock
from tests.support.broker.dropping import (
    EACH,
    LIMITED,
    SHORT,
    TOPICS,
    Reader,
    accounted,
    anew,
    join,
    lose,
    pass_time,
    publish,
    published,
    said,
)
from tests.support.broker.local import LocalBroker


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


def test_clients_take_turns() -> None:
    """FC-35: a client whose drops never end does not keep those of another one from being told."""
    with Clock() as clock, LocalBroker(**LIMITED, **SHORT) as local:
        reader = Reader(local)
        lose(local, "loud", 10)
        lose(local, "quiet", 1)
        told = reader.told()
        for _ in range(10):
            clock.go_on(0.1)
            publish(local, *[Publish(b"loud", b"", 1) for _ in range(5)])
            local.pass_time(0)
            told += reader.told()
        assert accounted(told)["quiet"] == 1


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


def test_as_many_clients_as_may_have_their_own_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """FC-35: what is put off is told by client for as many as the bound says, and for no more."""
    monkeypatch.setattr(drop_events, "MOST_LOSERS", 2)
    with LocalBroker(**LIMITED, **SHORT) as local:
        reader = Reader(local)
        lose(local, "first", 20)
        for name in ("second", "third"):
            lose(local, name, 1)
        pass_time(local)
        assert accounted(reader.told()) == {"first": 20, "second": 1, "": 1}


def test_a_sum_of_several_clients_has_qos_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """FC-35: an event that tells of no single delivery has QoS 1, whatever its reader has subscribed with."""
    monkeypatch.setattr(drop_events, "MOST_LOSERS", 1)
    with LocalBroker(**LIMITED, **SHORT) as local:
        reader = Reader(local, "$SYS/broker/dropped/%", qos=2)
        lose(local, "first", 20)
        lose(local, "second", 1)
        pass_time(local)
        assert [event.qos for event in reader.events()] == [1]


@pytest.mark.parametrize(("sections", "clients", "each"), [(EACH, 1, 50), (LIMITED, 50, 1)])
def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch, sections: Any, clients: int, each: int) -> None:
    """FC-35: what does not fit into the memory for drops that wait is summed up, whatever the rate.

    What has been told takes no memory any more.
    """
    monkeypatch.setattr(drop_events, "MOST_WAITING", 10 * 1024)
    with LocalBroker(**sections, session={"max_mqueue_len": 0}) as local:
        reader = Reader(local)
        names = [f"c{number}" for number in range(clients)]
        for _ in range(2):
            for name in names:
                topic = f"{name}/{'x' * 500}"
                join(local, name, topic).drop()
                publish(local, *[Publish(topic.encode(), bytes(500), 1) for _ in range(each)])
            for name in names:
                anew(local, name)
            pass_time(local, 10)
            told = reader.told()
            assert 5 < sum("topic" in one for one in told) < 12
            assert accounted(told) == dict.fromkeys(names, each)


def test_what_is_too_large_to_be_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """FC-35: a drop that alone exceeds the memory for drops is summed up."""
    monkeypatch.setattr(drop_events, "MOST_WAITING", 1_000)
    with LocalBroker(**EACH) as local:
        reader = Reader(local)
        join(local, "loser", "t").drop()
        publish(local, Publish(b"t", bytes(1_000), 1))
        anew(local, "loser")
        pass_time(local)
        assert [each.get("summed") for each in reader.told()] == [{"session_ended": 1}]


def test_one_timer() -> None:
    """FC-35: however many clients are to be told of, one timer waits for the rate."""
    with LocalBroker(**LIMITED, **SHORT) as local:
        Reader(local)
        for number in range(20):
            join(local, f"c{number}", "t").drop()
        publish(local, Publish(b"t", b"", 1))
        before = len(local.broker.wheel)
        publish(local, Publish(b"t", b"", 1))
        assert len(local.broker.wheel) < before + 5


def test_drops_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """FC-35: many drops at once are told in many turns of the loop, so that others have theirs in between."""
    monkeypatch.setattr(drop_events, "AT_ONCE", 1)
    with LocalBroker(**EACH, session={"max_mqueue_len": 0}) as local:
        reader = Reader(local)
        join(local, "loser", "t").drop()
        publish(local, *[Publish(b"t", b"", 1) for _ in range(24)])
        anew(local, "loser")
        assert 0 < len(published(reader.client.received())) < 24
        local.run(lambda: None)
        local.run(lambda: None)
        assert len(published(reader.client.received())) > 0


def test_a_sum_beside_dead_letters_has_no_payload() -> None:
    """FC-35: with copies a sum says itself in user properties."""
    sections: dict[str, Any] = {"drop_events": {"payload": "copy", "max_rate": 10}}
    with LocalBroker(**sections, **SHORT) as local:
        reader = Reader(local)
        lose(local, "a", 50)
        pass_time(local)
        events = reader.events()
        assert sum(int(said(event).get("sluice-summed-queue_full", 0)) for event in events) + len(events) == 50


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
