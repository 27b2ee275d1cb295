"""Which answer of another cell SUBACK waits for (CL-1)."""

from pathlib import Path
from typing import cast

import pytest

from broker.broker import Broker
from broker.cluster.cell import Cell
from broker.cluster.cell_link import CellLink
from broker.cluster.own_filters import OwnFilter, OwnFilters
from broker.cluster.retained_order import RetainedOrder
from config.models import Config
from protocol.subscribe import Subscription
from session.host import NoHost
from session.limits import Limits
from session.outbound import Outbound

pytestmark = pytest.mark.once  # compiled code takes no other class for a link
FILTER = "a/+"


class Link:
    """The link to a cell that lives."""

    number = 2
    lives = True

    def __init__(self) -> None:
        self.told: list[OwnFilter] = []

    def tell(self, told: OwnFilter) -> bool:
        """SUBSCRIBE."""
        self.told.append(told)
        return True

    def tell_end(self, topic_filter: str) -> None:
        """UNSUBSCRIBE."""


class OneOfTwo:
    """The filters of a cell beside one other."""

    def __init__(self) -> None:
        broker = Broker(Config(), 0)
        self.link = Link()
        self.own = OwnFilters(Cell(1, 2, Path()), broker, RetainedOrder(1))
        self.own.links.append(cast("CellLink", self.link))
        self.happened: list[str] = []
        """To the SUBACK."""
        self._client = Outbound(Limits(), NoHost(), 0)

    def subscribe(self) -> OwnFilter:
        """A client subscribes; returns what the other cell has to answer."""
        self.own.subscribes(self._client, Subscription(FILTER, 1), True)
        return self.link.told[-1]

    def wait(self) -> None:
        """Have a SUBACK wait."""
        self.own.when_known(
            [FILTER], lambda newer: self.happened.append("answered"), lambda: self.happened.append("too late")
        )


def test_the_answer_to_an_earlier_subscribe_says_nothing() -> None:
    """Behind it the other cell reads UNSUBSCRIBE: what is published before the next SUBSCRIBE would be missed."""
    cell = OneOfTwo()
    earlier = cell.subscribe()
    cell.own.ended(FILTER.encode())
    asked = cell.subscribe()
    cell.wait()
    cell.own.known_at(2, [earlier])
    assert cell.own.unknown([FILTER])
    assert cell.happened == []
    cell.own.known_at(2, [asked])
    assert not cell.own.unknown([FILTER])
    assert cell.happened == ["answered"]


def test_a_subscription_that_has_ended_is_not_waited_for() -> None:
    """Its SUBACK is sent when UNSUBSCRIBE comes: nobody tells other cells of the filter any more."""
    cell = OneOfTwo()
    cell.subscribe()
    cell.wait()
    cell.own.ended(FILTER.encode())
    assert cell.happened == ["answered"]
