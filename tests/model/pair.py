"""A session and its model side by side: what both have to agree on, and what has happened to them."""

from collections import deque
from typing import Final

from protocol.publish import Publish
from tests.model.compare import compare, compare_pacing
from tests.model.knobs import Knobs
from tests.model.message import SECOND
from tests.model.real import Real
from tests.model.session import Model
from tests.model.source import OtherSource, Source

START: Final = 1_000 * SECOND


class Pair:
    """One session and its model."""

    model_type: type[Model] = Model

    def __init__(self, knobs: Knobs, now: int = START, name: str = "", sources: list[Source] | None = None) -> None:
        """`sources`: who publishes, where that is not for this world alone."""
        self.knobs = knobs
        self.name = name
        self.model = self.model_type(knobs, now)
        self.real = Real(knobs, now)
        self.own = Source(name or "itself", self.model.publisher, self.real)
        """The session as a publisher."""
        self.others = [OtherSource(other, knobs, now) for other in ("p", "q")] if sources is None else []
        self.sources: list[Source] = sources if sources is not None else [*self.others]
        """All who publish."""
        self.sources.append(self.own)
        self.log: deque[str] = deque([repr(knobs)], maxlen=10_000)
        """What has happened."""
        self.routed = 0
        self.parked: list[tuple[Publish, int]] = []
        """PUBLISHes whose answer is withheld, and the connection on which each came."""
        self.ended = False

    def close(self) -> None:
        """The world is not needed any more."""

    def note(self, what: str) -> None:
        """Something happens."""
        self.log.append(f"{(self.model.now - START) / SECOND:.6f} {self.name}{what}")

    def check(self) -> None:
        """Both must agree."""
        compare(self.model, self.real)
        compare_pacing(self.model.pacer, self.real.outbound.sender.pacing, self.sources)
        for source in self.sources:
            source.check()

    def agree(self, about: str, expected: object, found: object) -> None:
        """Compare one thing."""
        assert expected == found, f"{about}: the model has {expected!s:.600}, the session {found!s:.600}"

    def flush(self) -> None:
        """Both write."""
        self.agree("packets", self.model.flush(), self.real.flush())

    def story(self) -> str:
        """What has happened, the last of it."""
        return "\n".join([self.log[0], "...", *list(self.log)[-60:]] if len(self.log) > 61 else self.log)
