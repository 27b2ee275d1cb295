"""The timer wheel, and that no timer stays in it for longer than it is needed."""

from typing import final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.runtime.timers import HORIZON, TICK, TURN, Timer, Wheel
from protocol import properties as props
from protocol.connect import Connect, Will
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.subscribe import Subscribe, Subscription
from tests.support.broker.local import LocalBroker

START = 7 * TICK + 12_345


@final
class Note(Timer):
    """Remembers when it was called."""

    def __init__(self, wanted: bool = True) -> None:
        self.called: list[int] = []
        self.asked = 0
        self._wanted = wanted

    def due(self, now: int) -> None:
        """Take note."""
        self.called.append(now)

    def wanted(self) -> bool:
        """Whatever the test says."""
        self.asked += 1
        return self._wanted


@given(
    waits=st.lists(st.integers(-TICK, 4 * HORIZON), min_size=1, max_size=20),
    steps=st.lists(st.integers(0, HORIZON), min_size=1, max_size=50),
)
def test_called_once_and_never_early(waits: list[int], steps: list[int]) -> None:
    """Each timer is called once, not before its time, at most two ticks after it."""
    wheel = Wheel(START)
    notes = [(START + wait, Note()) for wait in waits]
    for at, note in notes:
        wheel.add(at, note)
    times = [START]
    for step in steps:
        times.append(times[-1] + step)
        wheel.advance(times[-1])
    for at, note in notes:
        in_time = [now for now in times if now > at + 2 * TICK]
        assert len(note.called) <= 1
        assert bool(note.called) or not in_time
        assert all(now >= at for now in note.called)
        assert not in_time or note.called[0] <= in_time[0]
    assert len(wheel) == sum(not note.called for _, note in notes)


@given(
    waits=st.lists(st.integers(-TICK, 3 * TICK), min_size=1, max_size=30),
    costs=st.lists(st.integers(0, TURN), min_size=1, max_size=30),
)
def test_many_in_several_turns(waits: list[int], costs: list[int]) -> None:
    """With a clock, `advance` ends after about TURN; what is left is called by the next ones, in the same order."""
    called: list[int] = []

    @final
    class Slow(Timer):
        def __init__(self, number: int) -> None:
            self.number = number

        def due(self, now: int) -> None:
            called.append(self.number)
            clock.now += costs[self.number % len(costs)]

    class Clock:
        now = 0

        def __call__(self) -> int:
            return self.now

    clock = Clock()
    at_once, in_turns = Wheel(START), Wheel(START)
    for number, wait in enumerate(waits):
        at_once.add(START + wait, Slow(number))
        in_turns.add(START + wait, Slow(number))
    end = START + 6 * TICK
    assert not at_once.advance(end)
    expected, called[:] = called[:], []
    before = clock.now
    while in_turns.advance(end, clock):
        assert TURN <= clock.now - before < 2 * TURN
        before = clock.now
    assert called == expected


def test_the_unwanted_are_let_go() -> None:
    """A timer far in the future is asked every HORIZON whether it is wanted, and removed if not."""
    wheel = Wheel(START)
    wanted, unwanted = Note(), Note(wanted=False)
    wheel.add(START + 10 * HORIZON, wanted)
    wheel.add(START + 10 * HORIZON, unwanted)
    wheel.advance(START + HORIZON + 2 * TICK)
    assert (wanted.asked, unwanted.asked, len(wheel)) == (1, 1, 1)
    wheel.advance(START + 11 * HORIZON)
    assert (len(wanted.called), len(unwanted.called), len(wheel)) == (1, 0, 0)


def test_a_timer_may_wait_again() -> None:
    """A timer that adds itself while it is called is called again at the next tick at the earliest."""

    @final
    class Again(Timer):
        def __init__(self) -> None:
            self.calls = 0

        def due(self, now: int) -> None:
            self.calls += 1
            wheel.add(now - 5 * TICK, self)

    wheel = Wheel(START)
    again = Again()
    wheel.add(START, again)
    for ticks in range(1, 6):
        wheel.advance(START + ticks * TICK)
    assert again.calls == 5


@pytest.mark.parametrize("version", [4, 5])
def test_churn_leaves_nothing_behind(version: int) -> None:
    """A client that reconnects often leaves no timers, wills or sessions, whatever expiry it asks for."""
    forever: Properties | None = {props.SESSION_EXPIRY_INTERVAL: 30_000_000} if version == 5 else None
    later: Properties | None = {props.WILL_DELAY_INTERVAL: 20_000_000} if version == 5 else None
    will = Will(b"will", b"gone", 1, False, later)
    with LocalBroker(mqtt={"session_expiry_interval": 3e7}) as local:
        for _ in range(50):
            client = local.client(version)
            client.send(Connect("flapping", False, 65_535, will=will, properties=forever, version=version))
            client.send(Subscribe(1, [Subscription("t", 1)]))
            client.send(Publish(b"t", b"unacknowledged", 1, packet_id=1))
            client.send(Publish(b"t", b"not released", 2, packet_id=2))
            client.drop()
        local.pass_time(2 * HORIZON / 1_000_000)
        assert len(local.broker.wheel) <= 3  # this session's end, its will, what waits in it


def test_lost_connections_hold_no_bytes() -> None:
    """Buffered bytes of a client are freed with its connection, and not when its timers are called."""
    with LocalBroker() as local:
        client = local.client(5)
        client.send(b"\x10\xff\xff\x06" + bytes(100_000))
        assert client.connection.decoder.buffered > 100_000
        client.drop()
        assert client.connection.decoder.buffered == 0
