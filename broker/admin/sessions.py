"""The list of sessions, connected or not."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from broker.admin.listing import Filter, Key, Listing, shortened
from broker.admin.rows import SessionRow
from broker.admin.waiting import waits_for
from broker.clients import Client

if TYPE_CHECKING:
    from broker.clients import Clients


def mailbox(client: Client, now: int) -> int:
    """Deliveries in the mailbox."""
    return client.session.outbound.mailbox.length()


def mqueue(client: Client, now: int) -> int:
    """Deliveries in the mqueue."""
    queue = client.session.outbound.mqueue
    return queue.length if queue is not None else 0


def queued_bytes(client: Client, now: int) -> int:
    """Payload bytes in the mqueue."""
    queue = client.session.outbound.mqueue
    return queue.bytes if queue is not None else 0


def window(client: Client, now: int) -> int:
    """Deliveries in the window."""
    return len(client.session.outbound.sender.window.entries)


def window_full(client: Client, now: int) -> int:
    """Microseconds for which the window has been full."""
    return client.session.totals(now).window_full_us


def sent(client: Client, now: int) -> int:
    """Deliveries that have been sent."""
    return client.session.totals(now).sent


def drops(client: Client, now: int) -> int:
    """Deliveries that have been dropped, for any reason."""
    return client.session.totals(now).dropped


def patience(client: Client, now: int) -> int:
    """Microseconds for which publishers have been paced for the session (FC-16)."""
    return client.session.totals(now).paced_for_us


_KEYS: Final[dict[str, Key[Client]]] = {
    "mailbox": mailbox,
    "mqueue": mqueue,
    "bytes": queued_bytes,
    "window": window,
    "window_full": window_full,
    "sent": sent,
    "drops": drops,
    "patience": patience,
}


def _names(client: Client, part: str) -> bool:
    return part in client.session.client_id


def _user(client: Client, wanted: str) -> bool:
    return client.identity is not None and client.identity.user == wanted


def _connected(client: Client, wanted: bool) -> bool:
    return client.session.connected is wanted


def _listener(client: Client, wanted: str) -> bool:
    return client.session.listener == wanted


def _version(client: Client, wanted: int) -> bool:
    return client.session.version == wanted


def _waits_for(client: Client, wanted: str) -> bool:
    return waits_for(client) == wanted


_FILTERS: Final[dict[str, Filter[Client]]] = {
    "client_id": _names,
    "user": _user,
    "connected": _connected,
    "listener": _listener,
    "protocol_version": _version,
    "waits_for": _waits_for,
}


class SessionListing(Listing[Client]):
    """All sessions."""

    row_type = SessionRow
    keys = _KEYS
    filters = _FILTERS
    default = "mqueue"

    def __init__(self, clients: "Clients") -> None:
        self._clients = clients

    def items(self) -> Iterator[Client]:
        """All clients."""
        return self._clients.each()

    def is_there(self, item: Client) -> bool:
        """Whether the session has not ended."""
        return self._clients.knows(item)

    def name(self, item: Client) -> str:
        """The client id."""
        return item.session.client_id

    def row(self, item: Client, now: int) -> SessionRow:
        """One session."""
        return SessionRow(**session_fields(item, now))


def session_fields(item: Client, now: int) -> dict[str, Any]:
    """The fields of a SessionRow."""
    session = item.session
    gauges = session.gauges()
    totals = session.totals(now)
    return {
        "client_id": shortened(session.client_id),
        "listener": session.listener,
        "protocol_version": session.version,
        "connected": session.connected,
        "waits_for": waits_for(item),
        "congested": gauges.congested,
        "mailbox_len": gauges.mailbox_len,
        "mqueue_len": gauges.mqueue_len,
        "mqueue_bytes": gauges.mqueue_bytes,
        "window_len": gauges.window_len,
        "window_limit": gauges.window_limit,
        "window_full_us": totals.window_full_us,
        "offered": totals.offered,
        "sent": totals.sent,
        "acknowledged": totals.acknowledged,
        "dropped": totals.dropped,
        "started_us": session.created_at,
        "paced_for_us": totals.paced_for_us,
        "received": totals.received,
        "received_bytes": totals.received_bytes,
    }
