"""The totals of the host, which the keeper adds up: each cell tells its own, and publishes the sums (`$SYS`)."""

import asyncio
from typing import Any, Final

from broker.broker import Broker
from broker.runtime.clock import SECOND, monotonic_us
from broker.server.questions import Questions
from broker.telemetry.host_totals import CellTotals, Counts, HostSums, HostTotals
from config.cluster import CELL
from session.host import NoHost
from session.session import Session

CONNECTED: Final = "clients/connected"


class AskedTotals(HostTotals):
    """A cell's side."""

    def __init__(self, broker: Broker, questions: Questions, name: str) -> None:
        """`name`: of the host."""
        self.publisher = Session(CELL, broker.settings.profiles[CELL], NoHost(), monotonic_us()).outbound
        self._questions = questions
        self._name = name

    async def exchange(self, own: CellTotals) -> HostSums | None:
        """Ask the keeper."""
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def then(answer: Any) -> None:
            if not answered.done():  # the broker may stop
                answered.set_result(answer)

        self._questions.ask("totals", *own, then=then)
        answer = await answered
        if answer is None:
            return None
        sums, cells, uptime, most = answer
        named = {f"{self._name}.{number}": CellTotals(*each) for number, each in cells.items()}
        return HostSums(CellTotals(*sums), named, uptime, most)


class SummedTotals:
    """The keeper's side."""

    def __init__(self) -> None:
        self._started = monotonic_us()
        self._ended: Counts = {}
        """Counters of processes that have ended."""
        self._cells: dict[int, CellTotals] = {}
        self._most = 0

    def tell(self, cell: int, counters: Counts, gauges: Counts) -> tuple[CellTotals, dict[int, CellTotals], int, int]:
        """A cell tells its numbers; returns those of the host."""
        self._cells[cell] = CellTotals(counters, gauges)
        sums = CellTotals(dict(self._ended), {})
        for own in self._cells.values():
            for into, counts in zip(sums, own, strict=True):
                _add(into, counts)
        self._most = max(self._most, sums.gauges.get(CONNECTED, 0))
        uptime = (monotonic_us() - self._started) // SECOND
        return sums, dict(sorted(self._cells.items())), uptime, self._most

    def end(self, cell: int) -> None:
        """A process has ended."""
        own = self._cells.pop(cell, None)
        if own is not None:
            _add(self._ended, own.counters)


def _add(into: Counts, counts: Counts) -> None:
    for name, count in counts.items():
        into[name] = into.get(name, 0) + count
