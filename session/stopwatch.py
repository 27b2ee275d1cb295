"""How long a condition held."""

from typing import final

from mypy_extensions import mypyc_attr


@mypyc_attr(acyclic=True)
@final
class Stopwatch:
    """Adds up the time between `start` and `stop`, in the unit of the caller's clock."""

    def __init__(self) -> None:
        self.running = False
        self._since = 0
        self._total = 0

    def start(self, now: int) -> None:
        """The condition begins to hold; no effect if it holds already."""
        if not self.running:
            self.running = True
            self._since = now

    def stop(self, now: int) -> None:
        """The condition holds no longer."""
        if self.running:
            self.running = False
            self._total += self._elapsed(now)

    def run(self, holds: bool, now: int) -> None:
        """Start or stop, as the condition holds or not."""
        if holds:
            self.start(now)
        else:
            self.stop(now)

    def take(self, now: int) -> int:
        """The time since the last `take`; a running stopwatch keeps running."""
        if self.running:
            self._total += self._elapsed(now)
            self._since = max(self._since, now)
        total = self._total
        self._total = 0
        return total

    def so_far(self, now: int) -> int:
        """What `take` would return, without a reset."""
        return self._total + self._elapsed(now) if self.running else self._total

    def _elapsed(self, now: int) -> int:
        """The time since it runs; none by the clock of a turn of the loop that began before."""
        return now - self._since if now > self._since else 0
