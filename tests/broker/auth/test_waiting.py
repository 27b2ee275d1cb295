"""Rules that change while deliveries wait: what is no longer allowed is not sent, wherever it waits."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker.auth.rules import from_settings
from config.rule import Rule
from protocol import properties as props
from protocol.acknowledgements import Puback
from protocol.connect import Connect
from protocol.publish import Publish
from protocol.subscribe import Subscribe, Subscription
from tests.support.broker.local import LocalBroker, LocalClient
from tests.support.broker.stored import KEPT, broker_on, on_disk, say
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

        async def publish_until_done() -> int:
            using = asyncio.create_task(local.broker.use_rules("", parsed))
            count = 0
            while not using.done():
                count += 1
                local.broker.messages.publish_own(Publish(b"a/shut", b"", 1), 0)
                await asyncio.sleep(0)
            return count

        assert local.complete(publish_until_done()) > 2
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
