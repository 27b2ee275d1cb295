"""Rules that change while deliveries wait: what is no longer allowed is not sent, wherever it waits."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from broker.auth.rules import from_settings
from config.models import Config
from config.rule import Rule
from protocol import properties as props
from protocol.acknowledgements import Puback
from protocol.connect import Connect
from protocol.publish import Publish
from protocol.subscribe import Subscribe, Subscription
from tests.support.broker.local import LocalBroker, LocalClient
from tests.support.broker.stored import KEPT, all_read, broker_on, on_disk, say
from tests.support.waiting import wait_until

ALL = {"permit": "allow", "topics": ["#"]}
SHUT = [{"permit": "deny", "topics": ["+/shut"], "action": "subscribe", "client_ids": ["x"]}, ALL]
NAMES = ["a/0", "a/1", "b/shut", "a/shut", "b/2", "a/shut", "a/3"]
OPEN = [name for name in NAMES if not name.endswith("shut")]


def use(local: LocalBroker, *own: dict[str, Any]) -> None:
    """Replace all rules."""
    parsed = [from_settings(Rule.model_validate(each)) for each in own]
    local.complete(local.broker.use_rules("", parsed))


def slow(local: LocalBroker) -> LocalClient:
    """A client that takes one delivery at a time."""
    client = local.client()
    client.connect("x", properties={props.RECEIVE_MAXIMUM: 1, **KEPT})
    client.send(Subscribe(1, [Subscription("#", 1)]))
    client.received()
    return client


def publish(local: LocalBroker, *names: str) -> None:
    """Publish these topics."""
    boss = local.client()
    boss.connect("boss")
    for number, name in enumerate(names, 1):
        boss.send(Publish(name.encode(), b"", 1, packet_id=number))
    boss.drop()


def drain(client: LocalClient) -> list[str]:
    """The topics of what comes, each acknowledged."""
    names = []
    while found := [packet for packet in client.received() if isinstance(packet, Publish)]:
        for packet in found:
            names.append(packet.topic.decode())
            client.send(Puback(packet.packet_id))
    return names


def drops(local: LocalBroker) -> dict[str, int] | None:
    """What has been dropped of the deliveries to x."""
    client = local.broker.clients.get("x")
    assert client is not None
    return client.session.counters.drops


WEIGHTS = {"mqueue_priorities": [{"match": "a/#", "weight": 3}]}


@pytest.mark.parametrize("session", [{}, WEIGHTS], ids=["plain", "weights"])
def test_connected(session: dict[str, Any]) -> None:
    """A connected client gets what it may still receive, in order, and all that is published later."""
    with LocalBroker(authorization={"rules": [ALL]}, session=session) as local:
        client = slow(local)
        publish(local, *NAMES)
        use(local, *SHUT)
        assert sorted(drain(client)) == sorted(OPEN)
        assert drops(local) == {"dropped_not_permitted_qos1": 3}
        use(local, ALL)
        publish(local, "a/shut")
        assert drain(client) == ["a/shut"]


def test_detached() -> None:
    """What waits for a client that is away is decided by the rules that hold when it comes back."""
    with LocalBroker(authorization={"rules": [ALL]}) as local:
        slow(local).drop()
        publish(local, *NAMES)
        use(local, *SHUT)
        publish(local, "a/shut", "a/4")
        client = local.client()
        client.send(Connect("x", False, 0, properties=KEPT, version=5))
        assert drain(client) == [*OPEN, "a/4"]
        assert drops(local) == {"dropped_not_permitted_qos1": 3}


def test_published_meanwhile() -> None:
    """New rules reach very many sessions in slices: nothing slips through that is published meanwhile."""
    with LocalBroker(authorization={"rules": [ALL]}) as local:
        others = [local.client() for _ in range(300)]
        for number, other in enumerate(others):
            other.connect(f"before-{number}")
        client = slow(local)
        publish(local, "a/0")
        parsed = [from_settings(Rule.model_validate(each)) for each in SHUT]

        assert published_during(local, local.broker.use_rules("", parsed)) > 2
        assert drain(client) == ["a/0"]


def test_allowed_again_before_it_is_sent() -> None:
    """Rules that are back before the delivery's turn comes lose nothing."""
    with LocalBroker(authorization={"rules": [ALL]}) as local:
        client = slow(local)
        publish(local, *NAMES)
        use(local, *SHUT)
        use(local, ALL)
        assert drain(client) == NAMES


def test_by_the_subscriptions_qos() -> None:
    """A rule about subscriptions at a QoS counts for what came by them, whatever the message's QoS is."""
    with LocalBroker(authorization={"rules": [ALL]}) as local:
        client = slow(local)
        client.send(Subscribe(1, [Subscription("b/#", 2)]))
        client.received()
        publish(local, "a/0", "a/1", "b/1")
        use(local, {"permit": "deny", "topics": ["#"], "action": "subscribe", "qos": [1]}, ALL)
        assert drain(client) == ["a/0", "b/1"]  # the first one had been sent


def test_on_disk_only(tmp_path: Path) -> None:
    """FC-30: what is on disk only is not read for it, and decided when its turn comes."""
    with broker_on(tmp_path, memory=1, authorization={"rules": [ALL]}) as (local, storage):
        client = local.client()
        connect = Connect("x", False, 0, properties={props.RECEIVE_MAXIMUM: 1, **KEPT}, version=5)
        say(local, storage, client, connect, Subscribe(1, [Subscription("#", 1)]))
        boss = local.client()
        say(local, storage, boss, Connect("boss", True, 0, version=5))
        for name in NAMES:
            say(local, storage, boss, Publish(name.encode(), b"", 1, packet_id=1))
        use(local, *SHUT)
        names: list[str] = []

        def drained() -> bool:
            packets = client.received()
            while packets:
                packet = packets.pop(0)
                if isinstance(packet, Publish):
                    names.append(packet.topic.decode())
                    packets += say(local, storage, client, Puback(packet.packet_id))
            on_disk(local, storage)
            return names[-1:] == OPEN[-1:]

        wait_until(drained, "all that may be received")
        assert names == OPEN


def deny(local: LocalBroker, rules: dict[str, Any], *filters: str) -> None:
    """A reload after which nobody may receive these topics; `rules`: what else is configured about them."""
    before, now = (
        Config.model_validate({"authorization": {**rules, "deny_subscribe": denied}}) for denied in (["other"], filters)
    )
    local.complete(local.broker.use(now, before))


def published_during(local: LocalBroker, change: Coroutine[Any, Any, None]) -> int:
    """How many messages on `a/shut` are published until a change is complete: one in each turn of the loop."""

    async def publish_until_done() -> int:
        using = asyncio.create_task(change)
        count = 0
        while not using.done():
            await asyncio.sleep(0)
            local.broker.messages.publish_own(Publish(b"a/shut", b"", 1), 0)
            count += 1
        return count

    return local.complete(publish_until_done())


with_and_without_rules = pytest.mark.parametrize("rules", [{}, {"rules": [ALL]}], ids=["no rules", "rules"])


@with_and_without_rules
def test_denied_topics(rules: dict[str, Any]) -> None:
    """What waits on a topic that nobody may receive since a reload is dropped, also while its client is away."""
    with LocalBroker(authorization=rules) as local:
        client = slow(local)
        publish(local, *NAMES)
        deny(local, rules, "b/shut")
        client.drop()
        deny(local, rules, "+/shut")
        client = local.client()
        client.send(Connect("x", False, 0, properties=KEPT, version=5))
        assert drain(client) == OPEN
        assert drops(local) == {"dropped_not_permitted_qos1": 3}
        deny(local, rules)
        publish(local, "a/shut")
        assert drain(client) == ["a/shut"]


@with_and_without_rules
def test_denied_topics_of_connected_clients(rules: dict[str, Any]) -> None:
    """The same for a client that stays connected; what is permitted again before its turn comes is sent."""
    with LocalBroker(authorization=rules) as local:
        client = slow(local)
        publish(local, *NAMES)
        deny(local, rules, "#")
        deny(local, rules, "+/shut")
        assert drain(client) == OPEN


def test_denied_topics_of_a_group() -> None:
    """A group hands over no message on a topic that nobody may receive by now, neither queued nor given back."""
    with LocalBroker() as local:
        member = local.client()
        member.connect("x", properties={props.RECEIVE_MAXIMUM: 1})
        member.subscribe("$share/group/#", 1)
        other = local.client()
        other.connect("other", properties={props.RECEIVE_MAXIMUM: 1})
        other.subscribe("$share/group/#", 1)
        publish(local, "a/shut", "a/0", "a/shut", "a/1", "b/shut")
        deny(local, {}, "+/shut")
        had = member.received() + other.received()
        assert [packet.topic for packet in had if isinstance(packet, Publish)] == [b"a/shut", b"a/0"]
        member.drop()
        other.send(Puback(1))
        assert drain(other) == ["a/1"]
        counters = local.broker.router.shared.queues["$share/group/#"].counters
        assert counters.drops == {"dropped_not_permitted_qos1": 3}


@with_and_without_rules
def test_denied_topics_after_a_restart(tmp_path: Path, rules: dict[str, Any]) -> None:
    """What the journal kept on a topic that nobody may receive since the restart is sent by no session or group."""
    with broker_on(tmp_path, authorization=rules) as (local, storage):
        for client_id, topic_filter in (("x", "#"), ("member", "$share/group/#")):
            client = local.client()
            connect = Connect(client_id, False, 0, properties=KEPT, version=5)
            say(local, storage, client, connect, Subscribe(1, [Subscription(topic_filter, 1)]))
            client.drop()
        boss = local.client()
        say(local, storage, boss, Connect("boss", True, 0, version=5))
        for name in NAMES:
            say(local, storage, boss, Publish(name.encode(), b"", 1, packet_id=1))
    with broker_on(tmp_path, authorization={**rules, "deny_subscribe": ["+/shut"]}) as (local, storage):
        for client_id in ("x", "member"):
            client = local.client()
            packets = say(local, storage, client, Connect(client_id, False, 0, properties=KEPT, version=5))
            all_read(local, storage)
            packets += client.received()
            assert [each.topic.decode() for each in packets if isinstance(each, Publish)] == OPEN


def test_denied_topics_reach_very_many() -> None:
    """A reload that denies topics reaches very many sessions in slices, and nothing is queued on them meanwhile."""
    with LocalBroker() as local:
        for number in range(2_000):
            local.client().connect(f"before-{number}")
        client = slow(local)
        publish(local, "a/0")
        before, now = Config(), Config.model_validate({"authorization": {"deny_subscribe": ["a/shut"]}})

        assert published_during(local, local.broker.use(now, before)) > 2
        assert drain(client) == ["a/0"]
        assert drops(local) is None
