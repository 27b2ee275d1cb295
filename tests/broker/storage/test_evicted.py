"""FC-30: what waits on disk only, by its weight (FC-12), in its address (FC-24), or as the newest only (FC-37)."""

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.storage.compaction import Compaction
from broker.storage.evicted import Evicted
from broker.storage.index import Entry
from broker.storage.storage import Storage
from protocol import properties as props
from protocol.acknowledgements import Puback
from protocol.connect import Connect
from protocol.properties import Properties
from protocol.publish import Publish
from session.cost import cost
from tests.support.broker.local import LocalBroker, LocalClient
from tests.support.broker.stored import KEPT, broker_on, connected, on_disk

FULL = 1
"""Bytes of memory that any delivery exceeds."""
TOPICS = ("high", "low", "other")
PRIORITIES = [{"match": "high", "weight": 9}, {"match": "low", "weight": 2}]
SIZE = 3000
"""Payload bytes: a few of them are all that a queue may keep in memory in any case."""
SOME_PROPERTIES: tuple[Properties | None, ...] = (
    None,
    {props.MESSAGE_EXPIRY_INTERVAL: 1000, props.CONTENT_TYPE: "text/é"},
    {props.USER_PROPERTY: [("one", "1"), ("two", "")], props.CORRELATION_DATA: bytes(9)},
)
"""Those of a message, by the remainder of its number."""


class Brokers:
    """One client that is away, on two brokers: one has to evict, the other has all the memory it wants."""

    def __init__(self, stack: ExitStack, folder: Path, **sections: Any) -> None:
        self._stack = stack
        self._folder = folder
        self._sections = sections
        self.running: list[tuple[LocalBroker, Storage]] = []
        self.start()
        for local, storage in self.running:
            connected(local, storage, "away", "#").drop()

    def start(self, **changed: Any) -> None:
        """Start both on what their journals hold, with the sections that have changed."""
        self._stack.close()
        self._sections |= changed
        self.running = [
            self._stack.enter_context(broker_on(self._folder / str(memory), memory, **self._sections))
            for memory in (FULL, 0)
        ]

    def publish(self, topic: str, first: int, count: int, qos: int = 1) -> None:
        """Publish numbered messages to both."""
        for local, storage in self.running:
            publisher = connected(local, storage, "publisher")
            numbers = range(first, first + count)
            publisher.send(*[message(topic, number, qos) for number in numbers])
            on_disk(local, storage)
            publisher.drop()

    def compact(self) -> None:
        """Have both write their oldest frames again."""
        for local, storage in self.running:
            local.complete(Compaction(storage).remove_oldest())

    def taken(self, most: int) -> list[list[int]]:
        """What the client gets of each when it comes back for a while: at most so many."""
        return [take(local, storage, most) for local, storage in self.running]

    def evicted(self) -> int:
        """How many deliveries are on disk only, of the broker that evicts."""
        return sum(frame.evicted for frame in self.running[0][1].journal.frames.values())

    def dropped(self) -> list[int]:
        """How many deliveries each has dropped from a full queue since its start."""
        return [session_of(local).counters.dropped_queue_full for local, _ in self.running]

    def superseded(self) -> list[int]:
        """How many deliveries newer ones have replaced in each since its start."""
        return [session_of(local).counters.uncommon.superseded() for local, _ in self.running]

    def waiting_bytes(self) -> list[int]:
        """The payload bytes that wait in each."""
        return [session_of(local).outbound.mqueue.bytes for local, _ in self.running]

    def held(self) -> list[list[int]]:
        """The sizes of the addresses of each."""
        return [
            [0 if (found := local.broker.router.address(topic.encode())) is None else found.size for topic in TOPICS]
            for local, _ in self.running
        ]


def message(topic: str, number: int, qos: int = 1) -> Publish:
    """A numbered message."""
    properties = SOME_PROPERTIES[number % len(SOME_PROPERTIES)]
    payload = b"%06d" % number + bytes(SIZE + number % 7)
    return Publish(topic.encode(), payload, qos, properties=properties, packet_id=number % 60_000 + 1)


def held(topic: str, numbers: Iterable[int]) -> int:
    """What these messages of a topic count for its address."""
    return sum(cost(message(topic, number)) for number in numbers)


def session_of(local: LocalBroker) -> Any:
    """The session of the client that is away."""
    return local.broker.clients.by_id["away"].session


def take(local: LocalBroker, storage: Storage, most: int) -> list[int]:
    """Come back, acknowledge one by one what comes, at most so many, and leave; those that came first."""
    client: LocalClient = local.client()
    client.send(Connect("away", False, 0, properties=KEPT, version=5))
    came: list[int] = []
    waiting: list[Publish] = []
    sender, mqueue = session_of(local).outbound.sender, session_of(local).outbound.mqueue
    while len(came) < most and (sender.window.entries or mqueue):
        for _ in range(1000):
            waiting += [packet for packet in client.received() if isinstance(packet, Publish)]
            if waiting:
                break
            on_disk(local, storage)
            local.run(lambda: None)
        first = waiting.pop(0)
        came.append(int(first.payload[:6]))
        client.send(Puback(first.packet_id))
        waiting += [packet for packet in client.received() if isinstance(packet, Publish)]
    for _ in range(1000):  # what is read from disk enters the window later than what is in memory
        if not mqueue or len(sender.window.entries) >= sender.limits.max_inflight:
            break
        on_disk(local, storage)
        local.run(lambda: None)
    client.drop()
    return came


@pytest.mark.parametrize("conflate", [[], ["high", "low"]])
@pytest.mark.parametrize("overflow", ["drop_oldest", "drop_oldest_qos0", "drop_newest"])
def test_as_in_memory(overflow: str, conflate: list[str]) -> None:
    """FC-5, FC-12, FC-24a, FC-37: order, drops, what is superseded or held are the same wherever deliveries wait.

    Also after a restart.
    """
    rules = [{"match": topic, "max_size_bytes": "1GiB"} for topic in TOPICS[:2]]
    session = {"max_mqueue_len": 30, "mqueue_overflow": overflow, "overflow_patience": "0s", "max_inflight": 3}
    steps = st.lists(
        st.one_of(
            st.tuples(st.sampled_from(TOPICS), st.integers(1, 20)),
            st.tuples(st.sampled_from(["compact", "restart", "take"]), st.integers(1, 20)),
        ),
        max_size=8,
    )

    @settings(max_examples=15)
    @given(steps)
    def compare(steps: list[tuple[str, int]]) -> None:
        with TemporaryDirectory() as name, ExitStack() as stack:
            limits = {**session, "mqueue_priorities": PRIORITIES, "conflate": conflate}
            both = Brokers(stack, Path(name), session=limits, addresses=rules)
            sent = 0
            for step, count in steps:
                if step in TOPICS:
                    both.publish(step, sent, count)
                    sent += count
                elif step == "take":
                    evicting, other = both.taken(count)
                    assert evicting == other
                elif step == "compact":
                    both.compact()
                else:
                    both.start()
                evicting_drops, other_drops = both.dropped()
                assert evicting_drops == other_drops
                evicting_superseded, other_superseded = both.superseded()
                assert evicting_superseded == other_superseded
                in_evicting, in_other = both.held()
                assert in_evicting == in_other
            evicting, other = both.taken(1000)
            assert evicting == other
            assert both.evicted() == 0
            assert both.held() == [[0, 0, 0]] * 2

    compare()


def test_the_newest_in_the_place_of_another_flow(tmp_path: Path) -> None:
    """FC-37, FC-33, FC-24: on disk a newer delivery has the place of another publisher's, and compaction finds it.

    Once it is on disk, the older one is gone for good.
    """
    rules = [{"match": "#", "max_size_bytes": "1MiB"}]
    session = {"mqueue_fairness": "publisher", "conflate": ["#"], "max_inflight": 1}
    with ExitStack() as stack:
        both = Brokers(stack, tmp_path, session=session, addresses=rules)
        for number, (publisher, topic) in enumerate([(p, f"{n}") for p in "xyz" for n in range(20)]):
            for local, storage in both.running:
                client = connected(local, storage, publisher)
                client.send(message(topic, number))
                on_disk(local, storage)
                client.drop()
            if number % 17 == 0:
                both.compact()
        assert 10 < both.evicted() < 20
        assert both.superseded() == [40, 40]
        assert both.waiting_bytes() == [sum(message("", number).size for number in range(40, 60))] * 2
        for local, _ in both.running:
            sizes = [address.size for n in range(20) if (address := local.broker.router.address(b"%d" % n)) is not None]
            assert sizes == [held(f"{number - 40}", [number]) for number in range(40, 60)]
        assert both.taken(10) == [list(range(40, 50))] * 2
        both.start(session={**session, "conflate": []})
        assert both.taken(1000) == [list(range(50, 60))] * 2
        assert both.evicted() == 0


def test_what_waited_before_flows_goes_first(tmp_path: Path) -> None:
    """FC-33, FC-9: what waited before queues were fair goes first, also when another flow has been dropped."""
    session: dict[str, Any] = {"max_mqueue_len": 4, "max_inflight": 1}

    def small(number: int) -> Publish:
        return Publish(b"t", b"%06d" % number, 1, packet_id=number + 1)

    with broker_on(tmp_path, session=session) as (local, storage):
        connected(local, storage, "away", "#").drop()
        connected(local, storage, "same").send(*[small(number) for number in range(3)])
        on_disk(local, storage)
    session["mqueue_fairness"] = "publisher"
    with broker_on(tmp_path, session=session) as (local, storage):
        for publisher, sent in (("other", message("t", 3)), ("same", small(4))):
            connected(local, storage, publisher).send(sent)
            on_disk(local, storage)
        assert session_of(local).counters.dropped_queue_full == 1
        assert take(local, storage, 1) == [0]
    with broker_on(tmp_path, session=session) as (local, storage):
        assert take(local, storage, 3) == [1, 2, 4]


@pytest.mark.parametrize("weights", [[], PRIORITIES])
def test_counters_after_a_restart(tmp_path: Path, weights: list[dict[str, Any]]) -> None:
    """FC-27: what waited before a restart counts as offered and waiting, by QoS, also with weights (FC-12)."""
    with ExitStack() as stack:
        both = Brokers(stack, tmp_path, session={"mqueue_priorities": weights})
        both.publish("high", 0, 4)
        both.publish("low", 4, 3)
        both.publish("other", 7, 2, qos=2)
        both.start()
        for local, _ in both.running:
            counters = session_of(local).take_counters(0)
            assert (counters.offered_qos1, counters.offered_qos2) == (7, 2)
            assert (counters.uncommon.waiting_qos1, counters.uncommon.waiting_qos2) == (7, 2)
        assert both.waiting_bytes() == [sum(message("", number).size for number in range(9))] * 2


def test_addresses_count_what_is_on_disk_only(tmp_path: Path) -> None:
    """FC-24: an address has the same size wherever its deliveries wait, also after a restart, until they are gone."""
    rules = [{"match": topic, "max_size_bytes": "1MiB"} for topic in TOPICS[:2]]
    with ExitStack() as stack:
        both = Brokers(stack, tmp_path, session={"max_mqueue_len": 0, "max_inflight": 2}, addresses=rules)
        for step in range(6):
            both.publish(TOPICS[step % 3], 20 * step, 20)
        sizes = [held(topic, [*range(n, n + 20), *range(60 + n, 80 + n)]) for n, topic in ((0, "high"), (20, "low"))]
        assert both.evicted() > 100
        assert both.held() == [[*sizes, 0]] * 2
        for left in (100, 80):
            first, second = both.taken(20)
            assert len(first) == len(second) == 20
            evicting, other = both.held()
            assert evicting == other
            assert sum(evicting) < sum(sizes)
            both.start()
            assert both.held() == [evicting, other]
            assert both.evicted() > left - 10
        both.taken(1000)
        assert both.held() == [[0, 0, 0]] * 2


def test_a_full_address(tmp_path: Path) -> None:
    """FC-25: publishers wait for the room that deliveries on disk take, and get it when these are sent."""
    rules = [{"match": "high", "max_size_bytes": held("high", range(30)), "block_timeout": "infinity"}]
    session = {"max_mqueue_len": 0, "producer_window_size": "1MiB"}
    with ExitStack() as stack:
        both = Brokers(stack, tmp_path, session=session, addresses=rules)
        both.publish("high", 0, 25)
        both.start()
        for local, storage in both.running:
            publisher = connected(local, storage, "publisher")
            publisher.send(*[message("high", number) for number in range(25, 35)])
            on_disk(local, storage)
            local.run(lambda: None)
            assert len(publisher.received()) == 5
            assert take(local, storage, 35) == list(range(35))
            on_disk(local, storage)
            local.run(lambda: None)
            assert len(publisher.received()) == 5


def test_a_session_that_ends(tmp_path: Path) -> None:
    """FC-24: the room of deliveries on disk is free when their session ends, and nothing of it stays in the journal."""
    rules = [{"match": "high", "max_size_bytes": "1MiB"}]
    with ExitStack() as stack:
        session = {"max_mqueue_len": 0, "mqueue_priorities": PRIORITIES}
        both = Brokers(stack, tmp_path, session=session, addresses=rules)
        both.publish("high", 0, 20)
        both.publish("low", 20, 20)
        for local, storage in both.running:
            local.client().send(Connect("away", True, 0, version=5))
            on_disk(local, storage)
            assert not any(frame.live or frame.evicted for frame in storage.journal.frames.values())
        assert both.held() == [[0, 0, 0]] * 2


def test_each_lane_has_an_index() -> None:
    """FC-12, FC-33: what is on disk only is kept by lane."""
    evicted = Evicted()
    for number in range(6):
        evicted.index(number % 3).add(Entry(number, 1, 16, 100, 1, 0))
    assert evicted.length == 6
    assert evicted.lanes() == [0, 1, 2]
    assert [entry.delivery for entry in evicted.entries()] == [0, 3, 1, 4, 2, 5]
    for delivery in (1, 4):
        assert evicted.index(1).remove(delivery) is not None
    assert evicted.lanes() == [0, 2]
