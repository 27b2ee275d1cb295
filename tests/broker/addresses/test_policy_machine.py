"""FC-24 to FC-26: any events of publishers and subscribers of full addresses, in any order."""

from collections import defaultdict
from itertools import pairwise
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from broker.connection.connection import Connection
from tests.conftest import EXAMPLES
from tests.support.broker.full import COST, LIMIT, SIZE, address, local_broker, number_of
from tests.support.broker.local import LocalBroker
from tests.support.broker.producing import Publishing, Subscribing

TOPICS = ("full/a", "full/b")
RULES = st.sampled_from([{}, {}, {"reject_threshold_bytes": LIMIT + 3 * COST}])
TIMEOUT = 1000
"""Seconds that a PUBLISH may wait: more than go by in one example, as only timers see what `pass_time` adds."""
WINDOWS = st.sampled_from([3 * SIZE, 100_000])
PUBLISHERS = st.integers(0, 1)
MOST_ROUNDS = 200
WHO = st.integers(0, 3)


class AddressesMachine(RuleBasedStateMachine):
    """Two publishers, one of which also subscribes by another client, and two subscribers; the second one shares."""

    limited = True
    """Whether topics have limits."""

    @initialize(options=RULES, window=WINDOWS, version=st.sampled_from([4, 5]), qos=st.integers(1, 2))
    def begin(self, options: dict[str, Any], window: int, version: int, qos: int) -> None:
        """All connect."""
        session: dict[str, object] = {"producer_window_size": window, "receive_maximum_policy": "tolerate"}
        self.local = self.start(session, options).__enter__()
        self.publishers = [Publishing(self.local, "p0", version), Publishing(self.local, "p1", 9 - version)]
        self.subscribers = [
            Subscribing(self.local, "s0", 5, "full/#", qos),
            Subscribing(self.local, "s1", 4, "full/a", 2),
        ]
        self.clients = [*self.publishers, *self.subscribers]
        self.sent: dict[int, tuple[int, str, int]] = {}
        """Publisher, topic and QoS, by message."""
        self.given_up: set[int] = set()
        """What may have been refused: if the client misses that, it sends it again, behind what came later."""
        self.rejects = bool(options) and self.limited
        self.number = 0

    def start(self, session: dict[str, object], options: dict[str, Any]) -> LocalBroker:
        """A broker in which PUBLISHes wait for room in addresses."""
        return local_broker("block", session, block_timeout=f"{TIMEOUT}s", **options)

    def held(self) -> int:
        """Bytes and PUBLISHes that addresses hold."""
        return sum(address(self.local, topic).size + address(self.local, topic).waiting for topic in TOPICS)

    @rule(place=PUBLISHERS, topic=st.sampled_from(TOPICS), qos=st.integers(0, 2), count=st.integers(1, 12))
    def publish(self, place: int, topic: str, qos: int, count: int) -> None:
        """PUBLISHes come in one chunk."""
        publisher = self.publishers[place]
        if publisher.client.gone:
            return
        numbers = list(range(self.number + 1, self.number + count + 1))
        self.number += count
        for number in numbers:
            self.sent[number] = (place, topic, qos)
        publisher.publish(topic, numbers, qos)

    @rule(who=WHO)
    def read(self, who: int) -> None:
        """A client takes what has come for it."""
        self.clients[who].read()

    @rule(place=st.integers(0, 1), count=st.integers(1, 20))
    def acknowledge(self, place: int, count: int) -> None:
        """A subscriber acknowledges some of what it has received."""
        subscriber = self.subscribers[place]
        if not subscriber.client.gone:
            subscriber.acknowledge(count)

    @rule(who=WHO)
    def drop(self, who: int) -> None:
        """A connection breaks."""
        self.clients[who].drop()

    @rule(who=WHO)
    def come_back(self, who: int) -> None:
        """A client connects again, if it is away."""
        self.clients[who].come_back()

    @rule(seconds=st.sampled_from([0.3, 1.2, 3.0]))
    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.local.pass_time(seconds)

    @rule(place=PUBLISHERS)
    def expire(self, place: int) -> None:
        """What waits of a publisher, and of all before it, has waited for too long."""
        broker = self.local.broker
        waiting = broker.addresses.producers.parked(broker.clients.by_id[f"p{place}"].session)
        for parked in waiting:
            self.given_up.add(number_of(parked.publish))
            parked.since -= TIMEOUT * 1_000_000
        self.local.pass_time(1.2)

    @invariant()
    def windows_hold(self) -> None:
        """FC-25: what waits of a session takes up no more than its producer window, but for one message."""
        if not hasattr(self, "local"):
            return
        producers = self.local.broker.addresses.producers
        for known in self.local.broker.clients.known():
            waiting = producers.parked(known.session)
            assert sum(parked.weight for parked in waiting) < producers.window + SIZE

    def teardown(self) -> None:
        """In the end all that was promised has arrived, in order, and nothing is held any more."""
        if not hasattr(self, "local"):
            return
        self._finish(self.local)
        assert all(publisher.idle for publisher in self.publishers)
        promised = set[int]().union(*(publisher.promised for publisher in self.publishers))
        for subscriber, topics in zip(self.subscribers, (TOPICS, TOPICS[:1]), strict=True):
            got = [number_of(message) for message in subscriber.got]
            assert {number for number in promised if self.sent[number][1] in topics} <= set(got)
            self._check_order(got)
        self.local.__exit__(None, None, None)

    def _finish(self, local: LocalBroker) -> None:
        """Let all clients do what they have to, until nothing is left to do."""
        quiet = 0
        for _ in range(MOST_ROUNDS):
            if quiet == 5:
                break
            quiet += 1
            for client in self.clients:
                client.come_back()
                if client.read():
                    quiet = 0
            for subscriber in self.subscribers:
                subscriber.acknowledge(1000)
            local.pass_time(1.2)
        else:
            raise AssertionError("there is no end to it")
        addresses = local.broker.addresses
        assert self.held() == 0
        assert addresses.full == 0
        for known in local.broker.clients.known():
            assert addresses.producers.parked(known.session) == []
            assert isinstance(known.connection, Connection)
            assert known.connection.gate.reasons == 0

    def _check_order(self, got: list[int]) -> None:
        """FC-9: per publisher, topic and QoS."""
        order: defaultdict[tuple[int, str, int], list[int]] = defaultdict(list)
        for number in got:
            if number not in self.given_up and not self.rejects:
                order[self.sent[number]].append(number)
        for numbers in order.values():
            assert all(one < other for one, other in pairwise(numbers)), numbers


class QueuesMachine(AddressesMachine):
    """The same, but what is full are the queues of the subscribers, which tell their publishers (FC-34)."""

    limited = False

    def start(self, session: dict[str, object], options: dict[str, Any]) -> LocalBroker:
        """A broker in which PUBLISHes wait for room in queues."""
        own: dict[str, object] = {
            "mqueue_overflow": "block",
            "overflow_timeout": f"{TIMEOUT}s",
            "overflow_offline_grace": f"{TIMEOUT}s",
            "retry_interval": "infinity",
            "max_inflight": 2,
            "max_mqueue_len": 3,
            "mqueue_fairness": "publisher" if options else "fifo",
        }
        return LocalBroker(session=own | session)

    def held(self) -> int:
        """PUBLISHes that wait."""
        return sum(full.waiting for full in self.local.broker.router.addresses.blocked.values())


def test_anything() -> None:
    """FC-9, FC-24 to FC-26: acknowledged messages arrive in order, at QoS 2 once, and addresses end empty."""
    run_state_machine_as_test(
        AddressesMachine, settings=settings(max_examples=2 * EXAMPLES, stateful_step_count=40, deadline=None)
    )


def test_anything_with_full_queues() -> None:
    """FC-9, FC-34: acknowledged messages arrive in order, at QoS 2 once, and nobody waits for ever."""
    run_state_machine_as_test(
        QueuesMachine, settings=settings(max_examples=2 * EXAMPLES, stateful_step_count=40, deadline=None)
    )
