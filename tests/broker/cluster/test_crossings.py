"""CL-3 without a journal: an acknowledged message is at the cells that get it."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cluster.crossings import PATIENCE, Crossings, LinkCrossings
from broker.runtime.timers import Wheel
from protocol.acknowledgements import Puback
from protocol.publish import Publish
from session.holder import hold, release
from tests.support.broker.cells import client_of, kill_cell, processes, start_cells
from tests.support.process import BrokerProcess


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker with two cells, without a journal."""
    with start_cells(tmp_path) as broker:
        yield broker


def test_a_killed_cell_has_lost_nothing_that_it_acknowledged(broker: BrokerProcess) -> None:
    """The subscriber of the other cell, which stays connected, gets all of it."""
    with client_of(broker, 2, "stays") as subscriber:
        subscriber.subscribe("t", qos=0)
        for turn in range(3):
            acknowledged: set[bytes] = set()
            publisher = client_of(broker, 1, "dies")
            publisher.send(*[Publish(b"t", b"%d %d" % (turn, n), 1, packet_id=n) for n in range(1, 2_001)])
            for _ in range(200 * (turn + 1)):
                acknowledged.add(b"%d %d" % (turn, publisher.expect(Puback).packet_id))
            kill_cell(broker, min(turn, 1))  # once it is started again it is the second one
            with suppress(OSError):  # what it has written before
                while True:
                    acknowledged.add(b"%d %d" % (turn, publisher.expect(Puback).packet_id))
            publisher.close()
            with client_of(broker, 2, "end") as other:
                other.publish("t", b"end", 1)
            while (payload := subscriber.expect(Publish).payload) != b"end":
                acknowledged.discard(payload)
            assert acknowledged == set()


def test_a_stalled_cell_is_not_waited_for_again_and_again(broker: BrokerProcess) -> None:
    """PUBACK waits for it once, for a second; other publishers go on, and nothing is lost."""
    with (
        client_of(broker, 2, "sub") as subscriber,
        client_of(broker, 1, "pub") as publisher,
        client_of(broker, 1, "local") as local,
    ):
        subscriber.subscribe("there", qos=1)
        stalled = processes(broker)[1]
        os.kill(stalled, signal.SIGSTOP)
        try:
            started = time.monotonic()
            publisher.publish("there", b"0", 1)
            waited = time.monotonic() - started
            assert waited >= PATIENCE / 1_000_000 * 0.8
            for number in range(1, 20):
                publisher.publish("there", b"%d" % number, 1)
                local.publish("here", b"x", 1)
            assert time.monotonic() - started < 3 * waited
        finally:
            os.kill(stalled, signal.SIGCONT)
        assert [subscriber.receive_message().payload for _ in range(20)] == [b"%d" % number for number in range(20)]


def new_crossings() -> tuple[Crossings, list[Callable[[], None]]]:
    """Crossings, and what is called in the next turn."""
    turn: list[Callable[[], None]] = []
    return Crossings(Wheel(0), turn.append), turn


STEPS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["begin", "end", "turn"])), max_size=60)


@given(steps=STEPS, data=st.data())
def test_it_reaches_a_batch_when_all_before_it_are_done(steps: list[tuple[int, str]], data: st.DataObject) -> None:
    """Whatever the order in which cells acknowledge: a batch is what goes to links in one turn."""
    crossings, turn = new_crossings()
    links = [LinkCrossings(crossings) for _ in range(3)]
    open_ones: list[tuple[int, Publish]] = []
    batches = 0
    for place, step in steps:
        if step == "turn":
            while turn:
                turn.pop()()
        elif step == "begin":
            batches += not turn
            publish = links[place].add(Publish(b"t", b"", 1))
            hold(publish)
            open_ones.append((batches, publish))
            assert crossings.crossed() == batches
            assert crossings.crossed() == 0
        elif not turn and open_ones:  # no acknowledgement comes in the turn in which it is sent
            release(open_ones.pop(data.draw(st.integers(0, len(open_ones) - 1)))[1])
        first_open = min([number for number, _ in open_ones], default=batches + 1)
        assert crossings.committed == (first_open if not turn else min(first_open, batches)) - 1


def test_only_the_cell_that_acknowledges_nothing_is_not_waited_for() -> None:
    """What others have acknowledged behind it is no sign of theirs; with its next acknowledgement it is waited for."""
    crossings, turn = new_crossings()
    stalled, healthy = LinkCrossings(crossings), LinkCrossings(crossings)
    first, second = (link.add(Publish(b"t", b"", 1)) for link in (stalled, healthy))
    for publish in (first, second):
        hold(publish)
    turn.pop()()
    release(second)
    assert crossings.committed == 0
    crossings.give_up(PATIENCE)
    assert (crossings.committed, stalled.stalled, healthy.stalled) == (1, True, False)
    assert stalled.add(first) is first
    release(first)
    assert not stalled.stalled
