"""The sessions with parked PUBLISHes, and their producer windows (FC-25)."""

from typing import Final, final

from broker.addresses.full_address import Parked
from broker.runtime.clock import SECOND
from broker.runtime.read_gate import PARKED, ReadGate
from broker.runtime.timers import Timer, Wheel
from session.limits import Limits
from session.session import Session

CHECK_PERIOD: Final = SECOND
"""Microseconds between two checks whether a paused producer blocks others."""


@final
class Producer:
    """A session with parked PUBLISHes."""

    def __init__(self) -> None:
        self.parked: dict[Parked, None] = {}
        self.bytes = 0
        self.paused: ReadGate | None = None
        """The connection that is paused because of them; it may have been closed since."""
        self.awaited_at = 0
        """When it was last found to block others: one check for each chunk is enough."""


@final
class Producers:
    """The sessions with parked PUBLISHes."""

    def __init__(self, wheel: Wheel, limits: Limits) -> None:
        self._limits = limits
        self._wheel = wheel
        self._producers: dict[Session, Producer] = {}
        self._paused: dict[Session, Producer] = {}
        self._timer: DeadlockTimer | None = None

    @property
    def window(self) -> int:
        """Bytes that one session may have parked; from there on its connection is paused."""
        return self._limits.producer_window_size

    def used_up(self, session: Session) -> bool:
        """Whether its window is used up: then it is paused, unless it blocks others."""
        producer = self._producers.get(session)
        return producer is not None and producer.bytes >= self.window

    def parked(self, session: Session) -> list[Parked]:
        """The parked PUBLISHes of a session, oldest first."""
        producer = self._producers.get(session)
        return [] if producer is None else list(producer.parked)

    def add(self, parked: Parked) -> None:
        """A PUBLISH has been parked."""
        producer = self._producers.get(parked.session)
        if producer is None:
            producer = self._producers[parked.session] = Producer()
        producer.parked[parked] = None
        producer.bytes += parked.weight

    def remove(self, parked: Parked) -> None:
        """A PUBLISH is no longer parked: resume reading its connection if there is room in the window."""
        session = parked.session
        producer = self._producers[session]
        del producer.parked[parked]
        producer.bytes -= parked.weight
        if producer.paused is not None and producer.bytes < self.window:
            self._read(session, producer)
        if not producer.parked:
            del self._producers[session]

    # -- reading

    def limit(self, gate: ReadGate, session: Session, now: int) -> None:
        """Pause reading a session whose window is used up, unless it blocks others: that would be a deadlock."""
        producer = self._producers.get(session)
        if producer is None or producer.bytes < self.window or gate.closed:
            return
        if producer.awaited_at == now or session.blocks_others():
            producer.awaited_at = now
            return
        producer.paused = gate
        self._paused[session] = producer
        gate.pause(PARKED, now)
        if self._timer is None:
            self._timer = DeadlockTimer(self)
            self._wheel.add(now + CHECK_PERIOD, self._timer)

    def check(self, now: int) -> None:
        """Resume producers that block others. Two clients that publish to each other may begin to only later."""
        for session, producer in list(self._paused.items()):
            if session.blocks_others():
                self._read(session, producer)
        if self._paused:
            self._timer = DeadlockTimer(self)
            self._wheel.add(now + CHECK_PERIOD, self._timer)
        else:
            self._timer = None

    def _read(self, session: Session, producer: Producer) -> None:
        gate = producer.paused
        producer.paused = None
        self._paused.pop(session, None)
        if gate is not None:
            gate.resume(PARKED)


@final
class DeadlockTimer(Timer):
    """Checks again whether a paused producer blocks others."""

    def __init__(self, producers: Producers) -> None:
        self.producers = producers

    def due(self, now: int) -> None:
        """Check, and repeat while any is paused."""
        self.producers.check(now)
