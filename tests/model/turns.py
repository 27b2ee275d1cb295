"""FC-33: the turns of the flows that wait."""

from collections.abc import Callable
from itertools import cycle
from typing import Final

from tests.model.message import Message

QUANTUM: Final = 512
"""FC-33: bytes that a flow may send more in each round."""


def cost(message: Message) -> int:
    """FC-33: what a delivery costs its flow. Corner: an empty one is not free."""
    return message.size + 64


IsOpen = Callable[[Message], bool]
"""FC-33, keys: whether a message may go to those that are asked."""


class Round:
    """FC-33: the flows that wait, of one weight: the first one has its turn."""

    def __init__(self) -> None:
        self.flows: list[int] = []
        self.left: dict[int, int] = {}
        """Bytes that a flow may still send in this round. Corner: they are gone when nothing of it waits."""
        self.done = 0
        """How many, at the end of `flows`, have had their turn in this round."""
        self.rest: dict[int, int] = {}
        """What flows had left when nothing of them waited any more, in this round."""

    def copy(self) -> "Round":
        """The same, to play with."""
        aside = Round()
        aside.flows, aside.left = list(self.flows), dict(self.left)
        aside.done, aside.rest = self.done, dict(self.rest)
        return aside

    def join(self, flow: int, last: bool = False) -> None:
        """Something of a flow waits: a new one has its turn at once, and who had it goes on after that.

        Corner: with what it has left in this round. After a restart a flow is after all others (`last`).
        """
        if flow in self.flows:
            return
        if self.flows and last:
            self.flows.append(flow)
            self.left[flow] = 0
            self.done += 1
            return
        if self.flows:
            self.left[self.flows[0]] -= QUANTUM
        self.flows.insert(0, flow)
        self.left[flow] = self.rest.pop(flow, QUANTUM)

    def leave(self, flow: int) -> None:
        """Nothing of a flow waits any more."""
        place = self.flows.index(flow)
        self.flows.remove(flow)
        self.rest[flow] = min(self.left[flow], QUANTUM)
        if place > len(self.flows) - self.done:
            self.done -= 1
        self._end_round()
        if place == 0 and self.flows:
            self.left[self.flows[0]] += QUANTUM

    def _end_round(self) -> None:
        """If all have had their turn."""
        if self.done == len(self.flows):
            self.done = 0
            self.rest = {}

    def seek(self, heads: dict[int, Message], is_open: "IsOpen") -> Message | None:
        """FC-33, keys: the turns of flows that are not open are left out; returns the head of the first that is.

        Corner: who is left out in its turn keeps what its head costs. Who can send its head already gets nothing more.
        """
        flows = [flow for flow in self.flows if is_open(heads[flow])]
        if not flows:
            return None
        if flows[0] != self.flows[0]:
            self.left[self.flows[0]] = min(self.left[self.flows[0]], cost(heads[self.flows[0]]))
            turns = cycle(flows)
            turn = next(turns)
            while self._still_lacks(turn, heads):
                turn = next(turns)
            self._pass(self.flows.index(turn))
        return heads[self.flows[0]]

    def _pass(self, turns: int) -> None:
        """So many turns are over."""
        for _ in range(turns):
            self.flows.append(self.flows.pop(0))
            self.done += 1
            self._end_round()

    def _still_lacks(self, flow: int, heads: dict[int, Message]) -> bool:
        """Its turn begins; returns whether it ends at once."""
        if self.left[flow] < cost(heads[flow]):
            self.left[flow] += QUANTUM
        return self.left[flow] < cost(heads[flow])

    def settle(self, heads: dict[int, Message]) -> None:
        """Turns end until the first flow may send its head. Corner: one that is alone need not wait for that."""
        while self.flows and self.left[self.flows[0]] < cost(heads[self.flows[0]]):
            if len(self.flows) == 1:
                self.left[self.flows[0]] = cost(heads[self.flows[0]])
                self.rest = {}
                return
            self._pass(1)
            self.left[self.flows[0]] += QUANTUM
