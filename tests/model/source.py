"""Who publishes (FC-16): a session and its model, beside the sessions that get what it sends."""

from collections.abc import Callable, Sequence
from typing import Protocol

from tests.model.knobs import Knobs
from tests.model.pacing import Publisher
from tests.model.real import Real


class Part(Protocol):
    """What has a clock and a timer."""

    def timer_at(self) -> int:
        """When its timer fires; 0 = it does not."""

    def tick(self, now: int) -> None:
        """Its clock moves on."""

    def fire(self) -> None:
        """Its timer fires."""


def pass_time(parts: Sequence[Part], now: int, end: int, late: bool) -> None:
    """Time passes for all; timers fire when they are due, in their order, or not at all if it is `late`."""
    while not late:
        due = [part for part in parts if 0 < part.timer_at() <= end]
        if not due:
            break
        first = min(due, key=lambda part: part.timer_at())
        now = max(now, first.timer_at())
        for part in parts:
            part.tick(now)
        first.fire()
    for part in parts:
        part.tick(end)


def flow_of(source: "Source | None") -> int:
    """FC-33: a number for who publishes."""
    return 1 if source is None else 2 + sum(source.name.encode()) % 5


class Source:
    """One publisher. Its messages wait with it while it is held back."""

    def __init__(self, name: str, model: Publisher, real: Real) -> None:
        self.name = name
        self.model = model
        self.real = real
        self.began = real.now
        self.late = 0
        """For how long timers were not fired that may have been due, in all."""
        self.pending: list[Callable[[], None]] = []
        """What it has sent while it was held back."""

    def send(self, message: Callable[[], None]) -> None:
        """It sends something."""
        if self.real.paused:
            self.pending.append(message)
        else:
            message()

    def go_on(self) -> None:
        """What has waited is handled, as far as it is not held back again."""
        while self.pending and not self.real.paused:
            self.pending.pop(0)()

    def check(self) -> None:
        """Both must agree whether it is held back and on what is left, and no more was taken than was there."""
        model = self.model
        assert self.real.paused == bool(model.held_by), f"{self.name}: held back by {len(model.held_by)}"
        publisher = self.real.outbound.publisher
        left = model.bucket.level.__floor__()
        if publisher is not None:
            found = publisher.patience.left(self.real.now)
            assert found == left, f"patience of {self.name}: the model has {left}, the session {found}"
        time = self.real.now - self.began
        assert model.bucket.used <= model.bucket.capacity + time // 20 + self.late, f"{self.name} waited too long"


class OtherSource(Source):
    """One that is subscribed to nothing."""

    def __init__(self, name: str, knobs: Knobs, now: int) -> None:
        super().__init__(name, Publisher(knobs), Real(knobs, now))
        self.connect()

    def connect(self) -> None:
        """It comes."""
        self.real.connect(4, 0, 0)
        self.model.connected = True

    def disconnect(self) -> None:
        """It goes."""
        self.pending = []
        self.real.part()
        self.model.connected = False
        self.model.go()

    def timer_at(self) -> int:
        """When its timer fires."""
        return self.real.timer_at

    def tick(self, now: int) -> None:
        """Its clock moves on."""
        self.model.tick(now - self.real.now)
        self.real.now = now

    def fire(self) -> None:
        """Its timer fires, or one that it has replaced."""
        due = self.real.timer_due()
        self.real.fire()
        if due:
            self.model.look()
        assert not self.real.timer_due(), "a timer for a time that has passed"

    def check(self) -> None:
        """Also that a timer fires in time."""
        super().check()
        due_at = self.model.deadline(self.real.now)
        if due_at is not None:
            assert 0 < self.real.timer_at <= due_at, f"{self.name} due at {due_at}, its timer at {self.real.timer_at}"
