"""How many sessions of a cell are links to other cells: they are in lists, but are no clients."""

from typing import TYPE_CHECKING, NamedTuple

from config.cluster import CELL

if TYPE_CHECKING:
    from broker.admin.managed import Managed


class LinkCounts(NamedTuple):
    """Links of one cell."""

    sessions: int = 0
    connected: int = 0


def links_of(managed: "Managed") -> LinkCounts:
    """Those of this process; none if it is the only one."""
    count = managed.config.cluster.count
    if count == 1:
        return LinkCounts()
    found = [managed.broker.clients.get(f"{CELL}/{number}") for number in range(1, count + 1)]
    links = [each for each in found if each is not None]
    return LinkCounts(len(links), sum(each.connection is not None for each in links))
