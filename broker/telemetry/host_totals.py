"""What cells tell each other of their totals, so that `$SYS` is about the host (broker/cluster)."""

from typing import NamedTuple

from session.outbound import Outbound

Counts = dict[str, int]


class CellTotals(NamedTuple):
    """The numbers of one cell, by their topics. What comes and goes by links is not in them."""

    counters: Counts
    """They only grow. Those of processes that have ended stay in the sums."""
    gauges: Counts


class HostSums(NamedTuple):
    """The numbers of all cells together."""

    sums: CellTotals
    cells: dict[str, CellTotals]
    """Those of each, by its name."""
    uptime: int
    """Seconds since the host has started."""
    most_connected: int


class HostTotals:
    """Exchanges them."""

    publisher: Outbound
    """Who publishes topics that each cell has for itself: not to other cells."""

    async def exchange(self, own: CellTotals) -> HostSums | None:
        """Tell the numbers of this cell, and get those of the host; None = there is no answer."""
        raise NotImplementedError  # one of several processes has it
