"""The list of connected clients: who they are and where they come from."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from broker.admin.listing import Filter, Key, Listing, shortened
from broker.admin.rows import ClientRow
from broker.clients import Client
from broker.connection.connection import Connection
from broker.connection.log import address_of
from config.cluster import CELL

if TYPE_CHECKING:
    from broker.clients import Clients


def subscriptions(client: Client, now: int) -> int:
    """Topic filters of the session."""
    return len(client.session.subscriptions or ())


_KEYS: Final[dict[str, Key[Client]]] = {"subscriptions": subscriptions}


def _names(client: Client, part: str) -> bool:
    return part in client.session.client_id


def _user(client: Client, wanted: str) -> bool:
    return client.identity is not None and client.identity.user == wanted


def _listener(client: Client, wanted: str) -> bool:
    return client.session.listener == wanted


_FILTERS: Final[dict[str, Filter[Client]]] = {"client_id": _names, "user": _user, "listener": _listener}


class ClientListing(Listing[Client]):
    """All connected clients."""

    row_type = ClientRow
    keys = _KEYS
    filters = _FILTERS
    default = "name"

    def __init__(self, clients: "Clients") -> None:
        self._clients = clients

    def items(self) -> Iterator[Client]:
        """All that are known; `is_there` leaves out those that are away."""
        return self._clients.each()

    def is_there(self, item: Client) -> bool:
        """Whether the client is connected, and is no other cell."""
        return item.connection is not None and item.session.listener != CELL

    def name(self, item: Client) -> str:
        """The client id."""
        return item.session.client_id

    def row(self, item: Client, now: int) -> ClientRow:
        """One client."""
        connection = item.connection
        own = connection if isinstance(connection, Connection) else None
        return ClientRow(
            client_id=shortened(item.session.client_id),
            user=None if item.identity is None else item.identity.user,
            roles=[] if item.identity is None else sorted(item.identity.roles),
            peer="" if own is None else address_of(own),
            listener=item.session.listener,
            protocol_version=item.session.version,
            expiry_interval=item.expiry_interval,
            will=own is not None and own.will is not None,
            subscriptions=subscriptions(item, now),
            bridge=item.bridge,
        )
