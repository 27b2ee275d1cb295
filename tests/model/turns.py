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

    def copy(self) -> "Round":
        """The same, to play with."""
        aside = Round()
        aside.flows, aside.left = list(self.flows), dict(self.left)
        return aside

    def join(self, flow: int) -> None:
        """Something of a flow waits. Corner: the turn of a new one is after those of all others."""
        if flow not in self.flows:
            self.flows.append(flow)
            self.left[flow] = QUANTUM if len(self.flows) == 1 else 0

    def leave(self, flow: int) -> None:
        """Nothing of a flow waits any more."""
        had_turn = self.flows[0] == flow
        self.flows.remove(flow)
        if had_turn and self.flows:
            self.left[self.flows[0]] += QUANTUM

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
            position = self.flows.index(turn)
            self.flows = self.flows[position:] + self.flows[:position]
        return heads[self.flows[0]]

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
                return
            self.flows.append(self.flows.pop(0))
            self.left[self.flows[0]] += QUANTUM
