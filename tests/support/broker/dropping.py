"""Clients that lose deliveries, and one that is told of it (FC-35)."""

import json
from functools import partial
from typing import Any

from broker.runtime.clock import monotonic_us
from config.models import Config
from protocol import properties as props
from protocol.acknowledgements import Puback
from protocol.connect import Connect
from protocol.packet import Packet
from protocol.publish import Publish
from protocol.subscribe import Subscribe, Subscription
from tests.support.broker.local import LocalBroker, LocalClient
from tests.support.broker.stored import KEPT, all_read, on_disk

EACH: dict[str, Any] = {"drop_events": {"max_rate": "infinity"}}
TOPICS = "$SYS/broker/dropped/+"
SHORT: dict[str, Any] = {"session": {"max_mqueue_len": 1}}
MESSAGE = b"a message" * 20
SHARED = "$share/g/t"
LIMITED: dict[str, Any] = {"drop_events": {"max_rate": 10}}


class Reader:
    """A client that is told, and acknowledges."""

    def __init__(self, local: LocalBroker, topic_filter: str = TOPICS, version: int = 5, qos: int = 1) -> None:
        self.client = local.client(version)
        self.client.connect("reader")
        self.client.subscribe(topic_filter, qos)

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


def overflow(local: LocalBroker, topic_filter: str = "t") -> None:
    """More waits than may."""
    join(local, "loser", topic_filter).drop()
    publish(local, Publish(b"t", MESSAGE, 1), Publish(b"t", b"stays", 1))


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


def settle(local: LocalBroker, storage: Any) -> None:
    """Wait until all is written and read that is to be."""
    events = local.broker.drop_events
    rounds = 3
    while rounds or events._reading is not None:  # how often the thread reads depends on the machine
        on_disk(local, storage)
        all_read(local, storage)
        local.run(lambda: None)
        rounds = max(rounds - 1, 0)


def published(packets: list[Packet]) -> list[Publish]:
    """The messages among them."""
    return [packet for packet in packets if isinstance(packet, Publish)]
