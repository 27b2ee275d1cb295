"""The plain driver: one random step after the other, session after session; it makes nothing smaller."""

from collections.abc import Callable
from random import Random
from typing import Final

from tests.model.knobs import draw_knobs
from tests.model.moves import any_move, play
from tests.model.world import World

LIVES: Final = [30, 100, 300]
"""Steps after which a session makes way for one with other knobs, if it has not ended before."""


class Disagreement(Exception):  # noqa: N818 - what it is
    """The session does not do what the model does."""

    def __init__(self, what: str, step: int, story: str) -> None:
        super().__init__(what)
        self.step = step
        self.story = story


def drive(
    steps: int, rng: Random, progress: Callable[[int], None] | None = None, world_type: type[World] = World
) -> None:
    """Take that many steps. Raises Disagreement."""
    world = world_type(draw_knobs(rng))
    left = rng.choice(LIVES)
    for step in range(1, steps + 1):
        if world.ended or left == 0:
            world = world_type(draw_knobs(rng))
            left = rng.choice(LIVES)
        left -= 1
        try:
            play(world, rng, any_move(world, rng))
        except Exception as error:
            raise Disagreement(f"{type(error).__name__}: {error}", step, world.story()) from error
        if progress is not None and (step % 1_000 == 0 or step == steps):
            progress(step)
