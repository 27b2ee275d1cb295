"""The list of sessions, connected or not."""

from typing import TYPE_CHECKING, Final

from broker.admin.listing import Key, Listing, shortened
from broker.clients import Client

if TYPE_CHECKING:
    from broker.clients import Clients


def mailbox(client: Client, now: int) -> int:
    """Deliveries in the mailbox."""
    return client.session.gauges().mailbox_len


def mqueue(client: Client, now: int) -> int:
    """Deliveries in the mqueue."""
    return client.session.gauges().mqueue_len


def queued_bytes(client: Client, now: int) -> int:
    """Payload bytes in the mqueue."""
    return client.session.gauges().mqueue_bytes


def window_full(client: Client, now: int) -> int:
    """Microseconds for which the window has been full."""
    return client.session.totals(now).window_full_us


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
    "window_full": window_full,
    "drops": drops,
    "patience": patience,
}


class SessionListing(Listing[Client]):
    """All sessions."""

    columns = (
        "client_id",
        "listener",
        "protocol_version",
        "connected",
        "congested",
        "mailbox_len",
        "mqueue_len",
        "mqueue_bytes",
        "window_len",
        "window_limit",
        "window_full_us",
        "sent",
        "acknowledged",
        "dropped",
        "started_us",
        "paced_for_us",
    )
    keys = _KEYS
    default = "mqueue"

    def __init__(self, clients: "Clients") -> None:
        self._clients = clients

    def items(self) -> list[Client]:
        """All clients."""
        return self._clients.known()

    def is_there(self, item: Client) -> bool:
        """Whether the session has not ended."""
        return self._clients.knows(item)

    def row(self, item: Client, now: int) -> list[object]:
        """The cells of one session."""
        session = item.session
        gauges = session.gauges()
        totals = session.totals(now)
        return [
            shortened(session.client_id),
            session.listener,
            session.version,
            session.connected,
            gauges.congested,
            gauges.mailbox_len,
            gauges.mqueue_len,
            gauges.mqueue_bytes,
            gauges.window_len,
            gauges.window_limit,
            totals.window_full_us,
            totals.sent,
            totals.acknowledged,
            totals.dropped,
            session.created_at,
            totals.paced_for_us,
        ]
