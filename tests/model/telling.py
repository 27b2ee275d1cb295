"""The model of FC-34: when a queue tells publishers that it is full. Times in microseconds."""

from tests.model.knobs import Knobs


class Telling:
    """One queue, of a session or a group."""

    def __init__(self, knobs: Knobs) -> None:
        self.knobs = knobs
        self.full_since: int | None = None
        """Since when a PUBLISH finds no room and nothing has left the queue."""
        self.away_since: int | None = None
        """Since when nobody is connected who takes from it, as far as that is known."""

    def applies(self) -> bool:
        """Whether `mqueue_overflow` asks for it."""
        return self.knobs.mqueue_overflow in {"reject", "block"}

    def tells(self, connected: bool, now: int) -> bool:
        """Whether publishers are told: not for who is away for too long, or takes nothing for too long."""
        if not connected:
            return self.away_since is not None and now < self.away_since + self.knobs.overflow_offline_grace
        return self.full_since is None or now < self.full_since + self.knobs.overflow_timeout

    def lacks(self, has_place: bool, full: bool, now: int) -> None:
        """A PUBLISH comes, and there is a place for it or not; `full`: there is none for another one."""
        if has_place and not full:
            self.full_since = None
        elif not has_place and self.full_since is None:
            self.full_since = now

    def drained(self, has_place: bool, moved: bool, now: int) -> None:
        """The client has taken what it could."""
        if has_place:
            self.full_since = None
        elif moved and self.full_since is not None:
            self.full_since = now
