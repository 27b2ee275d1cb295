"""Very many retained messages are put in order piece by piece, so that others have their turns meanwhile."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from broker.routing.retained_message import RetainedMessage
from broker.routing.topic_order import PIECE, TopicOrder
from broker.storage.storage import Storage
from protocol.acknowledgements import Puback
from protocol.connect import Connect
from protocol.packet import Packet
from protocol.publish import Publish
from protocol.subscribe import Subscribe, Subscription
from tests.support.broker.local import LocalBroker, LocalClient
from tests.support.broker.stored import KEPT, broker_on, say

COUNT = 5 * PIECE


def message(topic: bytes) -> RetainedMessage:
    """A retained message."""
    return RetainedMessage(Publish(topic, b"x", 0, True), "", None)


@given(st.lists(st.integers(0, COUNT), unique=True), st.integers(0, COUNT), st.integers(1, 4))
def test_order(numbers: list[int], behind: int, factor: int) -> None:
    """Whatever is found, and however much of it, comes once and in the order of topics, behind the given one."""
    topics = [b"%d/%d" % (number, copy) for number in numbers for copy in range(factor * PIECE // 500)]
    order = TopicOrder([message(topic) for topic in topics], b"%d" % behind)
    got: list[bytes] = []
    while (piece := order.next_piece()) is not None:
        assert len(piece) <= PIECE
        got += [each.topic for each in piece]
    assert got == sorted(topic for topic in topics if topic > b"%d" % behind)


def test_each_step_is_small() -> None:
    """No step sorts, or hands out, more than a piece, however many there are."""
    order = TopicOrder([message(b"%d" % number) for number in range(COUNT)], b"")
    steps = []
    while (piece := order.next_piece()) is not None:
        steps.append(len(piece))
    assert steps == [0] * 5 + [PIECE] * 5


def test_kept_session(tmp_path: Path) -> None:
    """FC-6, FC-27: a kept session gets all of very many retained messages in order, once, over a restart."""
    topics = [b"r/%05d" % number for number in range(2 * PIECE + 500)]
    kept, limits = Connect("client", False, 0, properties=KEPT, version=5), {"max_inflight": 700}
    got: list[Publish] = []
    with broker_on(tmp_path, session=limits) as (local, storage):
        publisher = local.client()
        publisher.connect("publisher")
        for first in range(0, len(topics), 100):
            publisher.send(*[Publish(topic, b"x", 0, True) for topic in reversed(topics[first : first + 100])])
        got += receive(local, storage, local.client(), [kept, Subscribe(1, [Subscription("r/+", 1)])], 1_200)
    with broker_on(tmp_path, session=limits) as (local, storage):
        got += receive(local, storage, local.client(), [kept], len(topics))
    assert [each.topic for each in got if not each.dup] == topics


def receive(
    local: LocalBroker, storage: Storage, client: LocalClient, packets: list[Packet], most: int
) -> list[Publish]:
    """The messages that come after these packets, each acknowledged, until there are so many or no more."""
    got: list[Publish] = []
    while packets and len(got) < most:
        fresh = [each for each in say(local, storage, client, *packets) if isinstance(each, Publish)]
        got += fresh
        packets = [Puback(each.packet_id) for each in fresh]
    return got
