"""Looks at a broker that nobody uses any more: it must be as if nothing had been."""

import time
from collections.abc import Iterator

from protocol.acknowledgements import Puback
from protocol.ping import Pingreq, Pingresp
from protocol.publish import Publish, encode_publish
from session.most_specific import NONE, MostSpecific
from tests.soak.checker import Violation
from tests.soak.plan import RoundPlan, topics
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient

SECONDS = 10.0
"""How long $SYS may take to say that everybody has left."""

EMPTY = {
    "clients/total": "1",
    "subscriptions/count": "4",
    "shared_subscriptions/count": "0",
    "messages/inflight": "0",
}
"""What $SYS has to say: the one that asks is a client itself, and subscribes to no more than it has to."""


def probe(broker: BrokerProcess, plan: RoundPlan) -> list[Violation]:
    """Return what the broker still holds, though all clients have ended their sessions."""
    broker.assert_healthy()
    found = _check_empty(broker)
    chosen = dict(_chosen(plan))
    for topic, limit in chosen.items():
        found += _check_address(broker, topic, limit)
    try:
        wait_until(lambda: all(_has_room(broker, topic) for topic in chosen), "room", SECONDS)
    except TimeoutError:
        left = ", ".join(topic for topic in chosen if not _has_room(broker, topic))
        found.append(Violation("FC-24 empty in the end", left, "has not got room again"))
    return found


def _check_empty(broker: BrokerProcess) -> list[Violation]:
    said: dict[str, str] = {}
    deadline = time.monotonic() + SECONDS
    with WireClient(broker.address(), 5) as client:
        client.connect("observer")
        client.subscribe(*[f"$SYS/broker/{name}" for name in EMPTY])
        while time.monotonic() < deadline:
            message = client.receive_message()
            said[message.topic.decode().removeprefix("$SYS/broker/")] = message.payload.decode()
            if all(said.get(name) == value for name, value in EMPTY.items()):
                return []
    wrong = {name: said.get(name) for name, value in EMPTY.items() if said.get(name) != value}
    return [Violation("empty in the end", "the broker", f"$SYS still says {wrong}")]


def _chosen(plan: RoundPlan) -> Iterator[tuple[str, int]]:
    """One topic of each address that is configured, and the payload bytes that it may hold."""
    rules = MostSpecific([address["match"] for address in plan.addresses])
    wanted = {rules.find(topic.encode()): topic for topic in topics()}
    for number, topic in wanted.items():
        if number != NONE:
            yield topic, plan.addresses[number]["max_size_bytes"]


def _check_address(broker: BrokerProcess, topic: str, limit: int) -> list[Violation]:
    """FC-24: whether it holds nothing, neither too much nor less than that."""
    full = _count(broker, "address_full", topic)
    with WireClient(broker.address(), 5) as subscriber, WireClient(broker.address(), 5) as publisher:
        subscriber.connect()
        subscriber.subscribe(topic, qos=1)
        publisher.connect()
        publisher.send(encode_publish(topic.encode(), bytes(limit), 1, False, False, 1, None, 5))
        try:
            code = publisher.expect(Puback).reason_code
            held = subscriber.expect(Publish)
        except TimeoutError:
            return [Violation("FC-24 empty in the end", topic, f"takes no {limit} bytes any more")]
        if code or _count(broker, "address_full", topic) > full:
            return [Violation("FC-24 empty in the end", topic, f"was full at {limit} bytes: 0x{code:02X}")]
        publisher.send(encode_publish(topic.encode(), b".", 1, False, False, 2, None, 5))
        publisher.send(Pingreq())
        while not isinstance(publisher.receive(), Pingresp):
            pass
        try:
            wait_until(lambda: _count(broker, "address_full", topic) > full, "full", 2)
        except TimeoutError:
            return [Violation("FC-24", topic, f"takes more than {limit} bytes, which it holds already")]
        subscriber.send(Puback(held.packet_id))
    return []


def _has_room(broker: BrokerProcess, topic: str) -> bool:
    return _count(broker, "address_full", topic) == _count(broker, "address_has_room", topic)


def _count(broker: BrokerProcess, event: str, topic: str) -> int:
    return sum(f'"{event}"' in line and f'"{topic}"' in line for line in broker.stderr.splitlines())
