"""Retained messages of one topic from several cells."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cluster.retained_order import NAME, RetainedOrder
from protocol import properties as props
from protocol.decoder import Decoder
from protocol.properties import Properties
from protocol.publish import Publish


def received(topic: bytes, at: int, properties: Properties | None = None) -> Publish:
    """A PUBLISH with RETAIN that a cell has received at this time."""
    publish = Publish(topic, b"%d" % at, 1, True, properties)
    publish.received_at = at
    return publish


def over_the_link(order: RetainedOrder, publish: Publish) -> Publish:
    """The PUBLISH as another cell decodes it."""
    decoder = Decoder(version=5)
    sent = order.stamped(publish)
    sent.packet_id = 1
    decoder.feed(sent.encode(5))
    packet = decoder.next_packet()
    assert isinstance(packet, Publish)
    return packet


@given(updates=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 50)), min_size=1, max_size=4, unique=True))
def test_all_cells_keep_the_same_message(updates: list[tuple[int, int]]) -> None:
    """In whatever order the messages of three cells come to a fourth one, the one received last stays."""
    orders = {cell: RetainedOrder(cell) for cell in (1, 2, 3)}
    newest = max((at, cell) for cell, at in updates)
    for arrival in itertools.permutations(updates):
        here, kept = RetainedOrder(4), (0, 0)
        for cell, at in arrival:
            if here.admits(over_the_link(orders[cell], received(b"t", at))):
                kept = (at, cell)
        assert kept == newest


def test_a_message_of_this_cell_prevails_over_an_older_one() -> None:
    """What is on a link while a client here retains a newer message does not replace it."""
    here, there = RetainedOrder(1), RetainedOrder(2)
    here.stored(received(b"t", 10))
    assert not here.admits(over_the_link(there, received(b"t", 9)))
    assert here.admits(over_the_link(there, received(b"t", 11)))


def test_messages_of_one_moment_keep_their_order() -> None:
    """Of two that a cell has received at the same time the second one stays, also if the first one comes again."""
    here, there = RetainedOrder(1), RetainedOrder(2)
    first, second = received(b"t", 5), received(b"t", 5)
    for publish in (first, second):
        there.number(publish)
    assert here.admits(over_the_link(there, first))
    assert here.admits(over_the_link(there, second))
    assert not here.admits(over_the_link(there, first))


@pytest.mark.parametrize("properties", [None, {props.USER_PROPERTY: [("a", "b")]}, {props.CONTENT_TYPE: "text"}])
def test_clients_do_not_see_the_property(properties: Properties | None) -> None:
    """A message has the properties that its publisher gave it, and no other."""
    here, there = RetainedOrder(1), RetainedOrder(2)
    came = over_the_link(there, received(b"t", 1, properties))
    assert (NAME, "1.2") in (came.properties or {})[props.USER_PROPERTY]  # type: ignore[operator]  # it is a list of pairs
    assert here.admits(came)
    assert came.properties == properties
