"""Log lines about connections: who comes, goes or is refused, with the reason; at level debug also subscriptions.

Nothing here is called per message, and the lines of level debug only if `Events.debug` is set.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from broker.auth.identity import Identity
from broker.connection.peer import Peer
from broker.disconnects import reason_name
from broker.events import Events
from protocol import reason_codes
from protocol.connect import Connect
from protocol.errors import MQTTError, PacketTooLarge
from protocol.replies import shortened

MOST_FILTERS: Final = 20
"""Topic filters of one packet that are logged, at most."""
_MAPPED: Final = "::ffff:"
"""Prefix of an IPv4 address on an IPv6 socket, such as systemd's by default."""
_VERSIONS: Final = {4: "3.1.1", 5: "5.0"}


def host_of(peer: object) -> str:
    """The IP address of a peer, as event loops name it: IPv4 as such, whatever the socket is. Empty if it has none."""
    if not isinstance(peer, tuple):
        return ""
    host = str(peer[0])
    return host.removeprefix(_MAPPED) if "." in host else host


def peer_of(transport: asyncio.Transport | None) -> str:
    """The peer address as `host:port`; empty if it is unknown."""
    name: Any = None if transport is None else transport.get_extra_info("peername")
    if not isinstance(name, tuple) or len(name) < 2:
        return ""
    host = host_of(name)
    return f"[{host}]:{name[1]}" if ":" in host else f"{host}:{name[1]}"


def address_of(connection: Peer) -> str:
    """The client's address and port, also behind a trusted proxy; empty if they are unknown."""
    return connection.peer or peer_of(connection.socket.transport)


def log_refused(events: Events, connection: Peer, error: MQTTError, most: int) -> None:
    """Log a protocol error or a refused CONNECT. The line has a bounded length: it quotes the client.

    `most`: mqtt.max_packet_size in bytes.
    """
    more: dict[str, object] = {}
    if isinstance(error, PacketTooLarge) and error.size:
        more = {"size": error.size, "limit": error.limit}
        if error.limit == most:
            more["key"] = "mqtt.max_packet_size"
    events.log.info(
        "client_refused",
        **_who(connection, connection.client_id or error.client_id),
        reason=reason_codes.name(error.reason_code),
        detail=shortened(error.message),
        **more,
    )


def log_websocket_refused(events: Events, connection: Peer, reason: str) -> None:
    """Log that a client's handshake of WebSocket is refused."""
    events.log.info(
        "websocket_refused", listener=connection.listener, peer=address_of(connection), reason=shortened(reason)
    )


def log_connected(
    events: Events, connection: Peer, connect: Connect, identity: Identity | None, expiry: int, session_present: bool
) -> None:
    """Log that a client has its session; `expiry` in seconds."""
    _log_client(
        events,
        connection,
        "connected",
        user=None if identity is None else shortened(identity.user),
        version="3.1" if connect.mqtt31 else _VERSIONS[connect.version],
        bridge=connect.bridge,
        clean_start=connect.clean_start,
        keep_alive=connect.keep_alive,
        session_expiry=expiry,
        session_present=session_present,
        will=connect.will is not None,
    )


def log_taken_over(events: Events, older: Peer, newer: Peer, now: int) -> None:
    """Log that a client has connected again, while `older` was its connection."""
    client_id = shortened(older.client_id)
    events.taken_over(client_id, older.listener, address_of(older), address_of(newer), now)


def log_disconnected(events: Events, connection: Peer) -> None:
    """Log that a client with a session is disconnected, or is about to be."""
    connection.end_logged = True
    why = shortened(connection.why)
    _log_client(events, connection, "disconnected", reason=reason_name(connection.ends_by), detail=why)


def log_closed(events: Events, connection: Peer) -> None:
    """Log that a connection is closed on which there was no session."""
    who = _who(connection, connection.client_id)
    events.log.debug("disconnected", **who, detail=shortened(connection.why))


def _log_client(events: Events, connection: Peer, event: str, **fields: object) -> None:
    """Log something of a client with a session, unless there are too many lines of it."""
    who = _who(connection, connection.client_id)
    if events.tells(event, connection.listener, who["client_id"]):
        events.log.info(event, **who, **fields)


def _who(connection: Peer, client_id: str) -> dict[str, str]:
    """How each line names a client."""
    return {"client_id": shortened(client_id), "peer": address_of(connection), "listener": connection.listener}


def log_subscribed(events: Events, client_id: str, filters: Sequence[str], codes: Sequence[int]) -> None:
    """Log a SUBSCRIBE: each filter with the granted QoS, or why it was refused."""
    granted = {
        shortened(topic_filter): code if code < reason_codes.UNSPECIFIED_ERROR else _why_not(code)
        for topic_filter, code in zip(filters[:MOST_FILTERS], codes, strict=False)
    }
    _log_filters(events, "subscribed", client_id, granted, len(filters))


def log_unsubscribed(events: Events, client_id: str, filters: Sequence[str], codes: Sequence[int]) -> None:
    """Log an UNSUBSCRIBE: each filter with the name of its reason code."""
    ended = {
        shortened(topic_filter): reason_codes.name(code)
        for topic_filter, code in zip(filters[:MOST_FILTERS], codes, strict=False)
    }
    _log_filters(events, "unsubscribed", client_id, ended, len(filters))


def _why_not(code: int) -> str:
    """The name of the reason code; SUBACK may have 0x80 for a filter that is not authorized (`refused_subscribe`)."""
    return reason_codes.name(reason_codes.NOT_AUTHORIZED if code == reason_codes.UNSPECIFIED_ERROR else code)


def _log_filters(events: Events, event: str, client_id: str, shown: "dict[str, Any]", count: int) -> None:
    more = {"more": count - MOST_FILTERS} if count > MOST_FILTERS else {}
    events.log.debug(event, client_id=shortened(client_id), filters=shown, **more)
