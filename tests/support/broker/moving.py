"""What clients leave behind with Mosquitto, and what they get when they come back to it, or to Sluice in its place."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final, NamedTuple

from protocol import properties as props
from protocol.acknowledgements import Pubcomp, Pubrec, Pubrel
from protocol.connack import Connack
from protocol.connect import Connect, Will
from protocol.packet import Packet
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from tests.support.broker.collecting import collect_packets
from tests.support.process import Address
from tests.support.wire import WireClient, connected

LASTING: Final[Any] = {props.SESSION_EXPIRY_INTERVAL: 1000}
PASSWORD: Final = b"correct horse"
RICH: Final[Any] = {
    props.PAYLOAD_FORMAT_INDICATOR: 1,
    props.CONTENT_TYPE: "text",
    props.RESPONSE_TOPIC: "answers/1",
    props.CORRELATION_DATA: b"\x00\x01",
    props.USER_PROPERTY: [("k", "v"), ("k", "w")],
}
Seen = list[object]


class Watch:
    """Collects what comes to clients: the second time at least as much as the first time, or until that is late.

    What has waited on disk is read back beside the event loop, so that the answer to a ping may come before it.
    """

    def __init__(self, first: "Watch | None" = None) -> None:
        self.counts: list[int] = []
        self._expected = list(first.counts) if first is not None else []

    def packets(self, client: WireClient, acknowledge: bool = True) -> list[Packet]:
        """All packets that are on their way."""
        wanted = self._expected.pop(0) if self._expected else 0
        found: list[Packet] = []
        deadline = time.monotonic() + 5
        while True:
            found += collect_packets(client, acknowledge)
            if len(found) >= wanted or time.monotonic() > deadline:
                self.counts.append(len(found))
                return found

    def messages(self, client: WireClient) -> list[Publish]:
        """All messages that are on their way."""
        return [each for each in self.packets(client) if isinstance(each, Publish)]


class Story(NamedTuple):
    """`leave` keeps its clients in the stack until Mosquitto has stopped; `lines`: of mosquitto.conf."""

    leave: Callable[[Address, ExitStack], object]
    come_back: Callable[[Address, Watch], Seen]
    lines: str = ""


def back(address: Address, client_id: str, version: int = 4, user: str | None = None) -> WireClient:
    """A client with its kept session; the session of before is still there."""
    client, was_there = entered(address, client_id, version, user)
    assert was_there, client_id
    return client


def entered(address: Address, client_id: str, version: int = 4, user: str | None = None) -> tuple[WireClient, bool]:
    """A client that keeps its session, and whether there was one."""
    client = WireClient(address, version)
    secret = PASSWORD if user is not None else None
    own = LASTING if version == 5 else None
    client.send(Connect(client_id, False, username=user, password=secret, properties=own, version=version))
    connack = client.expect(Connack)
    assert connack.reason_code == 0
    return client, connack.session_present


def seen(packet: Packet) -> object:
    """What a client sees of a packet; the Message Expiry Interval goes down meanwhile."""
    if not isinstance(packet, Publish):
        return type(packet).__name__, getattr(packet, "packet_id", 0)
    own = {key: value for key, value in (packet.properties or {}).items() if key != props.TOPIC_ALIAS}
    if props.MESSAGE_EXPIRY_INTERVAL in own:
        interval = own[props.MESSAGE_EXPIRY_INTERVAL]
        assert isinstance(interval, int)
        own[props.MESSAGE_EXPIRY_INTERVAL] = 500 < interval <= 600
    return packet.topic, packet.payload, packet.qos, packet.retain, packet.dup, own


def all_seen(packets: "list[Packet] | list[Publish]") -> Seen:
    """The same of each."""
    return [seen(packet) for packet in packets]


# -- what waits


def _leave_queues(address: Address, _: ExitStack) -> None:
    old, _there = entered(address, "old")
    old.subscribe("a/#", qos=2)
    old.disconnect()
    new, _there = entered(address, "new", 5)
    filters = [Subscription("a/+", 1, False, True), Subscription("/lead//x", 2, True), Subscription("$SYS/none", 1)]
    new.send(Subscribe(1, filters, {props.SUBSCRIPTION_IDENTIFIER: [77]}))
    new.expect(Suback)
    new.publish("/lead//x", b"own", 1)
    new.disconnect()
    with connected(address, 5) as publisher:
        for number in range(40):
            publisher.publish(f"a/{number % 5}", b"%d" % number, number % 3, retain=number % 4 == 0, properties=RICH)
        publisher.publish("/lead//x", b"", 2)
        publisher.publish("a/" + "long/" * 40, b"x" * 70_000, 1, properties={props.MESSAGE_EXPIRY_INTERVAL: 600})
        publisher.publish("a/4", "ü€".encode(), 2, properties={props.MESSAGE_EXPIRY_INTERVAL: 600, **RICH})


def _take_queues(address: Address, watch: Watch) -> Seen:
    found: Seen = []
    for client_id, version in (("old", 4), ("new", 5)):
        with back(address, client_id, version) as client:
            found.append(all_seen(watch.messages(client)))
            with connected(address, 5, client_id="later") as publisher:
                publisher.publish("a/2", b"later", 2, retain=True)
            found.append(all_seen(watch.messages(client)))
    return found


# -- what is in flight


def _leave_windows(address: Address, kept: ExitStack) -> None:
    clients = [entered(address, client_id, version)[0] for client_id, version in (("one", 4), ("two", 5), ("three", 4))]
    for client, qos in zip(clients, (1, 2, 2), strict=True):
        client.subscribe("f/#", qos=qos)
    with connected(address, 5) as publisher:
        for number in range(10):
            publisher.publish("f/x", b"%d" % number, 2, properties=RICH)
    for client in clients:
        kept.callback(client.close)
        messages = [client.expect(Publish) for _ in range(4)]
        if client is clients[2]:
            for message in messages[:3]:
                client.send(Pubrec(message.packet_id))
            pubrels = [client.expect(Pubrel) for _ in range(3)]
            client.send(Pubcomp(pubrels[0].packet_id))
            client.expect(Publish)


def _take_windows(address: Address, watch: Watch) -> Seen:
    found: Seen = []
    for client_id, version in (("one", 4), ("two", 5), ("three", 4)):
        with back(address, client_id, version) as client:
            found.append([(seen(each), getattr(each, "packet_id", 0)) for each in watch.packets(client, False)])
        with back(address, client_id, version) as client:
            packets = watch.packets(client)
            found.append([seen(each) for each in packets if isinstance(each, Publish)])
            found.append(sorted(each.packet_id for each in packets if isinstance(each, Pubrel)))
        with back(address, client_id, version) as client:
            found.append(all_seen(watch.packets(client)))
    return found


# -- what publishers have not released


def _leave_unreleased(address: Address, kept: ExitStack) -> None:
    reader, _ = entered(address, "reader", 5)
    reader.subscribe("u/#", "u/+", qos=2)
    reader.disconnect()
    for client_id, version in (("writer", 4), ("other", 5)):
        writer, _ = entered(address, client_id, version)
        kept.callback(writer.close)
        for number in (7, 9):
            writer.send(Publish(b"u/" + client_id.encode(), b"%d" % number, 2, number == 9, packet_id=number))
            assert writer.expect(Pubrec).packet_id == number


def _take_unreleased(address: Address, watch: Watch) -> Seen:
    found: Seen = []
    with back(address, "writer") as writer:
        writer.send(Publish(b"u/writer", b"7", 2, packet_id=7, dup=True))
        found += all_seen([each for each in watch.packets(writer) if not isinstance(each, Publish)])
        writer.send(Pubrel(7), Pubrel(9))
        found += all_seen(watch.packets(writer))
    with back(address, "other", 5) as other:
        found += all_seen(watch.packets(other))
        other.send(Pubrel(7), Pubrel(9))
        found += [(type(each), each.reason_code) for each in (other.expect(Pubcomp), other.expect(Pubcomp))]
    with back(address, "reader", 5) as reader:
        found.append(sorted(each.payload for each in watch.messages(reader)))
    with connected(address, 4) as late:
        late.subscribe("u/#", qos=2)
        found.append(sorted(each.topic for each in watch.messages(late)))
    return found


# -- retained messages, wills


def _leave_retained(address: Address, kept: ExitStack) -> None:
    wills = {
        "now": Will(b"r/will/now", b"gone", 1, True),
        "plain": Will(b"r/will/plain", b"gone", 1),
        "late": Will(b"r/will/late", b"gone", 1, True, {props.WILL_DELAY_INTERVAL: 900}),
    }
    watcher, _ = entered(address, "watcher", 5)
    watcher.subscribe("r/will/#", qos=1)
    watcher.disconnect()
    for name, will in wills.items():
        kept.enter_context(connected(address, 5, client_id=name, will=will, properties=LASTING, clean_start=False))
    with connected(address, 5) as publisher:
        for number in range(30):
            publisher.publish(
                f"r/{number}", b"%d" % number, number % 3, retain=True, properties=RICH if number % 2 else None
            )
        publisher.publish("r/1", b"", 1, retain=True)
        publisher.publish("r/2", b"new", 0, retain=True, properties={props.MESSAGE_EXPIRY_INTERVAL: 600})
        publisher.publish("/", b"slash", 1, retain=True)
        publisher.publish("r/big", b"b" * 200_000, 1, retain=True)


def _take_retained(address: Address, watch: Watch) -> Seen:
    found: Seen = []
    with back(address, "watcher", 5) as watcher:
        found.append(sorted(map(repr, all_seen(watch.messages(watcher)))))
    for version in (4, 5):
        with connected(address, version) as client:
            client.subscribe("#", "/", qos=2)
            mine = [each for each in watch.messages(client) if not each.topic.startswith(b"$SYS")]
            found.append(sorted(map(repr, all_seen(mine))))
    return found


# -- sessions, users, shared subscriptions


def _leave_sessions(address: Address, kept: ExitStack) -> None:
    entered(address, "stays", 5)[0].close()
    connected(address, 5, client_id="fresh", clean_start=True, properties=LASTING).close()
    kept.enter_context(connected(address, 5, client_id="brief", clean_start=False))
    kept.enter_context(connected(address, 4, client_id="clean", clean_start=True))
    connected(
        address, 5, client_id="forever", clean_start=False, properties={props.SESSION_EXPIRY_INTERVAL: 0xFFFFFFFF}
    ).close()
    member, _ = entered(address, "member", 5)
    member.subscribe("$share/g/s/#", "s/own", qos=1)
    member.disconnect()
    with connected(address, 4) as publisher:
        for number in range(4):
            publisher.publish("s/x", b"%d" % number, 1)


def _take_sessions(address: Address, watch: Watch) -> Seen:
    found: Seen = []
    for client_id in ("stays", "fresh", "brief", "clean", "forever", "never"):
        client, was_there = entered(address, client_id, 5)
        client.close()
        found.append((client_id, was_there))
    with back(address, "member", 5) as member:
        found += all_seen(watch.messages(member))
        with connected(address, 4) as publisher:
            publisher.publish("s/own", b"own", 1)
            found += all_seen(watch.messages(member))
            member.subscribe("$share/g/s/#", qos=1)
            publisher.publish("s/x", b"again", 1)
            found += all_seen(watch.messages(member))
    return found


def _leave_users(address: Address, _: ExitStack) -> None:
    for client_id, user in (("anns", "ann"), ("bens", "ben")):
        client, _there = entered(address, client_id, 5, user)
        client.subscribe("ann/#", "ben/#", "open/#", qos=1)
        client.disconnect()


def _take_users(address: Address, watch: Watch) -> Seen:
    found: Seen = []
    with connected(address, 4) as publisher:
        for topic in ("ann/x", "ben/x", "open/x"):
            publisher.publish(topic, b"for those who may", 1)
    for client_id, user in (("anns", "ann"), ("bens", "ben")):
        with back(address, client_id, 5, user) as client:
            found.append((client_id, sorted(each.topic for each in watch.messages(client))))
    return found


STORIES: Final = {
    "queues": Story(_leave_queues, _take_queues),
    "windows": Story(_leave_windows, _take_windows, "max_inflight_messages 4"),
    "unreleased": Story(_leave_unreleased, _take_unreleased),
    "retained": Story(_leave_retained, _take_retained),
    "sessions": Story(_leave_sessions, _take_sessions),
    "users": Story(_leave_users, _take_users, "password_file FOLDER/passwords\nacl_file FOLDER/acl"),
}
