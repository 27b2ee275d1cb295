"""What the broker is and how it is set: overview, listeners, configuration, and one session in detail."""

from datetime import UTC, datetime
from typing import Final

from fastapi import APIRouter, HTTPException
from pydantic import BaseModel, Field

from broker import __version__
from broker.admin.api.problem import refusals
from broker.admin.cell_links import links_of
from broker.admin.managed import Managed
from broker.admin.rows import SessionRow
from broker.admin.sessions import session_fields
from broker.admin.trace.watched import reading_paused
from broker.admin.waiting import advice, backlog_us, because, waits_for
from broker.clients import Client
from broker.connection.connection import Connection
from broker.connection.log import address_of
from broker.disconnects import reason_name
from broker.runtime.clock import SECOND, monotonic_us, wall_us
from config.render import explained, settings

_HELD: Final = ("refused", "parked", "paged", "discarded")
"""What may be done with a PUBLISH for which there is no room (FC-24)."""


class Overview(BaseModel):
    """The broker at a glance."""

    broker: str
    version: str
    uptime_seconds: int
    ready: bool
    not_ready_because: list[str]
    connections: int
    clients_connected: int
    sessions: int
    retained: int = Field(description="Retained messages, with those under $SYS.")
    groups: int
    addresses_full: int
    packets_received: int
    bytes_received: int
    bytes_sent: int


class ListenerInfo(BaseModel):
    """One socket of a listener."""

    name: str
    host: str | None = Field(description="null = a Unix socket.")
    port: int | None
    path: str | None = Field(description="Of a Unix socket.")
    tls: bool
    websocket: list[str] | None = Field(description="The paths of its URL; null = MQTT without WebSocket.")
    proxy_protocol: bool


class Setting(BaseModel):
    """One key of the configuration, with the value that applies."""

    key: str
    value: object
    source: str = Field(description="A file with its line, a variable, a flag, or default; empty = not known.")


class LastDisconnect(BaseModel):
    """How the last connection of a client has ended."""

    reason: str = Field(description="MQTT 5's name of its reason code, `Connection lost` or `Client error`.")
    at: str = Field(description="When, in UTC, by ISO 8601.")
    ago_us: int


class SessionDetail(SessionRow):
    """One session, and why it waits."""

    because: str = Field(description="The reason, in the words of the report.")
    advice: str = Field(description="Why it waits, and which key of the configuration changes it.")
    user: str | None = Field(description="Whom its client has authenticated as; null = not by a user name.")
    peer: str = Field(description="The address and port of its connection; empty = it has none.")
    last_disconnect: LastDisconnect | None = Field(description="null = not since the broker has started.")
    age_us: int = Field(description="How long ago it began.")
    backlog_us: int = Field(
        description="For how long something has waited in the mqueue, at most since the client has connected; 0 = it "
        "does not, or that was before the broker started."
    )
    max_mqueue_len: int = Field(description="0 = no limit.")
    gated: dict[str, int] = Field(description="QoS 0 that was queued, by reason, in this interval of the metrics.")
    drops: dict[str, int] = Field(description="Deliveries dropped in this interval, by reason and QoS.")
    publish_held: dict[str, int] = Field(
        description="PUBLISHes from the client that were not routed at once in this interval, by what was done."
    )
    reading_paused: list[str] = Field(description="Why the broker does not read the client; empty if it does.")
    interval_us: int = Field(description="How long the interval has lasted.")
    subscriptions: int


def overview_router(managed: Managed) -> APIRouter:
    """The endpoints of the broker and its settings."""
    router = APIRouter(tags=["broker"])
    broker = managed.broker

    @router.get("/broker")
    async def overview() -> Overview:
        """The broker at a glance."""
        reasons = managed.unready()
        links = links_of(managed)
        return Overview(
            broker=managed.config.node_name,
            version=__version__,
            uptime_seconds=(monotonic_us() - managed.started_us) // SECOND,
            ready=not reasons,
            not_ready_because=reasons,
            connections=len(broker.connections) - links.connected,
            clients_connected=broker.clients.connected - links.connected,
            sessions=len(broker.clients) - links.sessions,
            retained=len(broker.retained),
            groups=len(broker.router.shared.queues),
            addresses_full=broker.addresses.full,
            packets_received=broker.totals.packets_received,
            bytes_received=broker.totals.bytes_received,
            bytes_sent=broker.totals.bytes_sent,
        )

    @router.get("/listeners")
    async def listeners() -> list[ListenerInfo]:
        """Where clients can connect."""
        return [
            ListenerInfo(
                name=opened["listener"],
                host=opened.get("host"),
                port=opened.get("port"),
                path=opened.get("path"),
                tls=opened["tls"],
                websocket=opened.get("websocket"),
                proxy_protocol=opened.get("proxy_protocol", False),
            )
            for opened in managed.listeners.opened
        ]

    @router.get("/configuration")
    async def configuration() -> list[Setting]:
        """Every key with its value and where it comes from; secrets are hidden."""
        found = settings(managed.config, explained(managed.config, managed.sources))
        return [Setting(key=key, value=value, source=source) for key, value, source in found]

    return router


def session_router(managed: Managed) -> APIRouter:
    """The endpoint of one session."""
    router = APIRouter(tags=["lists"])
    broker = managed.broker

    @router.get("/sessions/{client_id:any}", responses=refusals(404))
    async def session(client_id: str) -> SessionDetail:
        """One session: what it waits for, in words, and which key of the configuration holds it back."""
        client = broker.clients.get(client_id)
        if client is None:
            raise HTTPException(404, f"there is no session {client_id[:256]!r}")
        return session_detail(client, monotonic_us())

    return router


def session_detail(client: Client, now: int) -> SessionDetail:
    """All about one session, at a time in microseconds."""
    session = client.session
    counters = session.counters
    reason = waits_for(client)
    connection = client.connection
    own = connection if isinstance(connection, Connection) else None
    reasons = ("congested", "window_full", "mailbox_busy", "backlog", "rate")
    return SessionDetail(
        **session_fields(client, now),
        because=because(reason),
        advice=advice(reason, client),
        user=None if client.identity is None else client.identity.user,
        peer="" if own is None else address_of(own),
        last_disconnect=_last_disconnect(client, now),
        age_us=now - session.created_at,
        backlog_us=backlog_us(client, now),
        max_mqueue_len=session.limits.max_mqueue_len,
        gated={reason: getattr(counters.uncommon, f"gated_{reason}") for reason in reasons},
        drops={name.removeprefix("dropped_"): count for name, count in (counters.drops or {}).items()},
        publish_held={name: count for name in _HELD if (count := getattr(counters.uncommon, f"publish_{name}"))},
        reading_paused=[] if own is None else reading_paused(own),
        interval_us=now - counters.interval_start,
        subscriptions=len(session.subscriptions or ()),
    )


def _last_disconnect(client: Client, now: int) -> LastDisconnect | None:
    if not client.disconnected_at:
        return None
    ago = now - client.disconnected_at
    at = datetime.fromtimestamp((wall_us() - ago) / SECOND, UTC).isoformat(timespec="milliseconds")
    return LastDisconnect(reason=reason_name(client.disconnected_by), at=at, ago_us=ago)
