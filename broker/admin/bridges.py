"""The list of bridges: what operators see of the connections to other brokers."""

from typing import TYPE_CHECKING, Any, Final

from broker.admin.listing import Filter, Key, Listing, shortened
from broker.admin.rows import BridgeRow
from broker.bridge.bridge import Bridge
from broker.bridge.status import WAITING
from broker.runtime.clock import SECOND
from broker.telemetry.slices import Slices
from session.session import Session

if TYPE_CHECKING:
    from broker.bridge.bridges import Bridges


def queue(bridge: Bridge, now: int) -> int:
    """Deliveries that wait."""
    session = _session(bridge)
    if session is None:
        return 0
    gauges = session.gauges()
    return gauges.mqueue_len + gauges.mailbox_len


def queued_bytes(bridge: Bridge, now: int) -> int:
    """Payload bytes in the mqueue."""
    session = _session(bridge)
    return 0 if session is None else session.gauges().mqueue_bytes


def oldest(bridge: Bridge, now: int) -> int:
    """Microseconds for which the oldest delivery has waited; 0 = none waits."""
    session = _session(bridge)
    if session is None:
        return 0
    mqueue, mailbox = session.outbound.mqueue, session.outbound.mailbox
    since = 0 if mqueue is None else mqueue.oldest()
    if not since and mailbox.length():
        since = mailbox.first().received_at
    return now - since if since else 0


def drops(bridge: Bridge, now: int) -> int:
    """Deliveries that have been dropped, for any reason."""
    session = _session(bridge)
    return 0 if session is None else session.totals(now).dropped


_KEYS: Final[dict[str, Key[Bridge]]] = {"queue": queue, "bytes": queued_bytes, "oldest": oldest, "drops": drops}

_FILTERS: Final[dict[str, Filter[Bridge]]] = {
    "bridge": lambda bridge, part: part in bridge.settings.name,
    "state": lambda bridge, wanted: bridge.status.state == wanted,
}


class BridgeListing(Listing[Bridge]):
    """All bridges that are enabled."""

    row_type = BridgeRow
    keys = _KEYS
    filters = _FILTERS
    default = "name"

    def __init__(self, bridges: "Bridges") -> None:
        self._bridges = bridges

    def items(self) -> list[Bridge]:
        """All of them."""
        return list(self._bridges.all.values())

    def is_there(self, item: Bridge) -> bool:
        """Whether the configuration still has it."""
        return self._bridges.all.get(item.settings.name) is item

    def name(self, item: Bridge) -> str:
        """Its name."""
        return item.settings.name

    def row(self, item: Bridge, now: int) -> BridgeRow:
        """One bridge."""
        return bridge_row(item, now)


async def bridge_rows(bridges: "Bridges") -> list[BridgeRow]:
    """All rows, in the order of the configuration, made in slices."""
    slices = Slices()
    rows: list[BridgeRow] = []
    for bridge in list(bridges.all.values()):
        rows.append(bridge_row(bridge, slices.began))
        await slices.breathe()
    return rows


def bridge_row(bridge: Bridge, now: int) -> BridgeRow:
    """All that operators see of one bridge."""
    settings, status = bridge.settings, bridge.status
    return BridgeRow(
        bridge=settings.name,
        remote=status.remote or None,
        protocol_version=5 if settings.proto_ver == "5" else 4,
        state=status.state,
        state_seconds=_seconds(now - status.since),
        next_attempt_seconds=_seconds(max(status.next_at - now, 0)) if status.state == WAITING else None,
        failure=shortened(status.failure) or None,
        connects=status.connects,
        failures=status.failures,
        queue=queue(bridge, now),
        queue_bytes=queued_bytes(bridge, now),
        oldest_seconds=_seconds(oldest(bridge, now)),
        refused_out=status.refused_out,
        refused_in=status.refused_in,
        loops=status.loops,
        filters_refused=[shortened(each) for each in status.filters_refused],
        **_session_fields(_session(bridge), now),
    )


def _session_fields(session: Session | None, now: int) -> dict[str, Any]:
    """The fields of the window and the counts; a bridge with clean_start has no session before it is connected."""
    if session is None:
        return dict.fromkeys(("inflight", "window", "sent", "acknowledged", "received", "dropped"), 0)
    gauges, totals = session.gauges(), session.totals(now)
    return {
        "inflight": gauges.window_len,
        "window": gauges.window_limit,
        "sent": totals.sent,
        "acknowledged": totals.acknowledged,
        "received": totals.received,
        "dropped": totals.dropped,
    }


def _session(bridge: Bridge) -> Session | None:
    client = bridge.session.client
    return None if client is None else client.session


def _seconds(us: int) -> float:
    return round(us / SECOND, 3)
