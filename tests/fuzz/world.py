"""A broker with honest clients beside those of a script, and all that must hold whatever these do."""

import gc
from collections.abc import Iterator
from typing import Final

from broker.connection.connection import Connection
from broker.runtime.clock import monotonic_us
from broker.sessions import DetachedHost
from protocol.acknowledgements import Puback
from protocol.packet import Packet
from protocol.publish import Publish
from session.counters import Counters
from session.pacing import STALLED_MOST
from tests.fuzz import brokers, script
from tests.fuzz.client import Client
from tests.fuzz.clock import Clock
from tests.fuzz.script import Script, Step
from tests.support.broker.local import LocalBroker, LocalClient
from tests.support.session.books import assert_balanced, by_qos

TURNS: Final = 200
"""Rounds of the loop within which an honest message has to arrive."""
AFTER_ALL: Final = 60.0
"""Seconds after which nothing is left of a client: longer than any session, and than an unwanted timer."""
HELD_BACK: Final = 2 * STALLED_MOST / 1e6
"""Seconds within which a subscriber that has stalled no longer holds back an honest publisher (FC-16)."""
PULSE: Final = 5.0
"""Seconds after which the honest clients are heard of again."""

TOPICS: Final = (b"a", b"a/b", b"b", b"/")
"""Those that most subscriptions are about."""


class World:
    """What a script happens to."""

    def __init__(self, broker: str) -> None:
        self._clock = Clock()
        self._clock.__enter__()  # until `close` or `abandon`
        sections = brokers.sections(broker)
        self._local = LocalBroker(**sections)
        self._local.broker.sessions.keep_ended = True
        self._clients: dict[int, Client] = {}
        self._waiting: dict[str, tuple[int, int, int]] = {}
        """Deliveries that waited when a session's last interval ended, by QoS."""
        self._denies = "authorization" in sections
        self._sent = 0
        self._publisher = self._honest(4, "honest-publisher")
        self._subscriber = self._honest(5, "honest-subscriber")
        self._subscriber.subscribe("honest", 1)

    def _honest(self, version: int, client_id: str) -> LocalClient:
        client = self._local.client(version)
        client.connect(client_id)
        return client

    def take(self, step: Step) -> Iterator[tuple[int, Packet]]:
        """Let something happen; yields what comes back, and of which connection."""
        client = self._clients.get(step.connection)
        if step.verb == "wait":
            self._wait(step.seconds)
        elif step.verb == "count":
            self._count()
        elif step.verb == "open":
            if client is None or not client.open or client.refused:
                self._forget(step.connection)
                self._clients[step.connection] = Client(self._local, tls=step.connection in script.TLS)
        elif client is not None:
            self._on_connection(client, step)
        self._no_crash()
        for number, other in self._clients.items():
            for packet in other.look(waited=step.verb == "wait"):
                yield number, packet
                if self._denies and isinstance(packet, Publish):
                    assert not packet.topic.startswith(brokers.DENIED), "a denied topic reaches a client"
        self._hold()

    def _wait(self, seconds: float) -> None:
        """Let time go by, not so fast that the honest clients seem silent."""
        while seconds > 0:
            self._pass_time(min(seconds, PULSE))
            self._exchange()
            seconds -= PULSE

    def _pass_time(self, seconds: float) -> None:
        self._clock.go_on(seconds)
        self._local.pass_time(0)

    def _on_connection(self, client: Client, step: Step) -> None:
        if step.verb == "send":
            client.send(step.data)
        elif step.verb == "ack":
            client.acknowledge()
        elif step.verb == "answer":
            client.authenticate()
        elif step.verb == "deaf":
            client.go_deaf()
        elif step.verb == "hear":
            client.hear()
        elif step.verb == "end":
            client.end()
        else:
            client.lose()

    def _forget(self, number: int) -> None:
        client = self._clients.pop(number, None)
        if client is not None:
            client.lose()

    # -- what must hold

    def _hold(self) -> None:
        """Nothing has crashed, who is online adds up, and an honest message gets through."""
        self._no_crash()
        broker = self._local.broker
        assert broker.clients.online == sum(connection.session is not None for connection in broker.connections.open)
        for client in broker.clients.known():
            connected = client.connection
            assert connected is None or (isinstance(connected, Connection) and connected.session is client.session)
        self._exchange()

    def _no_crash(self) -> None:
        if self._local.crashes:
            context = self._local.crashes.pop()
            error = context.get("exception")
            raise AssertionError(f"the loop was told: {context.get('message')}") from error

    def _exchange(self) -> None:
        self._sent += 1
        payload = b"%d" % self._sent
        packet_id = self._sent % 65_535 + 1
        self._publisher.send(Publish(b"honest", payload, 1, packet_id=packet_id))
        acknowledged = arrived = False
        for turn in range(2 * TURNS):
            if turn == TURNS:
                self._pass_time(HELD_BACK)
            for packet in self._publisher.received():
                acknowledged = acknowledged or (isinstance(packet, Puback) and packet.packet_id == packet_id)
            for packet in self._subscriber.received():
                assert isinstance(packet, Publish), f"an honest subscriber gets {packet}"
                arrived = arrived or packet.payload == payload
                if packet.qos:
                    self._subscriber.send(Puback(packet.packet_id))
            if acknowledged and arrived:
                return
            self._local.run(lambda: None)
        self._no_crash()
        raise AssertionError(f"an honest message: arrived {arrived}, acknowledged {acknowledged}")

    def _count(self) -> None:
        """End an interval, as the export of the metrics does: the books balance, and go on from one to the next."""
        now = monotonic_us()
        broker = self._local.broker
        for ended in broker.sessions.ended:  # first: some of them have successors of the same name
            self._balance(ended.counters, self._waiting.pop(ended.client_id, (0, 0, 0)))
        for client in broker.clients.known():
            counters = client.session.take_counters(now)
            self._balance(counters, self._waiting.get(client.session.client_id, (0, 0, 0)))
            self._waiting[client.session.client_id] = by_qos(counters, "waiting")
        broker.sessions.ended.clear()

    @staticmethod
    def _balance(counters: Counters, waiting: tuple[int, int, int]) -> None:
        assert_balanced(counters)
        assert by_qos(counters, "waiting_start") == waiting

    def close(self) -> None:
        """Everybody goes; after a while nothing is left of them."""
        for number in list(self._clients):
            self._forget(number)
        self._hold()
        self._count()
        self._publisher.drop()
        self._subscriber.drop()
        broker = self._local.broker
        assert not broker.connections, "a connection stays"
        assert broker.clients.online == 0
        self._pass_time(AFTER_ALL)
        self._pass_time(1)  # for what the timers of the last moment have begun, such as forgetting topics
        self._no_crash()
        assert not broker.clients, f"sessions stay: {list(broker.clients.by_id)}"
        self._count()
        assert len(broker.wheel) <= len(broker.retained), f"{len(broker.wheel)} timers stay"
        for topic in TOPICS:
            assert not broker.router.route(Publish(topic, b""), None), f"a subscription to {topic!r} stays"
        del self._publisher, self._subscriber
        self._released()
        self._local.__exit__(None, None, None)
        self._clock.__exit__(None, None, None)

    def abandon(self) -> None:
        """Let go of the broker after a failure."""
        for connection in list(self._local.broker.connections.open):
            self._local.run(connection.abort)
        self._local.loop.close()
        self._clock.__exit__(None, None, None)

    def _released(self) -> None:
        gc.collect()
        mine = [
            thing
            for thing in gc.get_objects()
            if (isinstance(thing, Connection) and thing.handlers is self._local.broker.handlers)
            or (isinstance(thing, DetachedHost) and thing._sessions is self._local.broker.sessions)
        ]
        assert not mine, f"objects stay: {mine[:3]}"


def play(scenario: Script) -> Iterator[str]:
    """Do all that a script says, and tell step by step what comes back."""
    world = World(scenario.broker)
    try:
        for step in scenario.steps:
            yield str(step)
            for number, packet in world.take(step):
                yield f"    {number} <- {packet!r:.200}"
        yield "all go"
        world.close()
    except BaseException:
        world.abandon()
        raise
