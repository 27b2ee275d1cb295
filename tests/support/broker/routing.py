"""A router by itself, and receivers that keep what they are offered."""

from typing import Final

from broker.routing.router import Router
from session.host import NoHost
from session.limits import Limits
from session.outbound import Outbound

LIMITS: Final = Limits()


def outbound() -> Outbound:
    """A receiver whose mailbox nobody takes up."""
    made = Outbound(LIMITS, NoHost(), 0)
    made.sender.host.awake = True
    return made


def router(cached_topics: int = 65_536, cached_one_in: int = 1) -> Router:
    """A router with the default depth. By itself it caches each topic."""
    return Router(128, cached_topics=cached_topics, cached_one_in=cached_one_in)


def received(receiver: Outbound) -> list[tuple[str, int]]:
    """Topic and QoS of what has been handed over since the last call."""
    return [(delivery.topic.decode(), delivery.qos) for delivery in receiver.mailbox.take_all()]
