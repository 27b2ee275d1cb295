"""Several clients do anything in any order, as hypothesis chooses: the broker keeps serving honest clients."""

import random
from typing import Final

import pytest
from hypothesis import Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from protocol.packet import Packet
from tests.conftest import EXAMPLES
from tests.fuzz import brokers, mutation, packets
from tests.fuzz.blind import reduce
from tests.fuzz.machine import Machine
from tests.fuzz.script import Script, Step
from tests.fuzz.target import CORPUS
from tests.fuzz.world import World
from tests.support.protocol import strategies

CONNECTION: Final = st.integers(0, 2)
VERSION: Final = st.sampled_from([4, 5])
MACHINE: Final = Machine()
REDUCING: Final = 10.0
"""Seconds for making a script that fails shorter: quicker than hypothesis, which knows nothing of steps."""
SOURCE: Final = st.randoms(use_true_random=False)


class Clients(RuleBasedStateMachine):
    """Each rule is a step of a script; when one fails, the script is shown, ready to be kept in the corpus."""

    def __init__(self) -> None:
        super().__init__()
        self._script = Script("plain", ())
        self._world: World | None = None

    @initialize(broker=st.sampled_from(brokers.NAMES))
    def start(self, broker: str) -> None:
        self._script = Script(broker, ())
        self._world = World(broker)

    @rule(connection=CONNECTION, version=VERSION, source=SOURCE)
    def connects(self, connection: int, version: int, source: random.Random) -> None:
        self._take(Step("open", connection))
        self._take(Step("send", connection, packets.connect(source, version).encode(version)))

    @rule(connection=CONNECTION, version=VERSION, source=SOURCE)
    def sends(self, connection: int, version: int, source: random.Random) -> None:
        self._take(Step("send", connection, packets.any_packet(source, version)))

    @rule(connection=CONNECTION, packet=st.one_of(strategies.packets(4), strategies.connects(4)))
    def sends_any_of_3_1_1(self, connection: int, packet: Packet) -> None:
        self._take(Step("send", connection, packet.encode(4)))

    @rule(connection=CONNECTION, packet=st.one_of(strategies.packets(5), strategies.connects(5)))
    def sends_any_of_5(self, connection: int, packet: Packet) -> None:
        self._take(Step("send", connection, packet.encode(5)))

    @rule(connection=CONNECTION, version=VERSION, source=SOURCE, fixed=st.booleans())
    def sends_damaged(self, connection: int, version: int, source: random.Random, fixed: bool) -> None:
        data = mutation.damage(source, packets.any_packet(source, version))
        self._take(Step("send", connection, mutation.fix_length(data) if fixed else data))

    @rule(connection=CONNECTION, data=st.binary(max_size=40))
    def sends_bytes(self, connection: int, data: bytes) -> None:
        self._take(Step("send", connection, data))

    @rule(verb=st.sampled_from(["ack", "answer", "deaf", "hear", "end", "lose"]), connection=CONNECTION)
    def does(self, verb: str, connection: int) -> None:
        self._take(Step(verb, connection))

    @rule(seconds=st.sampled_from([0.1, 1.5, 6.0, 16.0, 40.0]))
    def waits(self, seconds: float) -> None:
        self._take(Step("wait", seconds=seconds))

    @rule()
    def counts(self) -> None:
        self._take(Step("count"))

    def _take(self, step: Step) -> None:
        self._script = self._script._replace(steps=(*self._script.steps, step))
        assert self._world is not None
        try:
            for _ in self._world.take(step):
                pass
        except BaseException:
            self._failed()
            raise

    def _failed(self) -> None:
        world, self._world = self._world, None
        if world is not None:
            world.abandon()
            smaller = reduce(MACHINE, str(self._script).encode(), REDUCING)
            note(f"keep this in {CORPUS / MACHINE.name}:\n{MACHINE.render(smaller)}")

    def teardown(self) -> None:
        if self._world is not None:
            try:
                self._world.close()
            except BaseException:
                self._failed()
                raise


# On Python 3.14 gc.freeze() hides the references to Hypothesis' own random generator, so that it warns.
@pytest.mark.filterwarnings("ignore:It looks like `register_random`:hypothesis.errors.HypothesisWarning")
@pytest.mark.usefixtures("in_peace")
def test_clients_may_do_anything() -> None:
    """Only MQTTError is raised, refusals have reasons, nothing is left over, and the counters balance."""
    phases = [Phase.explicit, Phase.reuse, Phase.generate]
    chosen = settings(max_examples=2 * EXAMPLES, stateful_step_count=30, deadline=None, phases=phases)
    run_state_machine_as_test(Clients, settings=chosen)
