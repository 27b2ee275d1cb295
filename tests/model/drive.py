"""The plain driver: one random step after the other, world after world; it makes nothing smaller."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Final, TypeVar

from tests.model import group_world, kept_group_world, kept_world, moves
from tests.model.group_world import GroupWorld
from tests.model.kept_group_world import KeptGroupWorld
from tests.model.kept_world import KeptWorld
from tests.model.knobs import Knobs, draw_knobs
from tests.model.world import World

LIVES: Final = [30, 100, 300]
"""Steps after which a session makes way for one with other knobs, if it has not ended before."""

W = TypeVar("W", bound=World | GroupWorld)
Progress = Callable[[int], None]


class Disagreement(Exception):  # noqa: N818 - what it is
    """The session does not do what the model does."""

    def __init__(self, what: str, step: int, story: str) -> None:
        super().__init__(what)
        self.step = step
        self.story = story


def drive(steps: int, rng: Random, progress: Progress | None = None, world_type: type[World] = World) -> None:
    """Take that many steps with single sessions. Raises Disagreement."""

    def begin() -> World:
        return world_type(draw_knobs(rng))

    _drive(steps, rng, progress, begin, lambda world: moves.play(world, rng, moves.any_move(world, rng)))


def _draw_knobs_of_groups(rng: Random) -> Knobs:
    knobs = draw_knobs(rng)
    return replace(knobs, addresses=False, keyed=knobs.fair and rng.random() < 0.7)


def drive_groups(
    steps: int, rng: Random, progress: Progress | None = None, world_type: type[GroupWorld] = GroupWorld
) -> None:
    """Take that many steps with groups and their members (FC-13). Raises Disagreement."""

    def begin() -> GroupWorld:
        return world_type(_draw_knobs_of_groups(rng))

    _drive(steps, rng, progress, begin, lambda world: group_world.play(world, rng))


def drive_kept(steps: int, rng: Random, progress: Progress | None = None) -> None:
    """Take that many steps with single kept sessions, whose process ends now and then (FC-27). Raises Disagreement."""

    def begin() -> KeptWorld:
        return KeptWorld(draw_knobs(rng))

    _drive(steps, rng, progress, begin, lambda world: kept_world.play(world, rng))


def drive_kept_groups(steps: int, rng: Random, progress: Progress | None = None) -> None:
    """The same with groups of kept sessions. Raises Disagreement."""

    def begin() -> KeptGroupWorld:
        return KeptGroupWorld(_draw_knobs_of_groups(rng))

    _drive(steps, rng, progress, begin, lambda world: kept_group_world.play(world, rng))


def _drive(
    steps: int, rng: Random, progress: Progress | None, begin: Callable[[], W], play: Callable[[W], None]
) -> None:
    world = begin()
    try:
        left = rng.choice(LIVES)
        for step in range(1, steps + 1):
            if world.ended or left == 0:
                world.close()
                world = begin()
                left = rng.choice(LIVES)
            left -= 1
            try:
                play(world)
            except Exception as error:
                raise Disagreement(f"{type(error).__name__}: {error}", step, world.story()) from error
            if progress is not None and (step % 1_000 == 0 or step == steps):
                progress(step)
    finally:
        world.close()
