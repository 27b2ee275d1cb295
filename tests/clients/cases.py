"""The cases. Each is a function of a client and a place; it raises AssertionError.

On the other side stands paho-mqtt, in a process of its own.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from types import TracebackType
from typing import Self
from uuid import uuid4

from tests.clients.agent import Agent, Received
from tests.clients.agents.base import Link
from tests.clients.catalogue import CLIENTS, Client
from tests.support.brokers import Listener
from tests.support.certificates import Certificates
from tests.support.process import BrokerProcess

PATIENCE = 30.0
"""Seconds without a message after which no more is expected."""

BURST_SECONDS, MESSAGE_SECONDS = 30.0, 0.004
"""Seconds that a client may take to publish a burst: at least, and for each message."""

SIZE = 100
"""Bytes of a message in a burst."""

PAYLOADS = (b"21.5", bytes(range(256)), b"", "größer".encode(), bytes(20_000))
"""Text, every byte value, empty, beyond ASCII, and larger than one small packet."""

LARGE = 900_000

KEPT = 300
"""Seconds for which a session is kept."""


@dataclass(frozen=True)
class Case:
    """The conditions of one cell: what is done, in which version of MQTT, over which listener."""

    kind: str
    version: int
    listener: str = "tcp"
    qos: int = 1
    count: int = 0

    @property
    def name(self) -> str:
        """A name for the table and for `--cases`."""
        version = "v5" if self.version == 5 else "v3"
        name = f"{self.kind}-{version}-{self.listener}"
        return f"{name}-qos{self.qos}-{self.count}" if self.count else name


class Peers:
    """Running agents of paho-mqtt, used by one case after another; as a context manager they end with it."""

    def __init__(self) -> None:
        self._idle: list[Agent] = []

    def take(self) -> Agent:
        """Return one that is not connected."""
        while self._idle:
            peer = self._idle.pop()
            if peer.fresh:
                return peer
            peer.close()
        return CLIENTS["paho"].agent()

    def give_back(self, peer: Agent) -> None:
        """Disconnect one that works; end one that is too old."""
        peer.disconnect()
        if peer.fresh:
            self._idle.append(peer)
        else:
            peer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for peer in self._idle:
            peer.close()


@dataclass(frozen=True)
class Surroundings:
    """What several cases share."""

    broker: BrokerProcess
    certificates: Certificates
    peers: Peers


def listeners(certificates: Certificates) -> tuple[Listener, ...]:
    """Return the listeners of the broker."""
    return Listener(), Listener("tls", certificates), Listener("mutual", certificates, True)


class Place:
    """What one case has: the broker's address, and agents, which end with it."""

    def __init__(self, around: Surroundings, case: Case, agents: ExitStack) -> None:
        self.case = case
        self.topic = f"clients/größe/{uuid4().hex}"
        self._broker = around.broker
        self._certificates = around.certificates
        self._pool = around.peers
        self._agents = agents
        self._watched: list[Agent] = []
        self._peers: list[Agent] = []
        self._settled: set[Agent] = set()

    def link(self, **changes: object) -> Link:
        """Return the parameters of CONNECT for this case, with a client id of its own."""
        address = self._broker.address(self.case.listener)
        link = Link(address.host, address.port, self.case.version, f"client-{uuid4().hex[:12]}")
        if self.case.listener != "tcp":
            link = replace(link, cafile=str(self._certificates.cafile))
        if self.case.listener == "mutual":
            shown = self._certificates.client
            link = replace(link, certfile=str(shown.certfile), keyfile=str(shown.keyfile))
        return replace(link, **changes)  # type: ignore[arg-type]  # fields by name

    def connected(self, client: Client, link: Link | None = None) -> Agent:
        """Return a connected agent, whose connection must not be lost during the case."""
        agent = self._agents.enter_context(client.agent())
        agent.connect(link or self.link())
        self._watched.append(agent)
        return agent

    def peer(self, link: Link | None = None) -> Agent:
        """Return a connected paho-mqtt, the peer; over plain TCP unless the link says otherwise."""
        if link is None:
            address = self._broker.address("tcp")
            link = self.link(host=address.host, port=address.port, cafile="", certfile="", keyfile="")
        peer = self._pool.take()
        self._agents.callback(self._end, peer)
        peer.connect(link)
        self._peers.append(peer)
        return peer

    def settle(self) -> None:
        """No agent has lost its connection; the peers can be used again."""
        for agent in (*self._watched, *self._peers):
            assert not agent.lost, f"{agent.name} was disconnected: {agent.lost[0]}"
        while self._peers:
            self._pool.give_back(self._peers[-1])
            self._settled.add(self._peers.pop())

    def _end(self, peer: Agent) -> None:
        if peer not in self._settled:
            peer.close()


def exchange(client: Client, place: Place) -> None:
    """Every QoS and payload arrives as it was sent, in both directions; a retained message has its flag."""
    agent, peer = place.connected(client), place.peer()
    for qos in (0, 1, 2):
        here, there = f"{place.topic}/{qos}/here", f"{place.topic}/{qos}/there"
        agent.subscribe(f"{here}/#", qos)
        peer.subscribe(f"{there}/#", qos)
        _carry(agent, peer, there, qos)
        _carry(peer, agent, here, qos)


def _carry(sender: Agent, receiver: Agent, topic: str, qos: int) -> None:
    payloads = (*PAYLOADS, bytes(LARGE)) if qos == 1 else PAYLOADS
    sent = [Received(f"{topic}/{number}", payload, qos, False) for number, payload in enumerate(payloads)]
    for message in sent:
        sender.publish(message)
    _expect(receiver, sent)


def retained(client: Client, place: Place) -> None:
    """A message that the client publishes with RETAIN is sent to later subscribers, itself and others."""
    agent, peer = place.connected(client), place.peer()
    last = Received(f"{place.topic}/kept", b"last known value", 1, True)
    agent.publish(last)
    for late in (peer, agent):
        late.subscribe(f"{place.topic}/#", 1)
        _expect(late, [last])
    agent.publish(last._replace(payload=b""))


def will(client: Client, place: Place) -> None:
    """The will is published when the connection breaks, not on DISCONNECT [MQTT-3.1.2-8], [MQTT-3.14.4-3]."""
    peer = place.peer()
    peer.subscribe(f"{place.topic}/#", 1)
    mine = Received(f"{place.topic}/will", b"gone", 1, False)
    link = place.link(will_topic=mine.topic, will_payload=mine.payload.hex(), will_qos=mine.qos)
    polite = place.connected(client, link)
    polite.publish(Received(f"{place.topic}-other", b"", 1, False))
    polite.disconnect()
    polite.close()
    vanishing = place.connected(client, replace(link, client_id="vanishing-" + uuid4().hex[:8]))
    vanishing.subscribe(f"{place.topic}-other", 1)
    barrier = _barrier(place, 1)
    _expect(peer, [barrier])
    vanishing.kill()
    _expect(peer, [mine])


def kept(client: Client, place: Place) -> None:
    """Messages published while a client is away arrive when it resumes its session."""
    link = place.link(clean=False, expiry=KEPT)
    first = place.connected(client, link)
    first.subscribe(f"{place.topic}/#", 1)
    first.disconnect()
    first.close()
    peer = place.peer()
    sent = [Received(f"{place.topic}/{number}", b"%d" % number, 1, False) for number in range(20)]
    for message in sent:
        peer.publish(message)
    again = place.connected(client, replace(link, filter=f"{place.topic}/#"))
    _expect(again, sent)


def shared(client: Client, place: Place) -> None:
    """Each message goes to one of two members of a group, and both get some."""
    members = [place.connected(client) for _ in range(2)]
    for member in members:
        member.subscribe(f"$share/group/{place.topic}/#", 1)
    peer = place.peer()
    sent = [Received(f"{place.topic}/{number}", b"%d" % number, 1, False) for number in range(40)]
    for message in sent:
        peer.publish(message)
    shares: list[list[Received]] = [[], []]
    until = time.monotonic() + PATIENCE
    while sum(map(len, shares)) < len(sent) and time.monotonic() < until:
        for member, share in zip(members, shares, strict=True):
            share += member.receive(len(sent), 0.05)
    assert all(shares), f"members got {[len(share) for share in shares]} of {len(sent)}"
    assert sorted([*shares[0], *shares[1]]) == sorted(sent), f"members got {[len(share) for share in shares]}"


def burst_out(client: Client, place: Place) -> None:
    """A burst that the client publishes in a loop arrives completely; its will is not published."""
    receiver = place.peer()
    receiver.subscribe(f"{place.topic}/#", place.case.qos)
    publisher = place.connected(client, _with_will(place))
    _burst(place, publisher, receiver)


def burst_in(client: Client, place: Place) -> None:
    """A burst of a fast publisher arrives at the client completely."""
    receiver = place.connected(client)
    receiver.subscribe(f"{place.topic}/#", place.case.qos)
    publisher = place.peer(_with_will(place))
    _burst(place, publisher, receiver)


def _with_will(place: Place) -> Link:
    return place.link(will_topic=f"{place.topic}/will", will_payload=b"gone".hex(), will_qos=place.case.qos)


def _burst(place: Place, publisher: Agent, receiver: Agent) -> None:
    case = place.case
    seconds = BURST_SECONDS + MESSAGE_SECONDS * case.count
    publisher.burst(f"{place.topic}/burst", case.count, SIZE, case.qos, seconds)
    arrived = receiver.receive(case.count, PATIENCE)
    publisher.receive(0, 0)  # a bridge stays connected, and is disconnected when all has arrived
    assert not publisher.lost, f"{publisher.name} was disconnected: {publisher.lost[0]}; {len(arrived)} arrived"
    barrier = _barrier(place, case.qos)
    more = receiver.receive(1, PATIENCE)
    while more and more[0] != barrier:
        arrived += more
        more = receiver.receive(1, PATIENCE)
    numbers = [int(message.payload[:8]) for message in arrived if message.topic.endswith("/burst")]
    wills = len(arrived) - len(numbers)
    assert not wills, f"the will was sent, {case.count - len(set(numbers))} of {case.count} lost"
    _check_numbers(numbers, case.count)
    assert {(len(message.payload), message.qos) for message in arrived} == {(SIZE, case.qos)}
    assert more == [barrier], "nothing comes behind the burst"


def _check_numbers(numbers: Sequence[int], count: int) -> None:
    """All numbers are there once, in order."""
    missing = count - len(set(numbers))
    assert not missing, f"{missing} of {count} lost"
    assert len(numbers) == count, f"{len(numbers) - count} duplicates"
    assert list(numbers) == list(range(count)), "out of order"


def _barrier(place: Place, qos: int) -> Received:
    """Publish a message that must arrive after all others, and return it."""
    message = Received(f"{place.topic}/barrier", b"barrier", qos, False)
    peer = place.peer()
    peer.publish(message._replace(topic=f"{place.topic}-other", qos=1))  # a round trip
    peer.publish(message)
    return message


def _expect(receiver: Agent, messages: Sequence[Received]) -> None:
    """These messages come next, and no others."""
    came = receiver.receive(len(messages), PATIENCE)
    assert came == list(messages), f"{receiver.name} got {_short(came)}, not {_short(messages)}"


def _short(messages: Sequence[Received]) -> str:
    shown = [f"{message.topic[-20:]} QoS {message.qos}{' retain' * message.retain}" for message in messages[:8]]
    return f"{len(messages)} ({', '.join(shown)})"


KINDS: dict[str, Callable[[Client, Place], None]] = {
    "exchange": exchange,
    "retained": retained,
    "will": will,
    "kept": kept,
    "shared": shared,
    "burst-out": burst_out,
    "burst-in": burst_in,
}

BURSTS = (1_000, 20_000)


def all_cases() -> Iterator[Case]:
    """Every case of the matrix."""
    for version in (4, 5):
        for listener in ("tcp", "tls"):
            yield Case("exchange", version, listener)
        yield Case("exchange", version, "mutual")
        for kind in ("retained", "will", "kept", "shared"):
            yield Case(kind, version)
        for kind in ("burst-out", "burst-in"):
            for listener in ("tcp", "tls"):
                for count in BURSTS:
                    for qos in (0, 1, 2):
                        yield Case(kind, version, listener, qos, count)


def why_not(client: Client, case: Case) -> str:
    """Return why a client cannot do a case; empty if it can."""
    if case.version not in client.versions:
        return f"{client.name} has no MQTT {'5' if case.version == 5 else '3.1.1'}"
    return next((why for pattern, why in client.cannot.items() if fnmatch(case.name, pattern)), "")


def run(client: Client, case: Case, around: Surroundings) -> None:
    """Run a client through a case; AssertionError says what was wrong."""
    with ExitStack() as agents:
        place = Place(around, case, agents)
        KINDS[case.kind](client, place)
        place.settle()
