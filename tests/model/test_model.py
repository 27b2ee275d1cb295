"""The session behaves as the model, and the comparison notices a session or model that breaks a rule."""

import random
from collections.abc import Callable
from functools import partialmethod
from typing import Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

import session.address
import session.backlog
import session.cost
import session.fair_mqueue
import session.outbound
import session.pacing
import session.patience
import session.shared_queue
from broker.storage import kept_queue, message_record, records
from broker.storage.deliveries import Deliveries
from broker.storage.kept_group import KeptGroup
from broker.storage.kept_queue import KeptQueue
from broker.storage.lane_rule import LaneRule
from broker.storage.saved_deliveries import SavedDeliveries
from protocol.publish import Publish
from session import qos0_gate, source
from session.byte_window import ByteWindow
from session.conflation import Slot
from session.cost import OVERHEAD
from session.fair_mqueue import FairMQueue
from session.group_keys import GroupKeys
from session.lanes import Lane, Lanes
from session.mailbox import Mailbox
from session.mqueue import MQueue
from session.pacing import Publisher as RealPublisher
from session.priority_mqueue import PriorityMQueue
from session.sender import Sender
from session.shared_queue import SharedQueue
from session.source import Consumer
from session.stopwatch import Stopwatch
from session.throttle import Throttle
from session.window import Window
from tests.conftest import EXAMPLES
from tests.model import kept_group_world, kept_world
from tests.model.broken import MODELS
from tests.model.broken_groups import GROUPS
from tests.model.drive import Disagreement, drive, drive_groups, drive_kept, drive_kept_groups
from tests.model.group import Group
from tests.model.group_world import GroupWorld
from tests.model.knobs import Knobs
from tests.model.machine import ModelMachine
from tests.model.session import Model
from tests.model.world import World

STEPS = 2_000
BOUND = 40_000
"""In how many steps whatever is broken must be found; most of it takes some dozens."""
SOON = {
    "KeepsWhatIsBack": 14,
    "KeepsWhatIsOld": 12,
    "NeedsRoom": 4,
    "OvertakesItself": 4,
    "ParksWithoutEnd": 18,
    "ResendsAtOnce": 1,
}
"""Seeds with which the models that are hardest to find out are found out soon; 3 is good for the others."""


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_random_steps(seed: int) -> None:
    """FC-1 to FC-16 and FC-20 to FC-22: a session behaves as the model after any steps."""
    drive(STEPS, random.Random(seed))


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_random_steps_of_groups(seed: int) -> None:
    """FC-13, FC-16: the members of a group get what they get in the model, and its counters balance."""
    drive_groups(STEPS, random.Random(seed))


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_random_steps_with_restarts(seed: int) -> None:
    """FC-27: after a restart a kept session has what the model says, and goes on as the model does."""
    drive_kept(STEPS // 2, random.Random(seed))


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_random_steps_of_groups_with_restarts(seed: int) -> None:
    """FC-13, FC-27: so do groups and their members."""
    drive_kept_groups(STEPS // 2, random.Random(seed))


@pytest.mark.timeout(600)  # a failure takes its time to be made small
def test_hypothesis_finds_nothing() -> None:
    """FC-1 to FC-16 and FC-20 to FC-22: hypothesis finds no steps after which they differ."""
    run_state_machine_as_test(
        ModelMachine,
        settings=settings(
            max_examples=2 * EXAMPLES,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )


HARD = {"ForgetsAltogether", "NoCredit", "Recovering", "RemembersForever", "StallsWhileMoving"}
"""Models that take more than a second to be found out."""


@pytest.mark.once
@pytest.mark.parametrize(
    "model",
    [pytest.param(each, marks=[pytest.mark.slow] if each.__name__ in HARD else []) for each in MODELS],
    ids=lambda model: model.__name__,
)
def test_broken_model_is_found(model: type[Model]) -> None:
    """A model that breaks one rule differs from the session after few steps."""

    class Broken(World):
        model_type = model

    with pytest.raises(Disagreement):
        drive(BOUND, random.Random(SOON.get(model.__name__, 3)), world_type=Broken)


@pytest.mark.once
@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.__name__)
def test_broken_group_is_found(group: type[Group]) -> None:
    """A model of groups that breaks one rule differs from the session after few steps."""

    class Broken(GroupWorld):
        group_type = group

    with pytest.raises(Disagreement):
        drive_groups(BOUND, random.Random(SOON.get(group.__name__, 3)), world_type=Broken)


def _never(*_: object) -> None:
    """Do nothing."""


def _longer_pass(patch: pytest.MonkeyPatch) -> None:
    """A pass writes more than it may while deliveries wait."""
    for module in (session.backlog, session.outbound):
        patch.setattr(module, "DRAIN_BYTES", 70_000)


def _longer_first_pass(patch: pytest.MonkeyPatch) -> None:
    """A pass writes more than it may when nothing waits."""
    patch.setattr(session.outbound, "PASS_BYTES", 270_000)


def _new_again(patch: pytest.MonkeyPatch) -> None:
    """FC-33: a flow that begins to wait again in a round has its turn at once again."""
    leave = FairMQueue._leave

    def forget(self: FairMQueue, lane: Lane) -> None:
        leave(self, lane)
        self._rest.clear()

    patch.setattr(FairMQueue, "_leave", forget)


def _goes_on(patch: pytest.MonkeyPatch) -> None:
    """FC-37, FC-33: the turn of a flow does not end when a larger delivery is its head now."""
    replace = Lanes.replace

    def replace_only(self: Lanes, slot: Slot, publish: Publish) -> bool:
        vars(self)["note_left"] = _never
        try:
            return replace(self, slot, publish)
        finally:
            del vars(self)["note_left"]

    patch.setattr(Lanes, "replace", replace_only)


_TOO_BIG: Final = Publish(b"t", bytes(1 << 20), 1, False, None, 1)

BREAKS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "FC-3, samples": lambda patch: patch.setattr(qos0_gate, "SENDS_PER_SAMPLE", 101),
    "FC-3, busy": lambda patch: patch.setattr(qos0_gate, "MAILBOX_BUSY_LOW", 4),
    "FC-8, timers": lambda patch: patch.setattr(Sender, "arm", _never),
    "FC-38, rate": lambda patch: patch.setattr(Throttle, "may_resend", lambda *_: True),
    "FC-10, completed": lambda patch: patch.setattr(ByteWindow, "completed", _never),
    "FC-10, written": lambda patch: patch.setattr(Throttle, "note_written", _never),
    "FC-14, window": lambda patch: patch.setattr(Sender, "watch_window", _never),
    "times": lambda patch: patch.setattr(Stopwatch, "stop", _never),
    "pass": _longer_pass,
    "pass, nothing waits": _longer_first_pass,
    "FC-16, stalled": lambda patch: patch.setattr(session.pacing, "STALLED_LEAST", 200_000),
    "FC-16, stalled at last": lambda patch: patch.setattr(session.pacing, "STALLED_MOST", 1_200_000),
    "FC-16, pauses": lambda patch: patch.setattr(session.pacing, "PAUSES", 5),
    "FC-16, timers": lambda patch: patch.setattr(RealPublisher, "check_at", lambda *_: 1 << 62),
    "FC-16, refilled": lambda patch: patch.setattr(session.patience, "_REFILL", 30),
    "FC-16, who is gone": lambda patch: patch.setattr(session.outbound, "end_pacing", _never),
    "FC-16, relief": lambda patch: patch.setattr(session.backlog, "has_relief", _never),
    "FC-16, first in the mailbox": lambda patch: patch.setattr(Mailbox, "first", lambda *_: _TOO_BIG),
    "FC-33, quantum": lambda patch: patch.setattr(session.fair_mqueue, "QUANTUM", 700),
    "FC-33, cost": lambda patch: patch.setattr(session.fair_mqueue, "COST", 0),
    "FC-33, credit": lambda patch: patch.setattr(FairMQueue, "note_sent", _never),
    "FC-33, at once": lambda patch: patch.setattr(FairMQueue, "_enter", partialmethod(FairMQueue._enter, last=True)),
    "FC-33, what is left": _new_again,
    "FC-33, longest": lambda patch: patch.setattr(FairMQueue, "fullest", lambda queue, own, *_: own or queue.turn),
    "FC-33, FC-16": lambda patch: patch.setattr(FairMQueue, "exceeds_share", MQueue.exceeds_share),
    "FC-37, in its place": lambda patch: patch.setattr(session.backlog, "supersede", lambda *_: False),
    "FC-37, its turn": _goes_on,
    "FC-24a, overhead": lambda patch: patch.setattr(session.cost, "OVERHEAD", 64),
    "FC-24a, topic": lambda patch: patch.setattr(session.address, "cost", lambda each: each.size + OVERHEAD),
    "FC-1, a new connection": lambda patch: patch.setattr(Window, "set_limit", _never),
}


def _pay_for_each(patch: pytest.MonkeyPatch) -> None:
    """FC-16: a publisher pays for each queue that holds it back."""
    pause_once = RealPublisher.pause

    def pause(self: RealPublisher, pacing: session.pacing.Pacing, now: int) -> None:
        pause_once(self, pacing, now)
        if len(self._paused_by) > 1:
            self.patience._level -= 20_000

    patch.setattr(RealPublisher, "pause", pause)


def _without_topics(patch: pytest.MonkeyPatch) -> None:
    """FC-37: after a restart nobody asks which is the newest."""
    for module in (kept_world, kept_group_world):
        lanes_of = module.lanes_of

        def without(knobs: Knobs, before: Callable[[Knobs], LaneRule] = lanes_of) -> LaneRule:
            return LaneRule(before(knobs).priorities, before(knobs).fairness)

        patch.setattr(module, "lanes_of", without)


def _without_pins(patch: pytest.MonkeyPatch) -> None:
    """FC-33: after a restart nobody has a flow."""
    restore = SharedQueue.restore_handed_over

    def restore_handed_over(queue: SharedQueue, publish: Publish, consumer: Consumer) -> None:
        keys, queue._keys = queue._keys, None
        restore(queue, publish, consumer)
        queue._keys = keys

    patch.setattr(SharedQueue, "restore_handed_over", restore_handed_over)


GROUP_BREAKS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "told of room": lambda patch: patch.setattr(SharedQueue, "_wake_able_members", _never),
    "out of line": lambda patch: patch.setattr(SharedQueue, "_dispatch", _never),
    "FC-16, pays for each": _pay_for_each,
    "FC-16, relief": lambda patch: patch.setattr(SharedQueue, "_note_drained", _never),
    "FC-37, in its place": lambda patch: patch.setattr(session.shared_queue, "supersede", lambda *_: False),
    "FC-33, a pin ends": lambda patch: patch.setattr(SharedQueue, "completed", _never),
    "FC-33, one flow": lambda patch: patch.setattr(GroupKeys, "holder", lambda *_: None),
    "FC-33, in its turn": lambda patch: patch.setattr(session.fair_mqueue, "give_turns", lambda lanes: lanes[0]),
    "FC-12, FC-33, round": lambda patch: patch.setattr(PriorityMQueue, "end_seek", _never),
    "pulled in turn": lambda patch: patch.setattr(source, "BLOCKED", -1),
}
KEPT_BREAKS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "FC-10, restored": lambda patch: patch.setattr(Throttle, "restore", _never),
    "PUBREC": lambda patch: patch.setattr(records, "RECEIVED", records.REMEMBERED),
    "FC-33, flows": lambda patch: patch.setattr(SavedDeliveries, "flow_of", lambda *_: 1),
    "FC-37, the newest": _without_topics,
    "FC-24a, on disk": lambda patch: patch.setattr(kept_queue, "release_address", _never),
    "packet ids": lambda patch: patch.setattr(Deliveries, "note_sent", _never),
}
KEPT_GROUP_BREAKS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "FC-13, given back": lambda patch: patch.setattr(message_record, "pulled_from", lambda *_: 0),
    "FC-13, at the head": lambda patch: patch.setattr(KeptGroup, "add_first", KeptGroup.add),
    "FC-37, the newest": _without_topics,
    "FC-33, restored": _without_pins,
    "done": lambda patch: patch.setattr(KeptQueue, "note_done", _never),
}
COMPILED = not session.outbound.__file__.endswith(".py")


KINDS = {
    "session": (BREAKS, drive),
    "group": (GROUP_BREAKS, drive_groups),
    "kept session": (KEPT_BREAKS, drive_kept),
    "kept group": (KEPT_GROUP_BREAKS, drive_kept_groups),
}


SEEDS = {
    "FC-3, busy": 17,
    "FC-10, restored": 22,
    "FC-12, FC-33, round": 41,
    "FC-13, at the head": 17,
    "FC-16, pauses": 7,
    "FC-16, stalled at last": 3,
    "FC-33, flows": 3,
    "FC-33, restored": 14,
    "FC-37, the newest": 6,
    "out of line": 3,
    "pass": 6,
    "pass, nothing waits": 10,
}
"""Seeds with which what is hardest to find is found soon; with 1 it takes up to 30 s."""


@pytest.mark.once
@pytest.mark.skipif(COMPILED, reason="what is compiled cannot be broken")
@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, (breaks, _) in KINDS.items() for name in breaks])
def test_broken_rule_is_found(kind: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever breaks one rule, or is not restored as it was, differs from the model after few steps."""
    breaks, compare = KINDS[kind]
    breaks[name](monkeypatch)

    with pytest.raises(Disagreement):
        compare(BOUND, random.Random(SEEDS.get(name, 1)))
