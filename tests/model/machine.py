"""The state machine that hypothesis drives: it looks for the shortest way to a disagreement."""

from random import Random

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.model import moves
from tests.model.knobs import draw_knobs
from tests.model.world import World

RANDOM = st.randoms(use_true_random=False)


class ModelMachine(RuleBasedStateMachine):
    """The moves of the plain driver, chosen and made smaller by hypothesis."""

    world_type: type[World] = World

    @initialize(rng=RANDOM)
    def begin(self, rng: Random) -> None:
        """A session comes to be."""
        self.world = self.world_type(draw_knobs(rng))

    def lives(self) -> bool:
        """Whether the session is not over."""
        return not self.world.ended

    def online(self) -> bool:
        """Whether a client is there."""
        return self.world.model.connected

    def offline(self) -> bool:
        """Whether one may come."""
        return self.lives() and not self.online()

    def teardown(self) -> None:
        """Tell the story."""
        if hasattr(self, "world"):
            note(self.world.story())

    @precondition(lives)
    @rule(rng=RANDOM, move=st.sampled_from(list(moves.ANYTIME)))
    def anything(self, rng: Random, move: moves.Move) -> None:
        """What needs no client."""
        move(self.world, rng)

    @precondition(online)
    @rule(rng=RANDOM, move=st.sampled_from(list(moves.ONLINE)))
    def with_client(self, rng: Random, move: moves.Move) -> None:
        """What needs one."""
        move(self.world, rng)

    @precondition(offline)
    @rule(rng=RANDOM)
    def connect(self, rng: Random) -> None:
        """A client comes."""
        moves.connect(self.world, rng)

    @precondition(lambda self: not self.lives())
    @rule(rng=RANDOM)
    def begin_again(self, rng: Random) -> None:
        """Another session comes to be."""
        self.begin(rng)

    @invariant()
    def agree(self) -> None:
        """The model and the session agree."""
        if hasattr(self, "world"):
            self.world.check()
