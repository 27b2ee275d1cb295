"""The list of subscriptions, of all sessions."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.admin.listing import Filter, Key, Listing, shortened
from broker.admin.rows import SubscriptionRow
from broker.clients import Client
from config.cluster import CELL
from protocol.subscribe import Subscription
from protocol.topics import SHARE_PREFIX

if TYPE_CHECKING:
    from broker.clients import Clients


class Subscribed(NamedTuple):
    """A session and one of its subscriptions."""

    client: Client
    subscription: Subscription


_NONE: Final = Subscription("")
"""No session has it."""

_KEYS: Final[dict[str, Key[Subscribed]]] = {"qos": lambda item, _: item.subscription.qos}

_FILTERS: Final[dict[str, Filter[Subscribed]]] = {
    "client_id": lambda item, wanted: item.client.session.client_id == wanted,
    "topic_filter": lambda item, part: part in item.subscription.topic_filter,
    "shared": lambda item, wanted: item.subscription.topic_filter.startswith(SHARE_PREFIX) is wanted,
}


class SubscriptionListing(Listing[Subscribed]):
    """All subscriptions."""

    row_type = SubscriptionRow
    keys = _KEYS
    filters = _FILTERS
    default = "name"

    def __init__(self, clients: "Clients") -> None:
        self._clients = clients

    def items(self) -> Iterator[Subscribed]:
        """Session by session, so that no moment has to make a list of all. One without any counts as a step, too."""
        for client in self._clients.each():
            for subscription in list((client.session.subscriptions or {}).values()) or [_NONE]:
                yield Subscribed(client, subscription)

    def is_there(self, item: Subscribed) -> bool:
        """Whether the session has it, and is no link: what links subscribe to, clients have subscribed to elsewhere."""
        subscriptions = item.client.session.subscriptions
        has_it = subscriptions is not None and subscriptions.get(item.subscription.topic_filter) is item.subscription
        return has_it and item.client.session.listener != CELL and self._clients.knows(item.client)

    def name(self, item: Subscribed) -> str:
        """Client id and filter; neither has a null character."""
        return f"{item.client.session.client_id}\0{item.subscription.topic_filter}"

    def row(self, item: Subscribed, now: int) -> SubscriptionRow:
        """One subscription."""
        return subscription_row(item.client, item.subscription)


def subscription_row(client: Client, subscription: Subscription) -> SubscriptionRow:
    """One subscription of a client."""
    return SubscriptionRow(
        client_id=shortened(client.session.client_id),
        topic_filter=shortened(subscription.topic_filter),
        qos=subscription.qos,
        no_local=subscription.no_local,
        retain_as_published=subscription.retain_as_published,
        retain_handling=subscription.retain_handling,
        shared=subscription.topic_filter.startswith(SHARE_PREFIX),
    )
